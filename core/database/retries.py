"""Tells whether work that failed in the database is worth a retry.

The SQLSTATE decides, not the class of the exception: an index key that is too long, which is the
fault of the data, is an OperationalError like a lost connection.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from django.db import Error, InterfaceError, OperationalError

from core.database import nodes

logger = logging.getLogger(__name__)

# A deadlock or a serialization failure: another worker's transaction won.
_CONFLICT = "40"
# Failures that no data can cause, by the start of their SQLSTATE: connection (08), a transaction or
# a server that may not write (25), conflict (40), missing tables, columns, or rights (42: a
# migration has not run yet), resources (53), operator intervention (57), system errors (58), and a
# lock that was not available.
_TRANSIENT = ("08", "25", _CONFLICT, "42", "53", "57", "58", "55P03")
# The server ended the work because it took too long: an idle transaction, or a statement.
_TIMEOUT = ("25P03", "57014")
MAX_CONFLICT_RETRIES = 10

# A coordinator passes on what a node says about a COPY, or the loss of a node, as an internal
# error. The message tells what it was. Others are the data's fault.
_INTERNAL = "XX000"
_LOST_NODE = "08006"
_SQLSTATES_OF_MESSAGES = {
    "failure on connection marked as essential": _LOST_NODE,
    "deadlock detected": "40P01",
    "could not extend file": "53100",
    "sorry, too many clients already": "53300",
    "remaining connection slots are reserved": "53300",
    "canceling statement due to lock timeout": "55P03",
    "canceling statement": "57014",
    "terminating connection": "57P01",
    "the database system is": "57P03",
}

Result = TypeVar("Result")


def is_transient(error: BaseException) -> bool:
    """Whether the same work may succeed later, because its data did not cause the failure."""
    if not isinstance(error, Error):
        return False
    sqlstate = _sqlstate(error)
    if not sqlstate:
        # A lost connection has no SQLSTATE.
        return isinstance(error, OperationalError | InterfaceError)
    return sqlstate.startswith(_TRANSIENT)


def is_timeout(error: BaseException) -> bool:
    """Whether the work took longer than the database allows. A smaller part of it may not."""
    return isinstance(error, Error) and _sqlstate(error) in _TIMEOUT


def is_missing_node(error: BaseException) -> bool:
    """Whether the work failed while a node of the cluster cannot be reached. Without the products
    on that node it may succeed at once."""
    return is_transient(error) and nodes.look()


def is_conflict(error: BaseException) -> bool:
    """Whether another worker's transaction was in the way. The same work may succeed at once."""
    return isinstance(error, Error) and _sqlstate(error).startswith(_CONFLICT)


def retry_on_conflict(work: Callable[[], Result]) -> Result:
    """Run the work, a transaction, and repeat it while it loses against other workers."""
    for _ in range(MAX_CONFLICT_RETRIES):
        try:
            return work()
        except Error as error:
            if not is_conflict(error):
                raise
    return work()


@contextmanager
def without_missing_nodes() -> Iterator[None]:
    """Let a part of a task that needs all nodes of a cluster end where one is missing, and the
    task go on. The part waits for a later run."""
    try:
        yield
    except Error as error:
        if not is_missing_node(error):
            raise


def again_without_missing_nodes(work: Callable[[], Result]) -> Result:
    """Run the work, and once more if it fails because a node of the cluster is missing: it then
    leaves out the products on that node (``nodes``)."""
    try:
        return work()
    except Error as error:
        if not is_missing_node(error):
            raise
    return work()


@contextmanager
def leave_retry_to_beat(task: str) -> Iterator[None]:
    """Log one line where the database interrupts the task; beat requests it again."""
    try:
        yield
    except Error as error:
        if not is_transient(error):
            raise
        # That is logged by itself.
        if nodes.look():
            return
        logger.warning(
            "The database interrupted the task to %s (%s); beat asks for it again.",
            task,
            type(error.__cause__ or error).__name__,
        )


def _sqlstate(error: Error) -> str:
    """The driver's SQLSTATE; "" if the error does not come from the server."""
    sqlstate: str = getattr(error.__cause__, "sqlstate", None) or ""
    return _sqlstate_of_node(str(error.__cause__)) if sqlstate == _INTERNAL else sqlstate


def _sqlstate_of_node(message: str) -> str:
    """What a node said that the coordinator passes on without its SQLSTATE. While a node is
    missing, an unknown text is taken for its loss, and not for the fault of a message."""
    states = (state for start, state in _SQLSTATES_OF_MESSAGES.items() if message.startswith(start))
    return next(states, None) or (_LOST_NODE if nodes.look() else _INTERNAL)
