"""What the pools of web processes do while their server cannot be reached."""

from typing import Any

import psycopg
from psycopg_pool import ConnectionPool

UNREACHABLE = "the database cannot be reached"


def fail_waiting(pool: "ConnectionPool[psycopg.Connection[Any]]") -> None:
    """Tell the requests that wait for a connection that there will be none.

    The pool calls this when it has given up opening one. By itself it would have them wait for
    their whole timeout, which is meant for a pool whose connections are all in use: then one is
    returned sooner or later, so they go on waiting.
    """
    if pool.get_stats().get("pool_size"):
        return
    with pool._lock:
        waiting = list(pool._waiting)
        pool._waiting.clear()
    for client in waiting:
        client.fail(psycopg.OperationalError(UNREACHABLE))
