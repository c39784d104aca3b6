"""The checks before the service starts: data folder, database, tables, and secrets."""

import fcntl
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import Error, OperationalError, connection
from django.db.migrations.executor import MigrationExecutor

from config import snapshot
from config.celery import queue_schema
from engagement.core import encryption

logger = logging.getLogger(__name__)

MIN_POSTGRES_VERSION = 16
# Files in the data folder that only the service may read.
SECRET_FILES = ("secrets.json", "credentials.json")


@contextmanager
def lock_data_dir(data_dir: Path) -> Iterator[None]:
    """Lock the data folder for this process. Raise CommandError if another one holds it.

    The lock ends with the process, however it ends.
    """
    path = data_dir / "up.lock"
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "w")
    except OSError as error:
        raise CommandError(
            f"the data folder {data_dir} cannot be written ({error.strerror}); "
            "set EDS_DATA_DIR to a folder that can."
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CommandError(
                f"the service already runs on the data folder {data_dir}; "
                "stop it first, or set EDS_DATA_DIR to another folder."
            ) from None
        os.fchmod(file.fileno(), 0o600)
        restrict_permissions(data_dir)
        yield


def restrict_permissions(data_dir: Path) -> None:
    """Deny other users the data folder and its secrets, as far as we own them.

    A folder that is open to all on purpose, such as /tmp, stays as it is.
    """
    # Root's PostgreSQL runs as another user, whose group passes through the folder.
    _restrict_mode(data_dir, 0o710 if os.geteuid() == 0 else 0o700)
    for name in SECRET_FILES:
        _restrict_mode(data_dir / name, 0o600)


def _restrict_mode(path: Path, max_mode: int) -> None:
    """Remove permissions beyond *max_mode* from the path, and log it."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    mode = stat.S_IMODE(status.st_mode)
    is_ours = status.st_uid == os.geteuid() and not stat.S_ISLNK(status.st_mode)
    if mode & ~max_mode and is_ours and not mode & stat.S_ISVTX:
        path.chmod(mode & max_mode)
        logger.warning(
            "%s was open to other users of this machine (mode %04o); it is now closed to them.",
            path,
            mode,
        )


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


def has_pending_migrations() -> bool:
    """Return whether there are migrations that are not applied to the database."""
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def migrate() -> bool:
    """Apply pending migrations. Return whether there were any."""
    is_outdated = has_pending_migrations()
    if is_outdated:
        is_loaded = settings.EMBEDDED_POSTGRES is not None and snapshot.load()
        if not is_loaded or has_pending_migrations():
            call_command("migrate", verbosity=0, interactive=False)
    queue_schema.install()
    return is_outdated


def _first_line(error: BaseException) -> str:
    """Return the driver's reason without its hints. It names host and port, and no password."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
