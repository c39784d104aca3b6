"""Statements over whole batches: parameters bound on the server, rows streamed in by COPY.

Django's cursors put parameters into the statement's text, which is slow for arrays of thousands
of values. These use the same connection, and so the same transaction, through psycopg itself.
Write arrays as ``%(name)b``: in PostgreSQL's binary format they cost a fifth of the time.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, LiteralString

import psycopg
from django.db import OperationalError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from engagement.database import routing

Row = tuple[Any, ...]

# The product and the set of scores that a statement is about, so that the planner does not see
# which. Of one that its statistics do not know yet it expects a single row, whatever else is asked:
# it then takes any index that begins with it, and reads all of a new product for each subject.
PRODUCT: LiteralString = "(SELECT %(product)s::bigint)"
SCORE_SET: LiteralString = "(SELECT %(score_set)s::bigint)"


def fetch(
    statement: LiteralString, parameters: dict[str, Any] | None = None, *, prepare: bool = False
) -> list[Row]:
    """The rows that the statement returns. Raises Django's database errors.

    *prepare* keeps its plan on the connection, as for ``execute``.
    """
    with routing.current_connection().wrap_database_errors, _cursor() as cursor:
        return cursor.execute(statement, parameters, prepare=prepare or None).fetchall()


def execute(
    statement: LiteralString, parameters: dict[str, Any] | None = None, *, prepare: bool = False
) -> int:
    """Run the statement; the number of rows that it wrote. Raises Django's database errors.

    *prepare* keeps its plan on the connection: worth it for a short statement that runs hundreds
    of times a second on a connection of its own.
    """
    with routing.current_connection().wrap_database_errors, _cursor() as cursor:
        return cursor.execute(statement, parameters, prepare=prepare or None).rowcount


def stream(
    statement: LiteralString, parameters: dict[str, Any] | None = None, *, at_once: int = 5000
) -> Iterator[Row]:
    """The rows that the statement returns, so many in memory at once, inside a transaction.

    Raises Django's database errors.
    """
    connection = routing.current_connection()
    with connection.wrap_database_errors:
        raw: psycopg.Connection[Row] = connection.connection
        with psycopg.ServerCursor(raw, f"stream_{next(_streams)}") as cursor:
            cursor.itersize = at_once
            yield from cursor.execute(statement, parameters, binary=True)


_streams = count()


def copy(statement: LiteralString, types: Sequence[str], rows: Iterable[Row]) -> None:
    """Stream *rows* into ``COPY … FROM STDIN (FORMAT BINARY)``; *types* name their columns'.

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


def _cursor() -> psycopg.Cursor[Row]:
    connection = routing.current_connection()
    # As Django's own cursors begin: a connection that was idle may have died meanwhile.
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    raw: psycopg.Connection[Row] = connection.connection
    cursor: psycopg.Cursor[Row] = psycopg.Cursor(raw)
    # Django's own loader of text timestamps is slow Python; binary ones are decoded in C.
    cursor.format = psycopg.pq.Format.BINARY
    return cursor


class StatementTimeout(Exception):
    """The database stopped a statement that ran longer than it may."""


_LIMIT: LiteralString = "SELECT set_config('statement_timeout', %(limit)s, true)"
_NO_LIMIT: LiteralString = "SET LOCAL statement_timeout TO DEFAULT"


@contextmanager
def statement_timeout(seconds: float) -> Iterator[None]:
    """Have each statement of the block end in time, in a transaction or savepoint of the block's.

    Raises TookTooLong where one does not.
    """
    try:
        with transaction.atomic(routing.current_connection().alias):
            execute(_LIMIT, {"limit": f"{seconds * 1000:.0f}"})
            yield
            execute(_NO_LIMIT)
    except OperationalError as error:
        if isinstance(error.__cause__, psycopg.errors.QueryCanceled):
            raise StatementTimeout from error
        raise


# Whoever asks the database to stop waits so long for it.
CANCEL_TIMEOUT_SECONDS = 5.0
# What begins after the first was stopped, or was asked between two, is stopped this much later.
CANCEL_RETRY_SECONDS = 1.0


@contextmanager
def cancel_after(seconds: float) -> Iterator[None]:
    """Have the block's statements stopped once so much time has passed since the block began.

    It costs no statement, as ``statement_timeout`` does, and sets nothing that somebody else behind
    PgBouncer could meet. Raises TookTooLong where a statement was stopped.
    """
    ended = threading.Event()
    asked = (routing.current_connection(), seconds, ended)
    timer = threading.Thread(target=_cancel, args=asked, daemon=True)
    timer.start()
    try:
        yield
    except OperationalError as error:
        if isinstance(error.__cause__, psycopg.errors.QueryCanceled):
            raise StatementTimeout from error
        raise
    finally:
        ended.set()
        # One that has begun must not stop the next statement of the connection.
        timer.join()


def _cancel(connection: BaseDatabaseWrapper, seconds: float, ended: threading.Event) -> None:
    while not ended.wait(seconds):
        # There is none before the first statement, and none where the block gave it back.
        raw: psycopg.Connection[Row] | None = connection.connection
        # A connection that is lost has nothing to stop.
        with suppress(psycopg.Error):
            if raw is not None:
                raw.cancel_safe(timeout=CANCEL_TIMEOUT_SECONDS)
        seconds = CANCEL_RETRY_SECONDS
