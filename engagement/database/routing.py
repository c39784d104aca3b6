"""Which database a piece of work reads from: the primary, unless it says otherwise.

Imports nothing of the service, so that statements of either kind ask here: Django's own through
the router, those of ``engagement.database.sql`` directly.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model

# Each thread and each greenlet has its own.
_read_from: ContextVar[str | None] = ContextVar("read_from", default=None)


@contextmanager
def read_from(alias: str) -> Iterator[None]:
    """Have the statements of the block, which only reads, go to this entry of DATABASES."""
    token = _read_from.set(alias)
    try:
        yield
    finally:
        _read_from.reset(token)


def current_connection() -> BaseDatabaseWrapper:
    """The connection that statements go through now."""
    return connections[_read_from.get() or DEFAULT_DB_ALIAS]


class ReplicaRouter:
    """Sends what Django's queries read to where the block says, and writes to the primary."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        return _read_from.get()

    def db_for_write(self, model: type[Model], **hints: Any) -> str:
        return DEFAULT_DB_ALIAS

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        """A replica gets its tables from the primary."""
        return db == DEFAULT_DB_ALIAS
