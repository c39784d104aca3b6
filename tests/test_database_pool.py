"""While PostgreSQL is away, requests do not wait for a connection as if all were in use."""

from typing import Any

import psycopg
import pytest
from django.db import connection
from psycopg_pool import ConnectionPool, PoolTimeout

from config.database.pool import UNREACHABLE, fail_waiting
from harness.ports import free_port


def pool(address: str, timeout: float) -> "ConnectionPool[psycopg.Connection[Any]]":
    return ConnectionPool(
        address,
        min_size=0,
        max_size=1,
        timeout=timeout,
        reconnect_timeout=0.01,
        reconnect_failed=fail_waiting,
        open=True,
    )


def test_a_request_learns_that_the_database_is_away() -> None:
    with pool(f"host=127.0.0.1 port={free_port()} dbname=none", 60) as connections:
        for _ in range(2):
            with pytest.raises(psycopg.OperationalError, match=UNREACHABLE):
                connections.getconn()


@pytest.mark.django_db
def test_a_request_waits_while_all_connections_are_in_use() -> None:
    own = connection.settings_dict
    address = f"host={own['HOST']} dbname={own['NAME']} user={own['USER']}"
    with pool(address, 0.1) as connections, connections.connection():
        fail_waiting(connections)
        with pytest.raises(PoolTimeout):
            connections.getconn()
