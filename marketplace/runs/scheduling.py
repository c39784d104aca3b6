"""When a connection syncs, what kind of sync it is, and which workers are woken for it."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import LiteralString

from celery import signature
from django.db import transaction
from django.db.models import Exists, OuterRef, Subquery

from core import wakeups
from core.database import clocks, sql
from marketplace.models import Connection, SyncRun
from marketplace.runs import lifecycle
from marketplace.runs.lifecycle import BACKOFF, stop_unfinished, unfinished_runs
from marketplace.runs.timetable import Timetable, load_timetable

Kind, State = SyncRun.Kind, SyncRun.State

# A sync of recent changes requests licenses that were updated in this time.
RECENT_WINDOW = timedelta(days=5)
FULL_SYNC_INTERVAL = timedelta(days=7)
# After a full sync failed midway, only recent changes are synced for this time.
FULL_SYNC_RETRY_DELAY = timedelta(hours=12)
MAX_KEPT_RUNS = 200
# A wake-up that no worker takes expires; beat sends another one every minute.
WAKEUP_TTL_SECONDS = 60.0


class ConnectionInactive(Exception):
    """The connection does not sync. The message says why and what to do."""


def register_times() -> None:
    times = dict.fromkeys(("requested_at", "started_at", "finished_at"), clocks.NOW)
    clocks.register(SyncRun, {**times, "due_at": 2 * BACKOFF.longest})
    clocks.register(Connection, {"full_synced_at": clocks.NOW})


# --- Requests -------------------------------------------------------------------------------


def request_sync(connection: Connection, kind: SyncRun.Kind, now: datetime) -> SyncRun:
    """Have the connection sync as soon as a worker is free; return its run.

    An unfinished run resumes at once instead of waiting. Only a request for a full sync replaces
    an unfinished sync of recent changes. Raises ConnectionInactive.
    """
    with transaction.atomic():
        connection_row = Connection.objects.select_for_update().get(pk=connection.pk)
        if connection_row.state != Connection.State.ACTIVE:
            raise ConnectionInactive("This connection is not active. Enter its details again.")
        if kind == Kind.RECENT:
            # Recent changes are not enough until everything has been imported once.
            kind = scheduled_kind(connection_row, now)
        elif due_kind(connection_row, now) == Kind.FIRST:
            kind = Kind.FIRST
        unfinished = unfinished_runs(connection_row).first()
        if unfinished is not None and (kind == Kind.RECENT or unfinished.kind != Kind.RECENT):
            return _resume_now(unfinished, now)
        stop_unfinished(connection_row, "Replaced by a full sync.", now)
        return create_run(connection_row, kind, now)


def request_due_syncs(now: datetime) -> int:
    """Have each active connection sync whose time has come; return how many do.

    A time that passes while a run is unfinished counts as soon as that run has ended.
    """
    timetable = load_timetable()
    count = 0
    for pk, last in _idle_connections():
        if timetable.is_due(last, now):
            count += _request_if_idle(pk, timetable, now)
    return count


def _idle_connections() -> list[tuple[int, datetime | None]]:
    """The active connections without an unfinished run, and when their last sync was requested."""
    runs = SyncRun.objects.filter(connection=OuterRef("pk"))
    idle = Connection.objects.filter(
        ~Exists(runs.filter(state__in=SyncRun.UNFINISHED)), state=Connection.State.ACTIVE
    )
    last = Subquery(runs.order_by("-id").values("requested_at")[:1])
    return list(idle.order_by("pk").values_list("pk", last))


def _request_if_idle(connection_id: int, timetable: Timetable, now: datetime) -> bool:
    """Create the connection's run, unless somebody else was faster; return whether it did."""
    with transaction.atomic():
        active = Connection.objects.filter(pk=connection_id, state=Connection.State.ACTIVE)
        connection = active.select_for_update().first()
        if connection is None or unfinished_runs(connection).exists():
            return False
        if not timetable.is_due(last_requested_at(connection), now):
            return False
        create_run(connection, scheduled_kind(connection, now), now)
        return True


def last_requested_at(connection: Connection) -> datetime | None:
    """When the connection's last sync was requested, which its next one is counted from."""
    last = SyncRun.objects.filter(connection=connection).values_list("requested_at", flat=True)
    return last.first()


def create_run(connection: Connection, kind: SyncRun.Kind, now: datetime) -> SyncRun:
    """Create a run that is due at once, for a (locked) connection without an unfinished one."""
    run = SyncRun.objects.create(
        connection=connection,
        generation=connection.generation,
        kind=kind,
        requested_at=now,
        due_at=now,
        since=_since(connection, now) if kind == Kind.RECENT else None,
    )
    _delete_old_runs(connection)
    _wake_after_commit(connection.pk)
    return run


