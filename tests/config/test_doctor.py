"""``python manage.py doctor`` says what is wrong, and what to do."""

import json
import os
import shutil
import smtplib
import subprocess
import sys
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core import mail
from django.core.management.base import CommandError
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from config.database.keepalive import BEAT_COUNTER
from config.management.commands.doctor import Command
from config.operations import doctor
from config.operations.doctor import Status
from config.setup import preflight
from core import encryption, telemetry
from core.models import Job
from core.version import VERSION
from engagement.models import Product
from engagement.prometheus import RESCORE
from ingestion.models import InboxMessage
from ingestion.prometheus import DRAIN_COUNTER
from tests.cases import each
from tests.config.test_backups import NOON, backup_of
from tests.engagement.planted_nights import SILENT, add_nights

Usage = namedtuple("Usage", "total used free")


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", "doctor", *arguments]
    environment = {**os.environ, **variables}
    folder = Path(doctor.__file__).parents[2]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_invalid_settings_are_a_finding_and_an_exit_status() -> None:
    planted = "planted-password"
    process = run("--json", DATABASE_URL=f"mysql://eds:{planted}@db/eds")
    answer = json.loads(process.stdout)
    assert (process.returncode, answer["version"], answer["healthy"]) == (1, VERSION, False)
    (finding,) = answer["checks"]
    assert finding["check"] == "settings" and "DATABASE_URL must look like" in finding["sentence"]
    assert planted not in process.stdout + process.stderr


# --- This machine ---------------------------------------------------------------------------


def test_settings(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["localhost"]
    assert doctor.check_settings().status is Status.OK
    settings.ALLOWED_HOSTS = ["eds.example.com"]
    assert doctor.check_settings().status is Status.WARNING
    settings.HTTPS = True
    assert doctor.check_settings().status is Status.OK
    settings.RETIRED_SETTINGS = ["EDS_PROXY_LOGIN_HEADER"]
    finding = doctor.check_settings()
    assert finding.status is Status.WARNING and "this has no effect." in finding.sentence
    assert finding.remedy.startswith("Remove it, and use single sign-on")
    settings.DEBUG = True
    assert "EDS_DEBUG is on" in doctor.check_settings().sentence


def test_versions(settings: Settings, tmp_path: Path) -> None:
    assert doctor.check_versions(settings.BASE_DIR).status is Status.OK
    text = (settings.BASE_DIR / "requirements.txt").read_text()
    (tmp_path / "requirements.txt").write_text(text.replace("celery==", "celery==0."))
    finding = doctor.check_versions(tmp_path)
    assert finding.status is Status.WARNING
    assert "celery is " in finding.sentence and "Django is" not in finding.sentence


@pytest.mark.parametrize(
    ("free", "status"),
    [(50 << 30, Status.OK), (1 << 30, Status.WARNING), (1 << 20, Status.PROBLEM)],
)
def test_disk(
    free: int, status: Status, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EMBEDDED_POSTGRES = object()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(free, 0, free))
    assert doctor.check_disk(tmp_path / "not there yet").status is status


def test_static_files(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.check_static_files().status is Status.OK
    monkeypatch.setattr(doctor, "STATIC_FILES", ("config/missing.css",))
    finding = doctor.check_static_files()
    assert finding.status is Status.PROBLEM and "config/missing.css" in finding.sentence


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (smtplib.SMTPAuthenticationError(535, b"planted"), "rejects the user name"),
        (ConnectionRefusedError("planted"), "(ConnectionRefusedError)"),
        (smtplib.SMTPServerDisconnected("planted"), "(SMTPServerDisconnected)"),
    ],
)
def test_mail(
    error: Exception, sentence: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HAS_EMAIL = False
    assert "no email is sent" in doctor.check_mail().sentence
    settings.HAS_EMAIL = True
    assert doctor.check_mail().status is Status.OK

    def fail(**_: object) -> Any:
        raise error

    monkeypatch.setattr(mail, "get_connection", fail)
    finding = doctor.check_mail()
    assert finding.status is Status.PROBLEM and sentence in finding.sentence
    assert "planted" not in finding.sentence


# --- The database and the queue -------------------------------------------------------------


def test_a_missing_database(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OperationalError("connection refused\nhint")

    monkeypatch.setattr(connection, "ensure_connection", refuse)
    finding = doctor.check_database()
    assert finding.status is Status.PROBLEM
    assert finding.sentence == "The database cannot be reached (connection refused)."
    findings = list(doctor.examine(timezone.now))
    assert findings[-1] == finding


def test_an_embedded_database_that_is_not_running(settings: Settings) -> None:
    class Stopped:
        def pid(self) -> None:
            return None

    settings.EMBEDDED_POSTGRES = Stopped()
    finding = doctor.check_database()
    assert finding.status is Status.PROBLEM and "manage.py up" in finding.remedy


@pytest.mark.django_db
def test_migrations_and_clock() -> None:
    assert doctor.check_migrations().status is Status.OK
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied) "
            "VALUES ('engagement', '9999', now())"
        )
        assert doctor.check_migrations().status is Status.WARNING
        cursor.execute("DELETE FROM django_migrations WHERE app = 'exports'")
        assert doctor.check_migrations().status is Status.PROBLEM
    assert doctor.check_clock(timezone.now).status is Status.OK
    ahead = doctor.check_clock(lambda: timezone.now() + timedelta(seconds=20))
    assert ahead.status is Status.WARNING and "ahead of the database's" in ahead.sentence
    behind = doctor.check_clock(lambda: timezone.now() - timedelta(hours=1))
    assert behind.status is Status.PROBLEM and "behind the database's" in behind.sentence


