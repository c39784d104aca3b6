"""What must be in order before the service starts: its database and its tables."""

import fcntl
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import Error, OperationalError, connection
from django.db.migrations.executor import MigrationExecutor

from config.celery import queue_schema
from engagement.core import encryption

logger = logging.getLogger(__name__)

MIN_POSTGRES_VERSION = 16
# What the service keeps in its data folder for itself.
SECRET_FILES = ("secrets.json", "credentials.json")


@contextmanager
def lock_data_dir(data_dir: Path) -> Iterator[None]:
    """Hold the data folder for this process; CommandError where another start holds it.

    The lock goes with the process, however it ends.
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
    """Close the data folder and its secrets to other users, where they are ours to close.

    A folder that everybody writes to, such as /tmp, stays as it is.
    """
    # Root's PostgreSQL runs as another user, whose group passes through the folder.
    _close(data_dir, 0o710 if os.geteuid() == 0 else 0o700)
    for name in SECRET_FILES:
        _close(data_dir / name, 0o600)


def _close(path: Path, most: int) -> None:
    """Take from the path's mode what goes beyond *most*, and say so in the log."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    mode = stat.S_IMODE(found.st_mode)
    is_ours = found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode)
    if mode & ~most and is_ours and not mode & stat.S_ISVTX:
        path.chmod(mode & most)
        logger.warning(
            "%s was open to other users of this machine (mode %04o); it is now closed to them.",
            path,
            mode,
        )


def check_database() -> None:
    """Connect once; CommandError where the database cannot be used, with the reason."""
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
    """CommandError where stored secrets cannot be decrypted with the keys that there are.

    A database that cannot be asked, because it is away or has no tables yet, is no reason not to
    start: whatever needs a secret then says so itself.
    """
    try:
        lost = encryption.count_unreadable()
    except Error:
        return
    if lost:
        places = ", ".join(f"{number:,} in {column}" for column, number in lost.items())
        raise CommandError(
            f"stored secrets cannot be decrypted ({places}): the key that encrypted them is not in "
            "EDS_ENCRYPTION_KEYS. Add it again; if it is lost, `python manage.py "
            "rotate_encryption_keys --discard-unreadable` discards them."
        )


def has_pending_migrations() -> bool:
    """Whether there are migrations that the database has not seen."""
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def migrate() -> bool:
    """Bring the tables up to date; whether there was anything to do."""
    outdated = has_pending_migrations()
    if outdated:
        call_command("migrate", verbosity=0, interactive=False)
    queue_schema.install()
    return outdated


def _first_line(error: BaseException) -> str:
    """The driver's reason without its hints; it names host and port and never a password."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