def _resume_now(run: SyncRun, now: datetime) -> SyncRun:
    if run.state == State.WAITING and run.due_at > now:
        run.due_at = now
        run.save(update_fields=["due_at"])
    _wake_after_commit(run.connection_id)
    return run


def _delete_old_runs(connection: Connection) -> None:
    old = SyncRun.objects.filter(connection=connection).order_by("-id")[MAX_KEPT_RUNS:]
    SyncRun.objects.filter(pk__in=old.values("pk")).delete()


# --- Kinds ----------------------------------------------------------------------------------


def due_kind(connection: Connection, now: datetime) -> SyncRun.Kind:
    """The kind of sync that the connection needs next to miss nothing."""
    if connection.full_synced_at is None:
        return Kind.FIRST
    is_due = connection.is_full_sync_due or now - connection.full_synced_at >= FULL_SYNC_INTERVAL
    return Kind.FULL if is_due or _has_gap(connection, now) else Kind.RECENT


def scheduled_kind(connection: Connection, now: datetime) -> SyncRun.Kind:
    """The kind of sync that the schedule and "Sync now" start.

    After a full sync failed midway, this is a sync of recent changes for a while: the same page
    would stop another full sync, and changes would not arrive either.
    """
    kind = due_kind(connection, now)
    return Kind.RECENT if kind != Kind.RECENT and _is_stuck(connection, now) else kind


def _is_stuck(connection: Connection, now: datetime) -> bool:
    """Whether the last full sync failed recently, and not at its first request."""
    runs = SyncRun.objects.filter(connection=connection, generation=connection.generation)
    run = runs.exclude(kind=Kind.RECENT).first()
    if run is None or run.state != State.FAILED or run.finished_at is None:
        return False
    was_retried = run.kind == Kind.FULL and (run.backoff_count > 0 or run.crash_count > 0)
    return now - run.finished_at < FULL_SYNC_RETRY_DELAY and (run.pages > 0 or was_retried)


def _has_gap(connection: Connection, now: datetime) -> bool:
    """Whether a sync of recent changes with the usual window would miss something."""
    last = connection.last_success_at or connection.full_synced_at
    # One day is reserve, because the window counts whole days.
    return last is not None and now - last > RECENT_WINDOW - timedelta(days=1)


def _since(connection: Connection, now: datetime) -> date:
    """The first day of the window: earlier than usual after a long time without a sync."""
    last = connection.last_success_at or connection.full_synced_at
    end = last if last is not None and _has_gap(connection, now) else now
    return (end.astimezone(UTC) - RECENT_WINDOW).date()


# --- Due runs -------------------------------------------------------------------------------

_DUE: LiteralString = """
    SELECT r.connection_id FROM marketplace_syncrun r
    WHERE r.state IN ('waiting', 'running') AND r.due_at <= %(now)s
      AND (r.state = 'waiting' OR NOT EXISTS (
          SELECT FROM pg_locks l
          WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND l.classid = %(namespace)s::integer::oid
            AND l.objid = (r.connection_id %% %(modulus)s)::integer::oid))
    ORDER BY r.due_at
"""


def due_connection_ids(now: datetime) -> list[int]:
    """The connections whose run needs a worker: its time has come, or its worker died."""
    parameters = {"now": now, "namespace": lifecycle.NAMESPACE, "modulus": lifecycle.MODULUS}
    return [row[0] for row in sql.fetch(_DUE, parameters)]


def wake_workers(connection_ids: Iterable[int]) -> None:
    """Send a task to the workers for each connection."""
    for pk in connection_ids:
        # By name, because the task's module imports this one.
        wakeups.enqueue(signature("marketplace.tasks.sync", args=(pk,)), WAKEUP_TTL_SECONDS)


def _wake_after_commit(connection_id: int) -> None:
    transaction.on_commit(partial(wake_workers, [connection_id]))


# --- The next sync --------------------------------------------------------------------------


def next_sync_at(
    connection: Connection, last_run: SyncRun | None, timetable: Timetable, now: datetime
) -> datetime | None:
    """When the connection, whose latest run is *last_run*, syncs next: *now* or earlier if a run is
    due or running; None if the connection or the timetable is off."""
    if connection.state != Connection.State.ACTIVE:
        return None
    if last_run is None or last_run.is_over:
        return timetable.next_after(None if last_run is None else last_run.requested_at, now)
    return now if last_run.state == State.RUNNING else last_run.due_at
