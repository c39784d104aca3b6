"""What must be in order before the service starts: its database and its tables."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.management import call_command
from django.db import Error, OperationalError, connection
from django.db.migrations.executor import MigrationExecutor

from config import queue_schema
from config.failures import StartFailed
from engagement import encryption

OLDEST_POSTGRES = 16


@contextmanager
def only_one(data_dir: Path) -> Iterator[None]:
    """Hold the data folder for this process; StartFailed where another start holds it.

    The lock goes with the process, however it ends.
    """
    path = data_dir / "up.lock"
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise StartFailed(
            f"the data folder {data_dir} cannot be written ({error.strerror}); "
            "set EDS_DATA_DIR to a folder that can."
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StartFailed(
                f"the service already runs on the data folder {data_dir}; "
                "stop it first, or set EDS_DATA_DIR to another folder."
            ) from None
        yield


def check_database() -> None:
    """Connect once; StartFailed where the database cannot be used, with the reason."""
    try:
        connection.ensure_connection()
    except OperationalError as error:
        raise StartFailed(
            f"the database cannot be reached ({_first_line(error)}); check DATABASE_URL."
        ) from None
    version = connection.pg_version // 10_000  # type: ignore[attr-defined]
    if version < OLDEST_POSTGRES:
        raise StartFailed(
            f"the database is PostgreSQL {version}; version {OLDEST_POSTGRES} or newer is needed."
        )


def check_secrets() -> None:
    """StartFailed where stored secrets cannot be decrypted with the keys that there are.

    A database that cannot be asked, because it is away or has no tables yet, is no reason not to
    start: whatever needs a secret then says so itself.
    """
    try:
        lost = encryption.unreadable()
    except Error:
        return
    if lost:
        places = ", ".join(f"{number:,} in {column}" for column, number in lost.items())
        raise StartFailed(
            f"stored secrets cannot be decrypted ({places}): the key that encrypted them is not in "
            "EDS_ENCRYPTION_KEYS. Add it again; if it is lost, `python manage.py "
            "rotate_encryption_keys --discard-unreadable` discards them."
        )


def is_outdated() -> bool:
    """Whether there are migrations that the database has not seen."""
    executor = MigrationExecutor(connection)
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def migrate() -> bool:
    """Bring the tables up to date; whether there was anything to do."""
    outdated = is_outdated()
    if outdated:
        call_command("migrate", verbosity=0, interactive=False)
    queue_schema.install()
    return outdated


def _first_line(error: BaseException) -> str:
    """The driver's reason without its hints; it names host and port and never a password."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
