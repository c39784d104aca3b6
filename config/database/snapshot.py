"""The tables of a new database, all at once.

Applying a hundred migrations takes most of a first start. ``snapshot.sql`` has what they lead to:
``python -m harness.snapshot`` writes it. It is used only while the migrations in it are those of
this release, and later migrations follow as usual. So an outdated snapshot, or an
older server than the one that wrote it, costs time, and nothing else.
"""

import json
from collections.abc import Iterable
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from config.database import distribution
from core.database import partitions

FILE = Path(__file__).with_name("snapshot.sql")
HEADER = "-- Written by `python -m harness.snapshot`. "


def load() -> bool:
    """Create the tables, if the database is empty and the snapshot fits. Return whether."""
    if not FILE.exists() or _has_tables() or distribution.has_extension():
        return False
    header, _, statements = FILE.read_text().partition("\n")
    content: dict[str, Any] = json.loads(header.removeprefix(HEADER))
    migrations = [(app, name) for app, name in content["migrations"]]
    if digest_of(migrations) != content["digest"] or not _can_read(content["postgres"]):
        return False
    with transaction.atomic(), connection.cursor() as cursor:
        # Without parameters the driver sends all statements at once.
        cursor.execute(statements)
    # The search path was the statements'.
    today = timezone.now().date()
    partitions.maintain_partitions(today, settings.EVENT_RETENTION_DAYS)
    return True


def digest_of(migrations: Iterable[tuple[str, str]]) -> str:
    """Return a digest of the migrations' files; empty if one of them does not exist."""
    modules = {}
    digest = sha256()
    for app, name in sorted(migrations):
        if app not in modules:
            modules[app] = _folder(app)
        path = modules[app] / f"{name}.py"
        if not path.exists():
            return ""
        digest.update(f"{app}.{name} {sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _folder(app: str) -> Path:
    module, _ = MigrationLoader.migrations_module(app)
    return Path(import_module(str(module)).__path__[0])


def _has_tables() -> bool:
    return bool(connection.introspection.table_names())


def _can_read(version: int) -> bool:
    """Whether the server knows that version's statements and puts tables where they do."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('server_version_num')::int / 10000, current_schema()"
        )
        server, schema = cursor.fetchone()
    return bool(server >= version and schema == "public")
