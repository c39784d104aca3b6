"""Old rows are deleted a chunk at a time, and no others."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.models import LoginAttempts
from core import retention
from engagement.models import Product
from exports.models import ExportFile, ExportRun
from tests.admin.rows import fill
from tests.engagement.history import NOON

LATER = NOON + timedelta(days=20_000)


def some_attempts(number: int) -> None:
    for count in range(number):
        LoginAttempts.objects.create(subject=str(count), failures=1, keep_until=NOON)


def attempt_count() -> int:
    return LoginAttempts.objects.count()


def test_a_statement_deletes_a_chunk(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "CHUNK_ROWS", 10)
    some_attempts(25)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        retention.delete_expired("engagement", LATER)
    statements = [
        each for each in queries if 'DELETE FROM "engagement_loginattempts"' in each["sql"]
    ]
    assert (len(statements), attempt_count()) == (3, 0)


def test_what_is_left_when_the_time_is_up_waits(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "CHUNK_ROWS", 10)
    some_attempts(25)
    attempts = retention.Retention(LoginAttempts, "keep_until", timedelta)
    looks = iter([False, True])
    retention.delete_older(attempts, LATER, lambda: next(looks))
    assert attempt_count() == 15
    retention.delete_older(attempts, NOON, lambda: False)
    assert attempt_count() == 15


def test_an_unfinished_run_keeps_its_files(acme: Product) -> None:
    fill(acme)
    ExportRun.objects.update(state=ExportRun.State.RUNNING)
    retention.delete_expired("exports", LATER)
    assert ExportRun.objects.exists() and ExportFile.objects.exists()
    ExportRun.objects.update(state=ExportRun.State.DONE)
    retention.delete_expired("exports", LATER)
    assert not ExportRun.objects.exists() and not ExportFile.objects.exists()
