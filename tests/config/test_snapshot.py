"""The snapshot of a new database leads to the same tables as all migrations."""

import re
import subprocess

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from config.database import snapshot
from harness.snapshot import WEEKS
from tests.config.test_backup import program, run_on
from tests.database import one_server_as

NEW = "eds_snapshot"
LOAD = """
import django
django.setup()
from django.core.management import call_command
from config.setup import preflight
preflight.call_command = None  # It needs the snapshot alone.
print(preflight.migrate(), preflight.migrate())
call_command("migrate", verbosity=0)
"""


@one_server_as("distributing changed the keys that the snapshot has.")
@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.django_db(transaction=True)
def test_the_snapshot_and_the_migrations_after_it_lead_to_the_same_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE DATABASE {NEW} TEMPLATE template0 ENCODING 'UTF8' "
            "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C'"
        )
    try:
        output = run_on(NEW, LOAD).strip()
        assert output == "True False", "Run `python -m harness.snapshot`: migrations changed."
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


@pytest.mark.django_db
def test_a_server_that_cannot_read_the_snapshot_gets_all_migrations() -> None:
    server = connection.pg_version // 10_000  # type: ignore[attr-defined]
    assert snapshot._can_read(server) and not snapshot._can_read(server + 1)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL search_path TO pg_catalog")
    assert not snapshot._can_read(server), "The tables would not be where migrations put them."


def schema(database: str) -> list[str]:
    """The statements of the database, in any order: columns of a table may have another one."""
    where = connection.settings_dict
    text = subprocess.run(
        [
            *(program("pg_dump"), "--schema-only", "--schema", "public", "--no-owner"),
            *("--no-privileges", "--no-comments", "--exclude-table", WEEKS),
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
