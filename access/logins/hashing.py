"""Hashes passwords without delaying other requests."""

from typing import Any

from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db import connections
from gevent import monkey
from gevent.threadpool import ThreadPool

# Hashes that a web process computes at once. More wait.
MAX_CONCURRENT_HASHES = 2

_threads: ThreadPool | None = None


class Pbkdf2Hasher(PBKDF2PasswordHasher):
    """Django's hasher, which uses a thread of its own in a web process.

    A web process serves all requests in one thread. A hash takes half a second outside the GIL.
    """

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        if not monkey.is_module_patched("threading"):
            return super().encode(password, salt, iterations)
        release_connections()
        encoded: str = _pool().apply(super().encode, (password, salt, iterations))
        return encoded


def release_connections() -> None:
    """Give up this thread's connections, unless they are in a transaction.

    A process has ten connections, and guessed passwords may wait long for their hash.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()


def _pool() -> Any:
    global _threads
    if _threads is None:
        _threads = ThreadPool(MAX_CONCURRENT_HASHES)
    return _threads
