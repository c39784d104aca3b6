"""The checks before the service starts: database, tables, and secrets."""

from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import Error, OperationalError, connection

from config.database import queue_schema, snapshot
from config.database.pending_migrations import has_pending_migrations
from core import encryption

MIN_POSTGRES_VERSION = 16


def check_database() -> None:
    """Connect once. Raise CommandError with the reason if the database cannot be used."""
    try:
        connection.ensure_connection()
    except OperationalError as error:
        raise CommandError(
            f"the database cannot be reached ({_first_line(error)}); check DATABASE_URL."
        ) from None
    version = connection.pg_version // 10_000  # type: ignore[attr-defined]
    if version < MIN_POSTGRES_VERSION:
        raise CommandError(
            f"the database is PostgreSQL {version}; version {MIN_POSTGRES_VERSION} or newer is "
            "needed."
        )


def check_secrets() -> None:
    """Raise CommandError if stored secrets cannot be decrypted with the configured keys.

    A database that is down or has no tables yet does not prevent the start: what needs a secret
    reports the failure itself.
    """
    try:
        unreadable = encryption.count_unreadable()
    except Error:
        return
    if unreadable:
        counts = ", ".join(f"{count:,} in {column}" for column, count in unreadable.items())
        raise CommandError(
            f"stored secrets cannot be decrypted ({counts}): the key that encrypted them is not in "
            "EDS_ENCRYPTION_KEYS. Add it again; if it is lost, `python manage.py "
            "rotate_encryption_keys --discard-unreadable` discards them."
        )


def migrate() -> bool:
    """Apply pending migrations. Return whether there were any."""
    is_outdated = has_pending_migrations(connection)
    if is_outdated and (not snapshot.load() or has_pending_migrations(connection)):
        call_command("migrate", verbosity=0, interactive=False)
    queue_schema.install()
    return is_outdated


def _first_line(error: BaseException) -> str:
    """Return the driver's reason without its hints. It names host and port, and no password."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
