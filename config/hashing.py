"""Passwords hashed without holding up other requests."""

from typing import Any

from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db import connections
from gevent import monkey
from gevent.threadpool import ThreadPool

# So many hashes are computed at once in a web process; more wait.
MAX_CONCURRENT_HASHES = 2

_threads: ThreadPool | None = None


class Pbkdf2Hasher(PBKDF2PasswordHasher):
    """Django's own hashes. In a web process, which serves all requests in one thread, each is
    computed in another one: it takes half a second, in which it needs no Python."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        if not monkey.is_module_patched("threading"):
            return super().encode(password, salt, iterations)
        release_connections()
        encoded: str = _pool().apply(super().encode, (password, salt, iterations))
        return encoded


def release_connections() -> None:
    """Leave the database to others, where this thread is in the middle of nothing.

    There are ten connections for a process, and guesses at passwords may wait for long.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()


def _pool() -> Any:
    global _threads
    if _threads is None:
        _threads = ThreadPool(MAX_CONCURRENT_HASHES)
    return _threads
