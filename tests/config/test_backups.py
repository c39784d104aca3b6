"""Base backups and the WAL archive of the embedded PostgreSQL, and restoring to a moment."""

import gzip
import json
import re
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from pytest_django import Settings

from config.local import backups
from config.local.backups import BaseBackup
from config.local.bucket import Bucket
from config.local.postgres import EmbeddedPostgres, stop_process
from config.management.commands import restore
from harness.processes import until
from tests.database import FAST

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def backup_of(root: Path, name: str, segment: int = 1, cluster: str = "7") -> BaseBackup:
    """A base backup of which there is only the summary."""
    backup = BaseBackup(
        name=name,
        cluster=cluster,
        release="1.0.0",
        postgres=18,
        started=NOON.isoformat(),
        finished=(NOON + timedelta(days=segment)).isoformat(),
        first_segment=f"{1:08X}{0:08X}{segment:08X}",
        bytes=1,
        has_secrets=False,
    )
    backup.folder(root).mkdir(parents=True)
    (backup.folder(root) / backups.SUMMARY).write_text(json.dumps(asdict(backup)))
    return backup


def test_the_last_backup_before_the_moment_is_chosen(tmp_path: Path) -> None:
    first, second = (backup_of(tmp_path, name, day) for name, day in (("a", 1), ("b", 5)))
    assert backups.choose(tmp_path, None, None) == second
    assert backups.choose(tmp_path, None, NOON + timedelta(days=3)) == first
    assert backups.choose(tmp_path, "a", None) == first
    for name, at in (("c", None), (None, NOON), ("b", NOON + timedelta(days=3))):
        with pytest.raises(CommandError, match="no complete base backup"):
            backups.choose(tmp_path, name, at)


def test_old_backups_go_with_the_wal_that_only_they_need(tmp_path: Path) -> None:
    for number in (1, 4, 8):
        backup_of(tmp_path, f"backup-{number}", number)
    backup_of(tmp_path, "other", 2, cluster="8")
    wal = tmp_path / "7" / "wal" / "00000001"
    wal.mkdir(parents=True)
    for number in range(1, 10):
        (wal / f"{1:08X}{0:08X}{number:08X}.gz").touch()
    (wal / "00000002.history").touch()
    assert [old.name for old in backups.prune(tmp_path, 2, NOON)] == ["backup-1"]
    assert [backup.name for backup in backups.list_backups(tmp_path)] == [
        "backup-4",
        "backup-8",
        "other",
    ]
    kept_segments = sorted(int(path.name[16:24], 16) for path in wal.glob("*.gz"))
    assert kept_segments == [4, 5, 6, 7, 8, 9] and (wal / "00000002.history").exists()


def test_a_time_needs_a_zone() -> None:
    with pytest.raises(CommandError, match="a date and a time with a zone"):
        call_command("restore", "--from", "/nowhere", "--at", "2026-11-22T17:05:00")


def test_an_outside_database_and_a_missing_folder_are_refused(settings: Settings) -> None:
    settings.EMBEDDED_POSTGRES = None
    with pytest.raises(CommandError, match="only the embedded PostgreSQL is backed up"):
        call_command("backup", "--to", "/nowhere")
    settings.EMBEDDED_POSTGRES = EmbeddedPostgres(Path("/nowhere/postgres"))
    with pytest.raises(CommandError, match="set EDS_BACKUP_FOLDER"):
        call_command("backup", "--to", "")


# --- With a server --------------------------------------------------------------------------


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that PostgreSQL's own user can pass through, if we are root."""
    with tempfile.TemporaryDirectory(prefix="eds-backups-") as name:
        path = Path(name)
        path.chmod(0o711)
        yield path


def execute(postgres: EmbeddedPostgres, statement: str) -> list[tuple[object, ...]]:
    with postgres.connect_as_superuser() as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


@pytest.mark.slow
def test_a_database_is_restored_to_a_moment_and_to_the_end_of_the_archive(
    folder: Path, settings: Settings
) -> None:
    root, secrets = folder / "backups", folder / "secrets.json"
    secrets.write_text('{"planted": "key"}')
    # A crash must lose nothing, so only this option is not the tests'.
    original = EmbeddedPostgres(folder / "original" / "postgres", {**FAST, "fsync": "on"})
    with original.running():
        execute(original, "CREATE TABLE fruit (name text)")
        archive = subprocess.Popen(backups.archive_command(original, root))
        try:
            execute(original, "INSERT INTO fruit VALUES ('apple')")
            backup = backups.take(original, root, datetime.now(UTC), secrets)
            execute(original, "INSERT INTO fruit VALUES ('banana')")
            ((moment,),) = execute(original, "SELECT clock_timestamp()")
            execute(original, "INSERT INTO fruit VALUES ('cherry')")
            execute(original, "SELECT pg_switch_wal()")
            execute(original, "INSERT INTO fruit VALUES ('date')")
            ((position,),) = execute(original, "SELECT pg_current_wal_lsn()")
            until_archived(original, str(position))
        finally:
            stop_process(archive, signal.SIGINT, timeout=10)
    assert backups.list_backups(root) == [backup]
    assert isinstance(moment, datetime)
    for name, at, expected in (
        ("moment", moment.isoformat(), ["apple", "banana"]),
        ("end", None, ["apple", "banana", "cherry", "date"]),
    ):
        settings.DATA_DIR = folder / name
        settings.EMBEDDED_POSTGRES = EmbeddedPostgres(folder / name / "postgres", FAST)
        call_command("restore", "--from", str(root), *(("--at", at) if at else ()))
        with settings.EMBEDDED_POSTGRES.running():
            rows = execute(settings.EMBEDDED_POSTGRES, "SELECT name FROM fruit ORDER BY name")
            assert [row[0] for row in rows] == expected
        assert (folder / name / "secrets.json").read_text() == secrets.read_text()
    # What fails leaves the present database as it was.
    with pytest.raises(CommandError, match="leave out --at") as refusal:
        call_command("restore", "--from", str(root), "--at", "2100-01-01T00:00:00Z")
    assert re.search(rf"with a change of {moment:%Y-%m-%d} [\d:.]+\+00;", str(refusal.value))
    for private in (backup.folder(root) / backups.SUMMARY, folder / "end" / "postgres.log"):
        assert stat.S_IMODE(private.stat().st_mode) == 0o600
    with settings.EMBEDDED_POSTGRES.running():
        assert execute(settings.EMBEDDED_POSTGRES, "SELECT count(*) FROM fruit") == [(4,)]
    damage(backup.folder(root))
    with pytest.raises(CommandError, match="is damaged"):
        backups.verify(backup.folder(root))


