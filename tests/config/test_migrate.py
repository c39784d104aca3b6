"""``migrate`` beside a running service: it waits for a lock for a moment only, then tries again."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.recorder import MigrationRecorder
from psycopg.errors import DeadlockDetected

from config.database.pending_migrations import has_pending_migrations
from config.management.commands import migrate

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def holder(monkeypatch: pytest.MonkeyPatch) -> Iterator[BaseDatabaseWrapper]:
    """Somebody else's transaction that holds a lock which migrating needs."""
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", "20ms")
    monkeypatch.setattr(migrate, "RETRY_DELAY", 0.0)
    other = connection.copy()
    other.set_autocommit(False)
    with other.cursor() as cursor:
        cursor.execute("LOCK TABLE django_migrations IN ACCESS EXCLUSIVE MODE")
    yield other
    other.rollback()
    other.close()


def lock_timeout() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        return str(cursor.fetchone()[0])


def test_a_lock_that_stays_is_told_in_a_sentence(holder: BaseDatabaseWrapper) -> None:
    with pytest.raises(CommandError, match="locked by a long transaction"):
        call_command("migrate", verbosity=0)


def test_a_lock_that_is_let_go_is_waited_for(
    holder: BaseDatabaseWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: holder.rollback())
    call_command("migrate", verbosity=0)


def test_a_migration_that_loses_a_deadlock_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(migrate, "RETRY_DELAY", 0.0)
    attempt, attempts = migrate.Command._migrate_with_timeout, []

    def lose_first(self: migrate.Command, **options: Any) -> None:
        attempts.append(options)
        if len(attempts) == 1:
            raise OperationalError from DeadlockDetected()
        attempt(self, **options)

    monkeypatch.setattr(migrate.Command, "_migrate_with_timeout", lose_first)
    call_command("migrate", verbosity=0)
    assert len(attempts) == 2
    assert "trying again" in capsys.readouterr().err


def test_the_timeout_ends_with_the_command() -> None:
    before = lock_timeout()
    call_command("migrate", verbosity=0)
    assert lock_timeout() == before


def test_a_migration_that_is_not_applied_is_pending() -> None:
    assert not has_pending_migrations(connection)
    with transaction.atomic():
        MigrationRecorder(connection).migration_qs.latest("pk").delete()
        assert has_pending_migrations(connection)
        transaction.set_rollback(True)