def test_a_missing_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> Any:
        raise ConnectionError("redis://:planted@broker")

    monkeypatch.setattr("config.celery.app.connection_for_write", refuse)
    finding = doctor.check_broker()
    assert finding.status is Status.PROBLEM
    assert "(ConnectionError)" in finding.sentence and "planted" not in finding.sentence


@pytest.mark.django_db
def test_backups(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.EMBEDDED_POSTGRES = None
    assert doctor.check_backups(NOON).status is Status.OK
    settings.EMBEDDED_POSTGRES, settings.BACKUP_FOLDER = object(), ""
    assert "not backed up" in doctor.check_backups(NOON).sentence
    settings.BACKUP_FOLDER = str(tmp_path)
    assert doctor.check_backups(NOON).status is Status.PROBLEM
    # As if the archive were running: it needs a server with a slot.
    monkeypatch.setattr(doctor, "ARCHIVE_IS_ACTIVE", "SELECT 1 WHERE %s <> ''")
    assert doctor.check_backups(NOON).sentence == "The last base backup is missing."
    backup_of(tmp_path, "a")
    assert doctor.check_backups(NOON + timedelta(days=1, hours=1)).status is Status.OK
    assert doctor.check_backups(NOON + timedelta(days=4)).status is Status.WARNING
    # A restore begins a new timeline.
    monkeypatch.setattr(doctor, "TIMELINE", "SELECT 2")
    finding = doctor.check_backups(NOON + timedelta(days=1, hours=1))
    assert finding.status is Status.WARNING
    assert "was restored after its last base backup" in finding.sentence
    assert "backup` now" in finding.remedy


# --- What the service does ------------------------------------------------------------------


@contextmanager
def without_rights(rights: str, table: str) -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(f"REVOKE {rights} ON {table} FROM CURRENT_USER")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"GRANT {rights} ON {table} TO CURRENT_USER")


@pytest.mark.django_db(transaction=True)
@each("table", ["ingestion_quarantinedmessage", "django_migrations"])
def test_a_missing_right_is_a_finding_and_ends_no_other_check(table: str) -> None:
    with without_rights("ALL", table):
        findings = {finding.check: finding for finding in doctor.examine(timezone.now)}
    assert {"settings", "disk", "database", "clock", "queue", "keys", "beat"} <= set(findings)
    denied = [each for each in findings.values() if f"denied for table {table}" in each.sentence]
    assert [finding.status for finding in denied] == [Status.PROBLEM]
    assert "grant the role" in denied[0].remedy


