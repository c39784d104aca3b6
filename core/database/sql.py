"""Runs statements over whole batches: the server binds parameters, COPY streams rows.

Django's cursors put parameters into the statement's text, which is slow for arrays of thousands
of values. These functions use psycopg on the same connection, and so in the same transaction.
Write arrays as ``%(name)b``: PostgreSQL's binary format takes a fifth of the time.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, LiteralString

import psycopg
from django.db import OperationalError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from core.database import distribution, integer_arrays, routing

Row = tuple[Any, ...]

# The score set of a statement, hidden from the planner. For a new one, which its statistics do not
# know yet, the planner expects a single row and uses any index that begins with it.
# (``core.database.product_statistics`` has it know the product.)
SCORE_SET: LiteralString = "(SELECT %(score_set)s::bigint)"


def on_node(table: LiteralString) -> LiteralString:
    """A condition that names the product of the table's rows on a cluster, so that one node runs
    the statement. On one server it is none: the planner leaves it out."""
    return f"(%(node)s::bigint IS NULL OR {table}.product_id = %(node)s::bigint)"


def fetch(
    statement: LiteralString, parameters: dict[str, Any] | None = None, *, prepare: bool = False
) -> list[Row]:
    """The rows that the statement returns. Raises Django's database errors.

    *prepare* works as in ``execute``.
    """
    with routing.current_connection().wrap_database_errors, _cursor() as cursor:
        bound = _bind(statement, parameters)
        return cursor.execute(statement, bound, prepare=prepare or None).fetchall()


def fetch_in_parts(statement: LiteralString, parts: Iterable[dict[str, Any]]) -> list[Row]:
    """The rows that the statement returns for all parts of its parameters.

    PostgreSQL works on a part while *parts*, which must use no database, makes the next one. Raises
    Django's database errors.
    """
    connection = routing.current_connection()
    with connection.wrap_database_errors:
        cursors = [_cursor()]
        raw: psycopg.Connection[Row] = connection.connection
        with raw.pipeline():
            for parameters in parts:
                bound = _bind(statement, parameters)
                cursors.append(_cursor().execute(statement, bound))
        return [row for cursor in cursors[1:] for row in cursor.fetchall()]


def execute(
    statement: LiteralString, parameters: dict[str, Any] | None = None, *, prepare: bool = False
) -> int:
    """Run the statement. Returns the number of rows that it wrote. Raises Django's database errors.

    *prepare* keeps the plan on the connection. That pays for a short statement that runs hundreds
    of times a second on a connection of its own.
    """
    with routing.current_connection().wrap_database_errors, _cursor() as cursor:
        bound = _bind(statement, parameters)
        return cursor.execute(statement, bound, prepare=prepare or None).rowcount


def stream(
    statement: LiteralString,
    parameters: dict[str, Any] | Sequence[Any] | None = None,
    *,
    at_once: int = 5000,
) -> Iterator[Row]:
    """The rows that the statement returns, *at_once* of them in memory, inside a transaction.

    Raises Django's database errors.
    """
    connection = routing.current_connection()
    with connection.wrap_database_errors:
        raw: psycopg.Connection[Row] = connection.connection
        with psycopg.ServerCursor(raw, f"stream_{next(_streams)}") as cursor:
            cursor.itersize = at_once
            if not isinstance(parameters, Sequence):
                parameters = _bind(statement, parameters)
            yield from cursor.execute(statement, parameters, binary=True)


_streams = count()


def copy(statement: LiteralString, types: Sequence[str], rows: Iterable[Row]) -> None:
    """Stream *rows* into ``COPY … FROM STDIN (FORMAT BINARY)``; *types* are those of the columns.

    Raises Django's database errors.
    """
    wrap = routing.current_connection().wrap_database_errors
    with wrap, _cursor() as cursor, cursor.copy(statement) as stream:
        stream.set_types(types)
        for row in rows:
            stream.write_row(row)


def arrays(rows: Iterable[Sequence[Any]], *names: str) -> dict[str, list[Any]]:
    """The columns of *rows* as arrays, by name: parameters for a statement with ``unnest``."""
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return {name: list(column) for name, column in zip(names, columns, strict=True)}


def _bind(statement: str, parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """The parameters, with the node for a statement that names one."""
    names_node = "%(node)s" in statement
    if parameters is None and not names_node:
        return None
    parameters = parameters or {}
    bound: dict[str, Any] = {
        name: integer_arrays.encode(value) if type(value) is list else value
        for name, value in parameters.items()
    }
    if names_node:
        bound["node"] = distribution.node(parameters.get("product"))
    return bound


def _cursor() -> psycopg.Cursor[Row]:
    connection = routing.current_connection()
    # Django's own cursors begin like this: an idle connection may have died.
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    raw: psycopg.Connection[Row] = connection.connection
    cursor: psycopg.Cursor[Row] = psycopg.Cursor(raw)
    # Django's own loader of text timestamps is slow Python; binary ones are decoded in C.
    cursor.format = psycopg.pq.Format.BINARY
    return cursor


# What people read of it.
TOO_SLOW = "A statement took too long. The database is busy, or too small for this product."


class StatementTimeout(Exception):
    """The database stopped a statement that ran longer than its limit."""


_LIMIT: LiteralString = "SELECT set_config('statement_timeout', %(limit)s, true)"
_NO_LIMIT: LiteralString = "SET LOCAL statement_timeout TO DEFAULT"


@contextmanager
def statement_timeout(seconds: float) -> Iterator[None]:
    """Limit the time of each statement in the block, which becomes a transaction or savepoint.

    Raises StatementTimeout. What somebody else cancels earlier is an OperationalError: the same
    statement may succeed at once.
    """
    began = time.monotonic()
    try:
        with transaction.atomic(routing.current_connection().alias):
            execute(_LIMIT, {"limit": f"{seconds * 1000:.0f}"})
            yield
            execute(_NO_LIMIT)
    except OperationalError as error:
        is_canceled = isinstance(error.__cause__, psycopg.errors.QueryCanceled)
        if is_canceled and time.monotonic() - began >= seconds:
            raise StatementTimeout from error
        raise


# How long a request to cancel a statement may take.
CANCEL_TIMEOUT_SECONDS = 5.0
# The pause before the next request, for a statement that began after the one before.
CANCEL_RETRY_SECONDS = 1.0


@contextmanager
def cancel_after(seconds: float) -> Iterator[None]:
    """Cancel the block's statements after this time. Raises StatementTimeout if it cancels one.

    Unlike ``statement_timeout`` it takes no statement of its own, and sets nothing that another
    client behind PgBouncer could inherit.
    """
    ended = threading.Event()
    arguments = (routing.current_connection(), seconds, ended)
    timer = threading.Thread(target=_cancel, args=arguments, daemon=True)
    timer.start()
    try:
        yield
    except OperationalError as error:
        if isinstance(error.__cause__, psycopg.errors.QueryCanceled):
            raise StatementTimeout from error
        raise
    finally:
        ended.set()
        # A cancel that is under way must not stop the next statement of the connection.
        timer.join()


def _cancel(connection: BaseDatabaseWrapper, seconds: float, ended: threading.Event) -> None:
    while not ended.wait(seconds):
        # None before the first statement, and after the block closed the connection.
        raw: psycopg.Connection[Row] | None = connection.connection
        # A lost connection has nothing to cancel.
        with suppress(psycopg.Error):
            if raw is not None:
                raw.cancel_safe(timeout=CANCEL_TIMEOUT_SECONDS)
        seconds = CANCEL_RETRY_SECONDS
