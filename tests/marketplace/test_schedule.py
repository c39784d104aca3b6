"""A periodic task says how far apart syncs are. Each connection counts from its own last one."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from celery import Celery, current_app
from django.conf import settings
from django.core.management import call_command
from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask
from django_celery_beat.schedulers import ModelEntry

from engagement.models import Product
from harness.marketplace.faults import ErrorStatus
from harness.marketplace.server import Simulator
from marketplace import connecting, tasks
from marketplace.models import Connection, SyncRun
from marketplace.runs import scheduling
from marketplace.runs.timetable import load_timetable
from tests.marketplace.connections import HOUR, NOON, Kind, RunState, connect, latest, work

pytestmark = pytest.mark.django_db


def entry() -> PeriodicTask:
    task: PeriodicTask = PeriodicTask.objects.get(task="marketplace.tasks.sync_all")
    return task


def next_sync_at(connection: Connection, now: datetime) -> datetime | None:
    connection.refresh_from_db()
    return scheduling.next_sync_at(connection, connection.runs.first(), load_timetable(), now)


# --- The entry ------------------------------------------------------------------------------


def test_the_migrations_create_one_six_hourly_task_on_its_own_queue() -> None:
    task = entry()
    assert (task.interval.every, task.interval.period) == (6, "hours")
    assert (task.queue, task.enabled) == ("marketplace", True)


def test_migrating_again_keeps_edits_of_the_task() -> None:
    daily, _ = IntervalSchedule.objects.get_or_create(every=24, period="hours")
    PeriodicTask.objects.filter(pk=entry().pk).update(
        name="Licenses", interval=daily, enabled=False, queue="elsewhere"
    )
    call_command("migrate", verbosity=0)
    task = entry()
    assert (task.name, task.interval, task.enabled) == ("Licenses", daily, False)
    assert task.queue == "elsewhere"


def test_the_task_is_declared_in_one_place() -> None:
    declared = [entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()]
    assert "marketplace.tasks.sync_all" not in declared
    assert "marketplace.tasks.sync_all" in current_app.tasks


def is_due(**changed: Any) -> bool:
    """Whether beat considers the task due when it starts."""
    PeriodicTask.objects.filter(pk=entry().pk).update(**changed)
    due: bool = ModelEntry(entry(), app=current_app).is_due().is_due
    return due


def test_a_missed_run_starts_after_downtime() -> None:
    now = timezone.now()
    assert not is_due(last_run_at=now - 5 * HOUR)
    assert is_due(last_run_at=now - 7 * HOUR)
    assert is_due(last_run_at=now - timedelta(days=30))
    assert not is_due(last_run_at=now - 7 * HOUR, enabled=False)


def test_frequent_restarts_of_beat_do_not_postpone_the_first_run() -> None:
    # Without a last run, beat counts from each of its starts.
    assert entry().last_run_at is not None


@pytest.mark.parametrize("path", ["sync", "sync_all", "resume"])
def test_the_tasks_go_to_a_queue_of_their_own(path: str) -> None:
    name = f"marketplace.tasks.{path}"
    assert current_app.amqp.router.route({}, name)["queue"].name == "marketplace"
    others = ("ingestion.tasks.drain", "engagement.tasks.rescore", "engagement.tasks.clear")
    queues = [current_app.amqp.router.route({}, other)["queue"].name for other in others]
    assert queues == ["default", "scoring", "scoring"]


def test_a_worker_takes_all_queues_by_default() -> None:
    assert set(current_app.amqp.queues) == {"default", "scoring", "marketplace"}


# --- When it says next ----------------------------------------------------------------------


def test_the_next_sync_follows_an_edited_schedule(connection: Connection) -> None:
    work(connection)
    assert next_sync_at(connection, NOON + HOUR) == NOON + 6 * HOUR
    midnight = CrontabSchedule.objects.create(minute="0", hour="0")
    PeriodicTask.objects.filter(pk=entry().pk).update(interval=None, crontab=midnight)
    next_at = next_sync_at(connection, NOON + HOUR)
    assert next_at is not None and next_at - NOON == 12 * HOUR
    assert "12:00 AM" in load_timetable().describe()


@pytest.mark.parametrize(
    ("every", "period", "text"),
    [(6, "hours", "every 6 hours"), (1, "days", "every day"), (90, "minutes", "every 90 minutes")],
)
def test_the_interval_is_said_as_it_is_set(every: int, period: str, text: str) -> None:
    interval, _ = IntervalSchedule.objects.get_or_create(every=every, period=period)
    PeriodicTask.objects.filter(pk=entry().pk).update(interval=interval)
    assert load_timetable().describe() == text


def test_there_is_no_next_sync_if_the_task_is_disabled(connection: Connection) -> None:
    work(connection)
    PeriodicTask.objects.filter(pk=entry().pk).update(enabled=False)
    assert next_sync_at(connection, NOON) is None
    assert scheduling.request_due_syncs(NOON + 30 * HOUR) == 0
    entry().delete()
    assert next_sync_at(connection, NOON) is None
    assert scheduling.request_due_syncs(NOON + 30 * HOUR) == 0


# --- What it starts -------------------------------------------------------------------------


def test_one_task_is_started_for_each_active_connection(
    acme: Product,
    globex: Product,
    simulator: Simulator,
    connection: Connection,
    django_capture_on_commit_callbacks: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    woken: list[int] = []
    monkeypatch.setattr(scheduling, "wake_workers", woken.extend)
    other = connect(globex, simulator)
    third = connect(Product.create_with_workspace("Initech"), simulator)
    for active in (connection, other, third):
        work(active)
    connecting.disconnect(third, NOON)
    woken.clear()
    with django_capture_on_commit_callbacks(execute=True):
        tasks.sync_all()
    assert woken == [connection.pk, other.pk]
    assert latest(other).state == RunState.WAITING


def test_each_connection_syncs_by_its_own_clock(
    globex: Product, simulator: Simulator, connection: Connection
) -> None:
    other = connect(globex, simulator, NOON + 2 * HOUR)
    work(connection)
    work(other, NOON + 2 * HOUR)
    started = {connection.pk: [NOON], other.pk: [NOON + 2 * HOUR]}
    for minutes in range(0, 15 * 60, 30):
        now = NOON + timedelta(minutes=minutes)
        scheduling.request_due_syncs(now)
        for pk in scheduling.due_connection_ids(now):
            started[pk].append(now)
            work(Connection.objects.get(pk=pk), now)
    assert started[connection.pk] == [NOON, NOON + 6 * HOUR, NOON + 12 * HOUR]
    assert started[other.pk] == [NOON + 2 * HOUR, NOON + 8 * HOUR, NOON + 14 * HOUR]


def test_a_time_that_passes_while_a_sync_is_unfinished_is_made_up_at_its_end(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.add_faults(ErrorStatus(status=503, retry_after=str(6 * 3600)))
    assert work(connection).due_at == NOON + 6 * HOUR
    simulator.clear_faults()
    late = NOON + 6 * HOUR + timedelta(minutes=30)
    assert scheduling.request_due_syncs(late) == 0, "one sync at a time"
    assert work(connection, late).state == RunState.SUCCEEDED
    assert next_sync_at(connection, late) == NOON + 6 * HOUR, "since then"
    assert scheduling.request_due_syncs(late) == 1
    assert scheduling.request_due_syncs(late) == 0


def test_a_sync_that_a_person_starts_moves_the_next_one(connection: Connection) -> None:
    work(connection)
    scheduling.request_sync(connection, Kind.RECENT, NOON + 4 * HOUR)
    work(connection, NOON + 4 * HOUR)
    assert scheduling.request_due_syncs(NOON + 9 * HOUR) == 0
    assert scheduling.request_due_syncs(NOON + 10 * HOUR) == 1


def test_the_minutely_task_starts_what_is_due(connection: Connection) -> None:
    work(connection)
    tasks.resume()
    assert latest(connection).kind == Kind.FULL, "weeks after the first one"


def test_waking_sends_the_connections_id_and_nothing_else(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[tuple[str, Any, Any]] = []

    def publish(self: Any, name: str, args: Any = None, kwargs: Any = None, **_: Any) -> None:
        messages.append((name, args, kwargs))

    monkeypatch.setattr(Celery, "send_task", publish)
    scheduling.wake_workers([connection.pk])
    assert [(name, list(args), kwargs) for name, args, kwargs in messages] == [
        ("marketplace.tasks.sync", [connection.pk], {})
    ]


def test_an_unavailable_broker_delays_a_sync_by_a_minute(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("no broker")

    monkeypatch.setattr(Celery, "send_task", refuse)
    scheduling.wake_workers([connection.pk])
    assert scheduling.due_connection_ids(NOON) == [connection.pk], "the resume task finds it"


def test_the_resume_task_wakes_workers_for_due_syncs(
    simulator: Simulator, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[int] = []
    monkeypatch.setattr(scheduling, "wake_workers", woken.extend)
    tasks.resume()
    assert woken == [connection.pk]
    SyncRun.objects.update(due_at=timezone.now() + HOUR)
    woken.clear()
    tasks.resume()
    assert woken == []


def test_the_schedule_does_not_request_an_unfinished_sync_again(connection: Connection) -> None:
    assert latest(connection).kind == Kind.FIRST
    assert scheduling.request_due_syncs(NOON) == 0
    assert SyncRun.objects.count() == 1
