"""Installs the ``pgmq`` schema: the queues of the broker on the service's own PostgreSQL."""

from typing import Any

from django.conf import settings
from django.db import connection, transaction
from pgmq.install import get_embedded_install_sql

from config import broker

# Any number will do, as long as nothing else in the database takes the same advisory lock.
INSTALL_LOCK = 0x70676D71


def install() -> None:
    """Create the queues' schema in the database, unless it is there or another broker is used."""
    if settings.CELERY_BROKER_URL != broker.URL:
        return
    with transaction.atomic(), connection.cursor() as cursor:
        if _is_installed(cursor):
            return
        # The script cannot be repeated, so whoever waited for the lock looks again.
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [INSTALL_LOCK])
        if not _is_installed(cursor):
            cursor.execute(get_embedded_install_sql())


def _is_installed(cursor: Any) -> bool:
    cursor.execute("SELECT to_regprocedure('pgmq.create(text)') IS NOT NULL")
    installed: bool = cursor.fetchone()[0]
    return installed
