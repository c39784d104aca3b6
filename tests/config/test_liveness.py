"""Both ends of a connection detect that the machine at the other end is gone."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import psycopg
import pytest
import redis
from django.db import Error, connection
from django.db.backends.base.base import BaseDatabaseWrapper

from config import environment
from config.celery import app
from config.database import broker, keepalive
from config.settings import _connected
from harness.networks import Namespaces, why_not
from tests.start.external import External, external
from tests.start.running import until

OURS = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "2",
    "tcp_user_timeout": "15000",
    "idle_in_transaction_session_timeout": "1min",
}


@pytest.fixture(scope="module")
def server() -> Iterator[External]:
    with external() as server:
        yield server


@contextmanager
def connected(url: str) -> Iterator[BaseDatabaseWrapper]:
    """A connection as each of the service's roles opens it."""
    own = connection.copy()
    own.settings_dict.update(_connected(environment.database("DATABASE_URL", url)))
    with closing(own):
        own.ensure_connection()
        yield own


def option(raw: Any, name: str) -> int:
    """The option of the socket that the connection is on."""
    with socket.socket(fileno=os.dup(raw.fileno())) as copy:
        return copy.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))


def setting_of(database: BaseDatabaseWrapper, name: str) -> str:
    with database.cursor() as cursor:
        cursor.execute(f"SHOW {name}")
        return str(cursor.fetchone()[0])


# --- PostgreSQL -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.django_db
def test_both_ends_of_a_connection_send_keepalives(server: External) -> None:
    with connected(server.url) as database:
        assert option(database.connection, "TCP_KEEPIDLE") == 5
        assert option(database.connection, "TCP_KEEPINTVL") == 5
        assert option(database.connection, "TCP_USER_TIMEOUT") == 15_000
        assert {name: setting_of(database, name) for name in OURS} == OURS


@pytest.mark.slow
@pytest.mark.django_db
def test_options_in_the_database_url_take_precedence(server: External) -> None:
    query = "keepalives_idle=77&options=-c%20idle_in_transaction_session_timeout%3D5s"
    with connected(f"{server.url}?{query}") as database:
        assert option(database.connection, "TCP_KEEPIDLE") == 77
        assert setting_of(database, "idle_in_transaction_session_timeout") == "5s"
        assert setting_of(database, "tcp_user_timeout") == "15000"


@pytest.mark.django_db
def test_a_unix_socket_has_only_the_timeout_of_idle_transactions() -> None:
    assert setting_of(connection, "tcp_user_timeout") == "0"
    assert setting_of(connection, "idle_in_transaction_session_timeout") == "1min"


@pytest.mark.django_db
def test_a_connection_is_configured_once() -> None:
    connection.ensure_connection()
    with connection.cursor() as cursor:
        cursor.execute("RESET idle_in_transaction_session_timeout")
    keepalive.configure_connection(connection)
    assert setting_of(connection, "idle_in_transaction_session_timeout") == "0"
    keepalive.configure_raw_connection(connection.connection)
    assert setting_of(connection, "idle_in_transaction_session_timeout") == "1min"


@pytest.mark.slow
def test_the_queue_uses_the_same_connection_options(server: External) -> None:
    database = _connected(environment.database("DATABASE_URL", f"{server.url}?sslmode=disable"))
    with queue_in(database) as transport:
        listening = transport._get_notify_waiter()
        listening._ensure_conn()
        with transport._get_pgmq_client().pool.connection() as asking:
            for raw in (asking, listening._conn):
                assert option(raw, "TCP_KEEPIDLE") == 5
                assert option(raw, "TCP_USER_TIMEOUT") == 15_000
                assert raw.info.get_parameters()["sslmode"] == "disable"
            row = asking.execute("SHOW tcp_user_timeout").fetchone()
        assert row == ("15000",)


@pytest.mark.slow
def test_the_queue_closes_its_pool(server: External) -> None:
    with queue_in(_connected(environment.database("DATABASE_URL", server.url))) as transport:
        pool = transport._get_pgmq_client().pool
    assert pool.closed


@contextmanager
def queue_in(database: dict[str, Any]) -> Iterator[Any]:
    """The transport whose queue is in the database."""
    options = broker.transport_options(broker.URL, database)
    transport = app.connection_for_read(broker.URL, transport_options=options).transport
    try:
        yield transport
    finally:
        transport.close_connection(None)


def test_two_workers_that_create_queues_at_once_reconnect() -> None:
    broker_of_ours = app.connection_for_read(broker.URL)
    assert issubclass(psycopg.errors.DuplicateObject, broker_of_ours.connection_errors)


# --- Other brokers ----------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["redis", "rediss", "sentinel"])
def test_connections_to_redis_send_keepalives(scheme: str) -> None:
    options = broker.transport_options(f"{scheme}://127.0.0.1:6379/0", {})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        # Nobody there speaks Redis, so no more than the socket is opened.
        ours: Any = redis.Connection
        with ours(host=host, port=port, **options)._connect() as redis_socket:
            assert redis_socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 5
            assert redis_socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000


def test_rabbitmq_needs_no_transport_options() -> None:
    assert broker.transport_options("amqp://broker//", {}) == {}


# --- In earnest -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(bool(why_not()), reason=why_not())
@pytest.mark.django_db
def test_a_disconnected_machine_soon_loses_its_locks() -> None:
    network = Namespaces(["worker"])
    with (
        network.created(),
        external(network.gateway, f"{network.prefix}.0/24") as server,
        ExitStack() as connections,
    ):
        with network.inside("worker"):
            held = connections.enter_context(connected(server.url))
        with held.cursor() as cursor, connected(server.url) as other:
            cursor.execute("CREATE TABLE work AS SELECT 1 AS message")
            held.set_autocommit(False)
            cursor.execute("DELETE FROM work RETURNING message")
            network.cut_off("worker")
            until(lambda: is_free(other), "the end of the worker's transaction")
            # The worker, too, is not left waiting.
            with pytest.raises(Error):
                cursor.execute("SELECT 1")


def is_free(database: BaseDatabaseWrapper) -> bool:
    """Return whether another session can lock the message."""
    with database.cursor() as cursor:
        cursor.execute("SELECT FROM work FOR UPDATE SKIP LOCKED")
        return bool(cursor.fetchall())
