"""Whether the large tables are distributed by product over the nodes of a Citus cluster.

There, each statement about a product's data names the product as a plain value, so that it runs on
the one node that has the product. On one server it must not: for a product that the planner's
statistics do not know yet, it would expect a single row, and read all of the product for each
subject. So such statements have the parameter ``node`` (``core.database.sql``), which is the
product on a cluster, and NULL on one server.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, LiteralString

import psycopg
from django.db import DEFAULT_DB_ALIAS, Error, connections

# Seconds after which a process looks again whether an operator has distributed the tables.
RECHECK_SECONDS = 10.0

_HAS_CITUS: LiteralString = "SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL"
# The first of the tables that are distributed.
_IS_DISTRIBUTED: LiteralString = """
    SELECT EXISTS (
        SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass('engagement_user'))
"""

# Whether the tables were distributed at the last look, and when that was.
_last_look: tuple[bool, float] = (False, float("-inf"))
_product: ContextVar[int | None] = ContextVar("product", default=None)


def is_distributed() -> bool:
    """Whether the large tables are distributed. They stay so once they are."""
    global _last_look
    distributed, looked_at = _last_look
    if not distributed and time.monotonic() - looked_at > RECHECK_SECONDS:
        distributed = _look()
        _last_look = (distributed, time.monotonic())
    return distributed


def was_distributed() -> bool:
    """Whether the large tables were distributed at the last look of this process. Asks nothing."""
    return _last_look[0]


# Any number that no other advisory lock of the service uses. ``distribute`` has it.
DISTRIBUTING = 0xD157

_IS_FREE: LiteralString = "SELECT pg_try_advisory_xact_lock_shared(%s, 0)"


def is_changing() -> bool:
    """Whether the tables are being distributed, or were since this process last looked: then a
    statement may fail that was written for one server. False if nobody can say."""
    if was_distributed():
        is_new = False
    else:
        look_again()
        is_new = _answer(is_distributed)
    return is_new or _answer(_is_distributing)


def _answer(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except Error:
        return False


def _is_distributing() -> bool:
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute(_IS_FREE, [DISTRIBUTING])
        return not cursor.fetchone()[0]


def look_again() -> None:
    """Have the next statement look whether the tables are distributed."""
    global _last_look
    _last_look = (False, float("-inf"))


def _look() -> bool:
    connection = connections[DEFAULT_DB_ALIAS]
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    raw: psycopg.Connection[tuple[Any, ...]] = connection.connection
    with connection.wrap_database_errors:
        for statement in (_HAS_CITUS, _IS_DISTRIBUTED):
            row = psycopg.Cursor(raw).execute(statement).fetchone()
            if not (row and row[0]):
                return False
    return True


@contextmanager
def on_node_of(product_id: int) -> Iterator[None]:
    """Have the statements of the block run on the node that has the product.

    For statements that could also be about several products.
    """
    token = _product.set(product_id)
    try:
        yield
    finally:
        _product.reset(token)


def node(product_id: int | None = None) -> int | None:
    """The value of the parameter ``node``: the product, or that of ``on_node_of``; None on one
    server."""
    if not is_distributed():
        return None
    return _product.get() if product_id is None else product_id
