"""Installs the ``pgmq`` schema, which holds the broker's queues in the service's database."""

from typing import Any

from django.conf import settings
from django.db import connection, transaction
from pgmq.install import get_embedded_install_sql

from config.database import broker

# An arbitrary number that no other advisory lock in the database uses.
INSTALL_LOCK = 0x70676D71


def install() -> None:
    """Create the schema, unless it exists or the service uses another broker."""
    if settings.CELERY_BROKER_URL != broker.URL:
        return
    with transaction.atomic(), connection.cursor() as cursor:
        if _is_installed(cursor):
            return
        # The script cannot run twice, so check again after waiting for the lock.
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [INSTALL_LOCK])
        if not _is_installed(cursor):
            cursor.execute(get_embedded_install_sql())


def _is_installed(cursor: Any) -> bool:
    cursor.execute("SELECT to_regprocedure('pgmq.create(text)') IS NOT NULL")
    installed: bool = cursor.fetchone()[0]
    return installed
