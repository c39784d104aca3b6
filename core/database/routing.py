"""Chooses the database to read from: the primary, or a replica inside ``read_from()``.

Django's queries ask through the router, and those of ``core.database.sql`` directly.
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
    """Send the statements of the block to this entry of DATABASES. The block only reads."""
    token = _read_from.set(alias)
    try:
        yield
    finally:
        _read_from.reset(token)


def current_connection() -> BaseDatabaseWrapper:
    """The connection that statements use at the moment."""
    return connections[_read_from.get() or DEFAULT_DB_ALIAS]


class ReplicaRouter:
    """Sends reads of Django's queries to the database of the block, and writes to the primary."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        return _read_from.get()

    def db_for_write(self, model: type[Model], **hints: Any) -> str:
        return DEFAULT_DB_ALIAS

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        """A replica receives its tables from the primary."""
        return db == DEFAULT_DB_ALIAS