class Killed(BaseException):
    """What a process does not live to handle."""


@pytest.mark.slow
def test_a_restore_that_is_killed_leaves_the_database_or_says_what_to_do(
    folder: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, secrets = folder / "backups", folder / "data" / "secrets.json"
    postgres = EmbeddedPostgres(folder / "data" / "postgres", FAST)
    settings.DATA_DIR, settings.EMBEDDED_POSTGRES = folder / "data", postgres
    with postgres.running():
        secrets.write_text('{"planted": "key"}')
        execute(postgres, "CREATE TABLE fruit (name text)")
        archive = subprocess.Popen(backups.archive_command(postgres, root))
        try:
            until_archiving = "SELECT count(*) FROM pg_stat_replication"
            until(lambda: execute(postgres, until_archiving) == [(1,)], "the archive to begin")
            backups.take(postgres, root, datetime.now(UTC), secrets)
        finally:
            stop_process(archive, signal.SIGINT, timeout=10)
        execute(postgres, "INSERT INTO fruit VALUES ('apple')")

    def killed_after(module: ModuleType, name: str) -> None:
        original = getattr(module, name)

        def end(*arguments: Any) -> None:
            original(*arguments)
            raise Killed

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(module, name, end)
            call_command("restore", "--from", str(root))

    killed_after(backups, "restore")
    with postgres.running():
        assert execute(postgres, "SELECT name FROM fruit") == [("apple",)]
    for name in ("_move_aside", "_restore_secrets"):
        killed_after(restore, name)
        with pytest.raises(CommandError, match=r"run `python manage\.py restore` again"):
            postgres.initialise()
    call_command("restore", "--from", str(root))
    with postgres.running():
        assert execute(postgres, "SELECT name FROM fruit") == []


def until_archived(postgres: EmbeddedPostgres, position: str) -> None:
    """Return when the archive has flushed the WAL up to the position."""
    statement = (
        f"SELECT coalesce(bool_or(flush_lsn >= '{position}'), false) FROM pg_stat_replication "
        "WHERE application_name = 'pg_receivewal'"
    )
    until(lambda: execute(postgres, statement) == [(True,)], "the archive to get the WAL", 60)


def damage(backup: Path) -> None:
    """Change one byte of one file of the backup, as a failing disk may."""
    path = backup / "base.tar.gz"
    with gzip.open(path) as file:
        content = bytearray(file.read())
    content[len(content) // 2] ^= 1
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(content)


# --- A copy in a store ----------------------------------------------------------------------


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    # Importing them takes a while.
    import boto3
    from moto import mock_aws

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "planted")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        boto3.client("s3").create_bucket(Bucket="backups")
        yield Bucket("s3://backups/eds")


def test_a_store_has_what_a_restore_needs(store: Bucket, tmp_path: Path) -> None:
    root, copy = tmp_path / "root", tmp_path / "copy"
    old, new = (backup_of(root, name, segment) for name, segment in (("a", 1), ("b", 3)))
    for backup in (old, new):
        (backup.folder(root) / "base.tar.gz").write_text(backup.name)
    wal = root / "7" / "wal" / "00000001"
    wal.mkdir(parents=True)
    for number in range(1, 4):
        (wal / f"{1:08X}{0:08X}{number:08X}.gz").write_text(str(number))
    last = wal / f"{1:08X}{0:08X}{4:08X}.gz.partial"
    last.write_text("begun")
    (root / "7" / "base" / ".c.partial").mkdir()
    (root / "7" / "base" / ".c.partial" / "base.tar.gz").touch()
    assert (store.upload(root), store.upload(root)) == (8, 0)
    last.write_text("further")
    assert store.upload(root) == 1
    store.download_summaries(copy)
    assert backups.choose(copy, None, None) == new
    store.download(copy, new)
    assert files_of(copy) == {
        path: content for path, content in files_of(root).items() if is_needed(path)
    }
    # The segment is complete, and a restore takes nothing older.
    last.rename(last.with_suffix(""))
    assert store.upload(root) == 1
    assert not any(name.endswith(".partial") for name in store._sizes())


def is_needed(path: str) -> bool:
    is_other = path.startswith("7/base/.") or path == "7/base/a/base.tar.gz"
    return not is_other and not path.endswith(("0001.gz", "0002.gz"))


def files_of(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()
    }


def test_a_store_that_fails_is_named_without_its_keys(store: Bucket, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="s3://missing: the store answered NoSuchBucket"):
        Bucket("s3://missing").download_summaries(tmp_path)
    with pytest.raises(CommandError, match="must look like s3://bucket"):
        Bucket("https://example.com/bucket")
