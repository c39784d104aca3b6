"""What a failure of the database says about the work that met it.

Decided by SQLSTATE: the class of the exception does not tell. An over-long index key, which is
the fault of the data, is an OperationalError like a lost connection.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from django.db import Error, InterfaceError, OperationalError

logger = logging.getLogger(__name__)

# A deadlock or a serialization failure: another worker went first.
_LOST_RACE = "40"
# Failures that no data can cause, by the start of their SQLSTATE: connection, a transaction or a
# server that may not write (25), race, missing tables, columns or rights (42: a migration is still
# to run), resources, operator intervention, system errors; and a lock that was not available.
_TRANSIENT = ("08", "25", _LOST_RACE, "42", "53", "57", "58", "55P03")
# The server ended what this very work took too long over: its transaction while the worker
# computed, or its statement.
_TOO_DEAR = ("25P03", "57014")
# So many times in a row a piece of work may lose against other workers before its worker gives up.
MAX_CONFLICT_RETRIES = 10

Result = TypeVar("Result")


def is_transient(error: BaseException) -> bool:
    """Whether the same work may well succeed later, because its data is not what failed."""
    if not isinstance(error, Error):
        return False
    sqlstate = _sqlstate(error)
    if not sqlstate:
        # A lost connection has no SQLSTATE.
        return isinstance(error, OperationalError | InterfaceError)
    return sqlstate.startswith(_TRANSIENT)


def is_timeout(error: BaseException) -> bool:
    """Whether the work itself took longer than the database allows: the same work would again, and
    less of it may not."""
    return isinstance(error, Error) and _sqlstate(error) in _TOO_DEAR


def is_conflict(error: BaseException) -> bool:
    """Whether another worker's transaction was in the way: the same work may succeed at once."""
    return isinstance(error, Error) and _sqlstate(error).startswith(_LOST_RACE)


def retry_on_conflict(work: Callable[[], Result]) -> Result:
    """Do the work, a transaction, again where it was rolled back in favour of another worker's."""
    for _ in range(MAX_CONFLICT_RETRIES):
        try:
            return work()
        except Error as error:
            if not is_conflict(error):
                raise
    return work()


@contextmanager
def leave_retry_to_beat(task: str) -> Iterator[None]:
    """End a task that the database interrupts with one line in the log: beat asks for it again."""
    try:
        yield
    except Error as error:
        if not is_transient(error):
            raise
        logger.warning(
            "The database interrupted the task to %s (%s); beat asks for it again.",
            task,
            type(error.__cause__ or error).__name__,
        )


def _sqlstate(error: Error) -> str:
    """The driver's SQLSTATE; "" where the server had no say."""
    return getattr(error.__cause__, "sqlstate", None) or ""
