"""One worker at a time for each connection: an advisory lock of the database session."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, LiteralString

from core.database import sql

# An arbitrary number that no other advisory lock in the database uses.
NAMESPACE: Final = 0x6D6B7470
# The second half of the lock's key has 32 bits.
MODULUS: Final = 2**31

_LOCK: LiteralString = "SELECT pg_try_advisory_lock(%(namespace)s, %(key)s)"
_UNLOCK: LiteralString = "SELECT pg_advisory_unlock(%(namespace)s, %(key)s)"


@contextmanager
def try_lock_connection(connection_id: int) -> Iterator[bool]:
    """Hold the connection's lock during the block, if it is free; yield whether it is.

    A worker that dies releases it with its session. A worker that loses its session may continue
    for a moment; the run's attempt number then prevents it from writing.
    """
    key = {"namespace": NAMESPACE, "key": connection_id % MODULUS}
    (is_free,) = sql.fetch(_LOCK, key)[0]
    try:
        yield is_free
    finally:
        if is_free:
            sql.fetch(_UNLOCK, key)