@pytest.mark.django_db(transaction=True)
def test_a_role_that_may_only_read_is_a_finding_and_not_ready() -> None:
    telemetry.add_run(DRAIN_COUNTER, 0, 0.0, timezone.now())
    assert doctor.check_rights().status is Status.OK
    assert Client().get("/readyz").status_code == 200
    with without_rights("INSERT, UPDATE, DELETE", "ingestion_inboxmessage"):
        finding = doctor.check_rights()
        answer = Client().get("/readyz")
    sentence = "The database role may not read and write ingestion_inboxmessage."
    assert (finding.status, finding.sentence) == (Status.PROBLEM, sentence)
    assert answer.status_code == 503
    assert answer.json()["checks"]["database"] == f"{sentence} Messages are answered 503."


def test_a_sentence_keeps_the_names_of_roles(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        reason = 'password authentication failed for user "EdsRole"'
        raise CommandError(f"the database cannot be reached ({reason}); check DATABASE_URL.")

    monkeypatch.setattr(preflight, "check_database", refuse)
    settings.EMBEDDED_POSTGRES = None
    assert '"EdsRole"' in doctor.check_database().sentence


@pytest.mark.django_db
@each("hours", [-40, 40])
def test_a_wrong_clock_of_this_machine_accuses_nobody(
    hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = datetime.now(UTC)
    for name in (DRAIN_COUNTER, RESCORE, BEAT_COUNTER):
        telemetry.add_run(name, 0, 0.0, right)
    shifted_time = right + timedelta(hours=hours)
    monkeypatch.setattr(timezone, "now", lambda: shifted_time)
    assert doctor.check_clock(timezone.now).status is Status.PROBLEM
    assert {finding.status for finding in doctor.check_roles()} == {Status.OK}


@pytest.mark.django_db
def test_a_clock_ahead_on_a_workers_machine_is_named() -> None:
    telemetry.add_run(DRAIN_COUNTER, 0, 0.0, timezone.now() + timedelta(hours=40))
    worker, _, _ = doctor.check_roles()
    assert "the clock of its machine was ahead" in worker.sentence
    assert "Synchronize the clocks" in worker.remedy


@pytest.mark.django_db
def test_keys_inbox_and_roles(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor.check_keys().status is Status.OK
    assert doctor.check_inbox().sentence == "0 messages wait to be recorded."
    # Nothing has been drained in this database.
    worker, scoring, beat = doctor.check_roles()
    assert (worker.check, worker.status) == ("worker", Status.PROBLEM)
    assert "Check that a worker" in worker.remedy
    assert (scoring.status, beat.status) == (Status.OK, Status.OK)
    with pytest.raises(SystemExit):
        Command().execute(json=False, no_color=True, force_color=False, skip_checks=True)
    assert "problem  worker" in capsys.readouterr().out
    monkeypatch.setattr(encryption, "count_unreadable", lambda: {"some.column": 3})
    assert doctor.check_keys().sentence == "3 stored secrets cannot be decrypted."
    settings.INBOX_LIMIT = -2
    assert doctor.check_inbox().status is Status.PROBLEM
    assert not InboxMessage.objects.exists()


@pytest.mark.django_db
def test_a_sender_that_is_silent(acme: Product, globex: Product) -> None:
    now = timezone.now()
    assert doctor.check_senders(now).status is Status.OK
    yesterday = now.astimezone(UTC).date() - timedelta(days=1)
    add_nights(acme.workspaces.get(), SILENT, yesterday)
    add_nights(globex.workspaces.get(), [400] * 61, yesterday)
    finding = doctor.check_senders(now)
    assert finding.status is Status.WARNING
    assert finding.sentence.startswith("Acme: The sender may be silent: 3 active user-days on ")


@pytest.mark.django_db
def test_jobs_that_fail_or_are_paused() -> None:
    assert doctor.check_jobs().status is Status.OK
    # It is tried again by itself.
    job = Job.objects.create(kind="delete products", key="7", failures=2)
    assert doctor.check_jobs().status is Status.OK
    job.is_paused = True
    job.save()
    finding = doctor.check_jobs()
    assert finding.status is Status.WARNING and "delete products 7" in finding.sentence
    job.failures = 3
    job.save()
    finding = doctor.check_jobs()
    assert finding.status is Status.PROBLEM
    assert "delete products 7 (3 times in a row)" in finding.sentence
