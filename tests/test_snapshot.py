"""The snapshot of a new embedded database leads to the same tables as all migrations."""

import os
import re
import subprocess
import sys

import pytest
from django.conf import settings
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from config import snapshot
from harness.snapshot import MONTHS
from tests.test_backup import program

NEW = "eds_snapshot"
LOAD = """
import django
django.setup()
from django.core.management import call_command
from config import snapshot
from harness.snapshot import MONTHS
print(snapshot.load(), snapshot.load())
call_command("migrate", verbosity=0)
"""


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_snapshot_and_the_migrations_after_it_lead_to_the_same_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE DATABASE {NEW} TEMPLATE template0 ENCODING 'UTF8' "
            "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C'"
        )
    try:
        assert load(NEW) == "True False", "Run `python -m harness.snapshot`: migrations changed."
        assert schema(NEW) == schema(connection.settings_dict["NAME"])
    finally:
        with connection.cursor() as cursor:
            # FORCE would need the right to end autovacuum.
            cursor.execute(f"DROP DATABASE {NEW}")


@pytest.mark.django_db
def test_a_snapshot_of_other_migrations_is_left_alone() -> None:
    applied = list(MigrationRecorder(connection).applied_migrations())
    assert snapshot.digest_of(applied) == snapshot.digest_of(reversed(applied)) != ""
    assert snapshot.digest_of([*applied, ("engagement", "9999_missing")]) == ""
    assert not snapshot.load(), "This database has tables."


def load(database: str) -> str:
    """Load the snapshot and apply later migrations, in a process of its own."""
    where = connection.settings_dict
    return subprocess.run(
        [sys.executable, "-c", LOAD],
        cwd=settings.BASE_DIR,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "DATABASE_URL": f"postgresql://{where['USER']}@/{database}?host={where['HOST']}",
            "EDS_SECRET_KEY": "only-for-this-test" * 4,
            "EDS_ENCRYPTION_KEYS": ",".join(map(str, settings.ENCRYPTION_KEYS)),
        },
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def schema(database: str) -> list[str]:
    """The statements of the database, in any order: columns of a table may have another one."""
    where = connection.settings_dict
    text = subprocess.run(
        [
            *(program("pg_dump"), "--schema-only", "--schema", "public", "--no-owner"),
            *("--no-privileges", "--no-comments", "--exclude-table", MONTHS),
            *("--host", str(where["HOST"]), "--username", str(where["USER"]), database),
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    # PostgreSQL writes a list of texts in another way once it has read its own writing.
    text = re.sub(r"::(character varying|text)(\[\])?|[()]", "", text)
    lines = (line.strip().rstrip(",") for line in text.splitlines())
    return sorted(line for line in lines if line and not line.startswith(("--", "\\")))
