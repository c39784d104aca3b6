"""The scheduler ends when it is told to, and goes on whatever its clock says."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from celery.signals import beat_init
from django.db import Error, connection, transaction
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler

from config.celery import app, schedule
from config.keepalive import BEAT_COUNTER
from engagement import telemetry


@pytest.fixture
def in_beat() -> Iterator[None]:
    """The handlers of signals are those of a scheduler that has started."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    beat_init.send(sender=None)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.django_db
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_interrupts_a_statement_and_the_schedule_can_be_written_then(
    in_beat: None, number: signal.Signals
) -> None:
    with pytest.raises(KeyboardInterrupt), transaction.atomic(), connection.cursor() as cursor:
        told_soon(number)
        cursor.execute("SELECT pg_sleep(30)")
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def told_soon(number: signal.Signals) -> None:
    """The signal comes in a fifth of a second."""
    threading.Timer(0.2, os.kill, (os.getpid(), number)).start()


# --- A clock that is wrong ------------------------------------------------------------------

DAYS_AHEAD = timedelta(days=40)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> list[str]:
    """The names of the tasks that beat sends. Beat closes connections that are in a transaction."""
    found: list[str] = []

    def send(self: Any, entry: Any, *given: Any, **options: Any) -> None:
        found.append(entry.task)

    monkeypatch.setattr(DatabaseScheduler, "apply_async", send)
    return found


def started() -> schedule.Scheduler:
    """Beat's scheduler, which does not save its schedule once more when the tests end."""
    scheduler = schedule.Scheduler(app)
    scheduler._finalize.cancel()
    return scheduler


def ticks(scheduler: schedule.Scheduler) -> None:
    """Have the scheduler send all that is due now."""
    for _ in range(50):
        if scheduler.tick():
            return


def test_a_beat_that_starts_after_its_clock_was_ahead_goes_on_at_once(sent: list[str]) -> None:
    started()
    PeriodicTask.objects.update(last_run_at=timezone.now() + DAYS_AHEAD)
    scheduler = started()
    ran = [entry.last_run_at for entry in scheduler.schedule.values()]
    assert ran and max(ran) <= timezone.now()
    scheduler.close()
    saved = PeriodicTask.objects.filter(enabled=True).values_list("last_run_at", flat=True)
    assert max(saved) <= timezone.now()


def test_a_beat_whose_clock_was_ahead_sends_again_what_is_due(sent: list[str]) -> None:
    beat: Any = started()
    ticks(beat)
    # What is left of the time at which beat's clock was ahead.
    for entry in beat.schedule.values():
        entry.last_run_at = entry.model.last_run_at = timezone.now() + DAYS_AHEAD
    beat._heap = [one._replace(time=one.time + DAYS_AHEAD.total_seconds()) for one in beat._heap]
    beat.tick()
    due = {one.entry.task: one.time - time.time() for one in beat._heap}
    # As if everything had run just now.
    assert due["ingestion.tasks.drain"] <= 5
    assert due["ingestion.tasks.maintain"] <= 600
    assert all(entry.last_run_at <= timezone.now() for entry in beat.schedule.values())


def test_beat_notes_what_it_sent_and_nothing_when_it_sent_nothing(sent: list[str]) -> None:
    scheduler = started()
    PeriodicTask.objects.update(last_run_at=timezone.now() - timedelta(days=1))
    scheduler = started()
    assert telemetry.get_counters(BEAT_COUNTER) == {}
    ticks(scheduler)
    noted = telemetry.get_counters(BEAT_COUNTER)[BEAT_COUNTER]
    assert noted.units >= 1 and noted.last_at <= timezone.now()
    ticks(scheduler)
    assert telemetry.get_counters(BEAT_COUNTER)[BEAT_COUNTER].runs == 1


def test_a_database_that_is_away_does_not_end_beat(
    sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started()
    PeriodicTask.objects.update(last_run_at=timezone.now() - timedelta(days=1))
    scheduler = started()

    def refuse(*given: Any) -> None:
        raise Error("connection refused")

    with monkeypatch.context() as patch:
        patch.setattr(telemetry, "add_run", refuse)
        ticks(scheduler)
    assert "ingestion.tasks.drain" in sent
    assert telemetry.get_counters(BEAT_COUNTER) == {}
