"""One worker at a time for each connection: locks that go with the session that holds them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, LiteralString

from engagement.database import sql

# Any number will do, as long as nothing else in the database takes the same advisory locks.
NAMESPACE: Final = 0x6D6B7470
# The second half of the lock's name has 32 bits.
MODULUS: Final = 2**31

_LOCK: LiteralString = "SELECT pg_try_advisory_lock(%(namespace)s, %(key)s)"
_UNLOCK: LiteralString = "SELECT pg_advisory_unlock(%(namespace)s, %(key)s)"


@contextmanager
def try_lock_connection(connection_id: int) -> Iterator[bool]:
    """Hold the connection's lock in the block; whether it was free.

    A worker that dies lets go of it with its session. One whose session dies may go on for a
    moment: it is the run's attempt number that keeps it from writing.
    """
    name = {"namespace": NAMESPACE, "key": connection_id % MODULUS}
    (is_free,) = sql.fetch(_LOCK, name)[0]
    try:
        yield is_free
    finally:
        if is_free:
            sql.fetch(_UNLOCK, name)
