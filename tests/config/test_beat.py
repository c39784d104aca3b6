"""Beat stops on a signal, and continues after its clock was wrong."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from celery.signals import beat_init
from django.db import Error, connection, transaction
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler

from config.celery import app, schedule
from config.database.keepalive import BEAT_COUNTER
from core import telemetry


@pytest.fixture
def in_beat() -> Iterator[None]:
    """Install the signal handlers of a running scheduler."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    beat_init.send(sender=None)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.django_db
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_interrupts_a_statement_and_leaves_the_connection_usable(
    in_beat: None, number: signal.Signals
) -> None:
    with pytest.raises(KeyboardInterrupt), transaction.atomic(), connection.cursor() as cursor:
        send_soon(number)
        cursor.execute("SELECT pg_sleep(30)")
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def send_soon(number: signal.Signals) -> None:
    """Send the signal in a fifth of a second."""
    threading.Timer(0.2, os.kill, (os.getpid(), number)).start()


# --- A clock that is wrong ------------------------------------------------------------------

DAYS_AHEAD = timedelta(days=40)


@pytest.fixture
def sent_tasks(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> list[str]:
    """The names of the tasks that beat sends. Beat closes connections that are in a transaction."""
    names: list[str] = []

    def send(self: Any, entry: Any, *arguments: Any, **options: Any) -> None:
        names.append(entry.task)

    monkeypatch.setattr(DatabaseScheduler, "apply_async", send)
    return names


def started() -> schedule.Scheduler:
    """Beat's scheduler, which does not save its schedule once more when the tests end."""
    scheduler = schedule.Scheduler(app)
    scheduler._finalize.cancel()
    return scheduler


def ticks(scheduler: schedule.Scheduler) -> None:
    """Have the scheduler send all tasks that are due."""
    for _ in range(50):
        if scheduler.tick():
            return


def test_beat_resets_a_schedule_from_the_future_when_it_starts(sent_tasks: list[str]) -> None:
    started()
    PeriodicTask.objects.update(last_run_at=timezone.now() + DAYS_AHEAD)
    scheduler = started()
    ran = [entry.last_run_at for entry in scheduler.schedule.values()]
    assert ran and max(ran) <= timezone.now()
    scheduler.close()
    saved = PeriodicTask.objects.filter(enabled=True).values_list("last_run_at", flat=True)
    assert max(saved) <= timezone.now()


def test_beat_sends_what_is_due_after_its_clock_was_ahead(sent_tasks: list[str]) -> None:
    beat: Any = started()
    ticks(beat)
    # What is left of the time at which beat's clock was ahead.
    for entry in beat.schedule.values():
        entry.last_run_at = entry.model.last_run_at = timezone.now() + DAYS_AHEAD
    beat._heap = [
        event._replace(time=event.time + DAYS_AHEAD.total_seconds()) for event in beat._heap
    ]
    beat.tick()
    due = {event.entry.task: event.time - time.time() for event in beat._heap}
    # As if everything had just run.
    assert due["ingestion.tasks.drain"] <= 5
    assert due["ingestion.tasks.maintain"] <= 600
    assert all(entry.last_run_at <= timezone.now() for entry in beat.schedule.values())


def test_beat_saves_a_heartbeat_only_when_it_sent_tasks(sent_tasks: list[str]) -> None:
    scheduler = started()
    PeriodicTask.objects.update(last_run_at=timezone.now() - timedelta(days=1))
    scheduler = started()
    assert telemetry.get_counters(BEAT_COUNTER) == {}
    ticks(scheduler)
    heartbeat = telemetry.get_counters(BEAT_COUNTER)[BEAT_COUNTER]
    assert heartbeat.units >= 1 and heartbeat.last_at <= timezone.now()
    ticks(scheduler)
    assert telemetry.get_counters(BEAT_COUNTER)[BEAT_COUNTER].runs == 1


def test_beat_survives_a_missing_database(
    sent_tasks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started()
    PeriodicTask.objects.update(last_run_at=timezone.now() - timedelta(days=1))
    scheduler = started()

    def refuse(*arguments: Any) -> None:
        raise Error("connection refused")

    with monkeypatch.context() as patch:
        patch.setattr(telemetry, "add_run", refuse)
        ticks(scheduler)
    assert "ingestion.tasks.drain" in sent_tasks
    assert telemetry.get_counters(BEAT_COUNTER) == {}


def test_beat_survives_a_database_that_is_away_when_the_schedule_is_read_again(
    sent_tasks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    beat: Any = started()
    ticks(beat)

    def refuse(*arguments: Any) -> None:
        raise Error("the database system is starting up")

    # As five minutes after the last time.
    beat._last_full_sync = datetime.min
    with monkeypatch.context() as patch:
        patch.setattr(schedule.Scheduler, "all_as_schedule", refuse)
        assert beat.tick() == schedule.DATABASE_RETRY_DELAY
    # The next attempt does not wait for another five minutes.
    PeriodicTask.objects.filter(task="ingestion.tasks.drain").update(enabled=False)
    beat.tick()
    assert "ingestion.tasks.drain" not in {entry.task for entry in beat.schedule.values()}
