"""Syncs as entries of a connection's history: asking for one, and each step from there to its end.

Whoever works on a run holds its attempt number and its connection's generation, and writes only
where both still are what they were. Locks are taken on the connection first, then on the run.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, LiteralString, NamedTuple

import msgspec
from celery import signature
from django.db import transaction
from django.db.models import QuerySet

from engagement.core import wakeups
from engagement.database import sql
from marketplace import duplicates, locks, schedule
from marketplace.models import Connection, SyncRun

Kind, State = SyncRun.Kind, SyncRun.State

# Later syncs ask for what was updated within so many days.
RECENT_WINDOW = timedelta(days=5)
FULL_SYNC_INTERVAL = timedelta(days=7)
# A run that the marketplace interrupted waits for so long, then twice as long each time.
MIN_BACKOFF, MAX_BACKOFF = timedelta(minutes=10), timedelta(hours=6)
# A run is given up when the marketplace was unavailable once more often in a row: five pauses come
# to some five hours. And after so long, however far it has come.
MAX_BACKOFF_COUNT = 5
MAX_RUN_DURATION = timedelta(hours=24)
# After a full sync that failed on its way, the schedule asks for changes alone for so long.
FULL_SYNC_RETRY_DELAY = timedelta(hours=12)
# So often in a row a run may end without a word before it is given up.
MAX_CRASH_COUNT = 5
MAX_KEPT_RUNS = 200
# A wake-up that nobody took by then is dropped: the next look at what is due sends another one.
WAKEUP_TTL_SECONDS = 60.0


class ConnectionInactive(Exception):
    """The connection does not sync; the message says why and what to do."""


class Superseded(Exception):
    """The run is no longer ours to write for: it was stopped, taken over, or its connection has
    other details by now. What was to be written is not."""


class Position(NamedTuple):
    """Where a run goes on: a pass, an offset in it, and whether its end is read once more."""

    pass_number: int
    offset: int
    is_closing: bool = False

    @property
    def sort_key(self) -> tuple[int, bool, int]:
        """Grows as the run comes further."""
        return self.pass_number, self.is_closing, self.offset


class Step(NamedTuple):
    """How far a run comes with what it writes: the position after it, the fingerprints of the last
    records, the number of pages, what was left out, in sentences, and what it found in which list
    (None in a sync of changes)."""

    to: Position
    recent: list[str]
    pages: int
    note: str = ""
    lists: dict[str, str] | None = None


# --- Asking for a sync ----------------------------------------------------------------------


def request_sync(connection: Connection, kind: SyncRun.Kind, now: datetime) -> SyncRun:
    """Have the connection sync as soon as a worker is free; the run that does it.

    That is the unfinished one where there is one: it goes on at once instead of waiting. Only a
    full sync that is asked for while another kind is unfinished stops that one and takes its
    place. Raises NotActive.
    """
    with transaction.atomic():
        locked = Connection.objects.select_for_update().get(pk=connection.pk)
        if locked.state != Connection.State.ACTIVE:
            raise ConnectionInactive(
                "This connection does not sync: it is not active. Enter its details again first."
            )
        if kind == Kind.RECENT:
            # Changes alone say nothing where not everything was imported before.
            kind = scheduled_kind(locked, now)
        elif due_kind(locked, now) == Kind.FIRST:
            kind = Kind.FIRST
        unfinished = unfinished_runs(locked).first()
        if unfinished is not None and (kind == Kind.RECENT or unfinished.kind != Kind.RECENT):
            return _hurry(unfinished, now)
        stop_unfinished(locked, "A full sync took its place.", now)
        return create_run(locked, kind, now)


def request_all_syncs(now: datetime) -> int:
    """Have each active connection sync that is not at it already; how many were asked to."""
    active = Connection.objects.filter(state=Connection.State.ACTIVE)
    asked = 0
    for pk in active.values_list("pk", flat=True).iterator():
        with transaction.atomic():
            connection = Connection.objects.select_for_update().get(pk=pk)
            is_active = connection.state == Connection.State.ACTIVE
            if is_active and not unfinished_runs(connection).exists():
                create_run(connection, scheduled_kind(connection, now), now)
                asked += 1
    return asked


def create_run(connection: Connection, kind: SyncRun.Kind, now: datetime) -> SyncRun:
    """A new run, due at once, of a (locked) connection without an unfinished one."""
    since = _since(connection, now) if kind == Kind.RECENT else None
    run = SyncRun.objects.create(
        connection=connection,
        generation=connection.generation,
        kind=kind,
        requested_at=now,
        due_at=now,
        since=since,
    )
    _forget_old(connection)
    _wake_after_commit(connection.pk)
    return run


def due_kind(connection: Connection, now: datetime) -> SyncRun.Kind:
    """What the connection's next sync has to be, so that nothing is missed."""
    if connection.full_synced_at is None:
        return Kind.FIRST
    is_time = now - connection.full_synced_at >= FULL_SYNC_INTERVAL
    return Kind.FULL if is_time or _missed_some(connection, now) else Kind.RECENT


def scheduled_kind(connection: Connection, now: datetime) -> SyncRun.Kind:
    """The kind of sync that the schedule starts, and whoever asks for one.

    A full one that failed on its way is left alone for a while: the same page would stop it again,
    and changes would not arrive either.
    """
    kind = due_kind(connection, now)
    return Kind.RECENT if kind != Kind.RECENT and _is_stuck(connection, now) else kind


def _is_stuck(connection: Connection, now: datetime) -> bool:
    """Whether the last full sync failed not long ago and not just at its first request."""
    full = SyncRun.objects.filter(connection=connection, generation=connection.generation)
    run = full.exclude(kind=Kind.RECENT).first()
    if run is None or run.state != State.FAILED or run.finished_at is None:
        return False
    has_tried = run.kind == Kind.FULL and (run.backoff_count > 0 or run.crash_count > 0)
    return now - run.finished_at < FULL_SYNC_RETRY_DELAY and (run.pages > 0 or has_tried)


def _missed_some(connection: Connection, now: datetime) -> bool:
    """Whether the window of a sync of changes would miss something."""
    succeeded = connection.last_success_at or connection.full_synced_at
    # A day is kept back, because the window is counted in whole days.
    return succeeded is not None and now - succeeded > RECENT_WINDOW - timedelta(days=1)


def _since(connection: Connection, now: datetime) -> date:
    """The day from which on a sync of changes asks for licenses: further back than usual where
    nothing was synced for long."""
    covered = connection.last_success_at or connection.full_synced_at
    begin = covered if covered is not None and _missed_some(connection, now) else now
    return (begin.astimezone(UTC) - RECENT_WINDOW).date()


def unfinished_runs(connection: Connection) -> QuerySet[SyncRun]:
    return SyncRun.objects.filter(connection=connection, state__in=SyncRun.UNFINISHED)


def stop_unfinished(connection: Connection, why: str, now: datetime) -> None:
    """End the (locked) connection's unfinished run, also one that somebody works on just now."""
    unfinished = list(unfinished_runs(connection).values_list("pk", flat=True))
    SyncRun.objects.filter(pk__in=unfinished).update(state=State.STOPPED, finished_at=now, note=why)
    duplicates.delete_pending(unfinished)


def next_sync_at(connection: Connection, now: datetime) -> datetime | None:
    """When the connection syncs next: *now* or earlier where it is due or running; None where it
    does not, or where the schedule was switched off in the admin."""
    if connection.state != Connection.State.ACTIVE:
        return None
    unfinished = unfinished_runs(connection).first()
    if unfinished is not None:
        return now if unfinished.state == State.RUNNING else unfinished.due_at
    return schedule.next_run_at(now)


def _hurry(run: SyncRun, now: datetime) -> SyncRun:
    if run.state == State.WAITING and run.due_at > now:
        run.due_at = now
        run.save(update_fields=["due_at"])
    _wake_after_commit(run.connection_id)
    return run


def _forget_old(connection: Connection) -> None:
    kept = SyncRun.objects.filter(connection=connection).order_by("-id")[MAX_KEPT_RUNS:]
    SyncRun.objects.filter(pk__in=kept.values("pk")).delete()


# --- Waking workers -------------------------------------------------------------------------

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
    """The connections whose run should be worked on and is not: it waits and its time has come, or
    whoever worked on it is gone."""
    parameters = {"now": now, "namespace": locks.NAMESPACE, "modulus": locks.MODULUS}
    return [row[0] for row in sql.fetch(_DUE, parameters)]


def wake_workers(connection_ids: Iterable[int]) -> None:
    """Ask the workers to go on with the connections' runs."""
    for pk in connection_ids:
        # By its name, because the task's module imports this one.
        wakeups.enqueue(signature("marketplace.tasks.sync", args=(pk,)), WAKEUP_TTL_SECONDS)


def _wake_after_commit(connection_id: int) -> None:
    transaction.on_commit(partial(wake_workers, [connection_id]))


# --- Working on a run -----------------------------------------------------------------------


def claim(connection_id: int, now: datetime) -> SyncRun | None:
    """The connection's run to work on now, under a new attempt number; None where none is due.

    Call it under the connection's lock (``locks.only_one``): a run that counts as running then has
    nobody who works on it any more.
    """
    with transaction.atomic():
        connection = Connection.objects.select_for_update(no_key=True).get(pk=connection_id)
        run = unfinished_runs(connection).filter(due_at__lte=now).first()
        if run is None:
            return None
        run.crash_count += run.state == State.RUNNING
        if run.crash_count > MAX_CRASH_COUNT:
            fail(run, _GIVEN_UP, now)
            return None
        run.state = State.RUNNING
        run.attempt += 1
        run.started_at = run.started_at or now
        run.save(update_fields=["state", "attempt", "crash_count", "started_at"])
        return run


_GIVEN_UP = (
    "The sync ended several times at the same page without saying why; the worker's log knows more."
)


def lock_run(run: SyncRun) -> None:
    """Keep the product, the connection and the run as they are until the transaction ends; raises
    Superseded where the run is not ours any more or the product is being deleted.

    Before anything else in a transaction, as whoever forgets an account or deletes the product.
    """
    # The transaction need not be on disk when it is committed: if it is lost, the page and the
    # position are lost together, and read again.
    identity = {
        "id": run.pk,
        "attempt": run.attempt,
        "connection": run.connection_id,
        "generation": run.generation,
    }
    if not sql.fetch(_HOLD, identity, prepare=True):
        raise Superseded


# The locks are taken in the order in which they are written here. That on the product is the one
# of `engagement.database.locks.share_lock_products`: one statement for all, because each page takes
# them.
_HOLD: LiteralString = """
    SELECT set_config('synchronous_commit', 'off', true)
    FROM marketplace_connection c
    JOIN marketplace_syncrun r ON r.connection_id = c.id
    JOIN engagement_product p ON p.id = c.product_id
    WHERE c.id = %(connection)s AND c.generation = %(generation)s AND c.state = 'active'
      AND r.id = %(id)s AND r.attempt = %(attempt)s AND r.state = 'running'
      AND p.deletion_requested_at IS NULL
    FOR KEY SHARE OF p FOR SHARE OF c FOR NO KEY UPDATE OF r
"""


def position_of(run: SyncRun) -> Position:
    return Position(run.pass_number, run.offset, run.is_closing)


def advance(run: SyncRun, step: Step, counted: Mapping[str, int]) -> None:
    """Store how far the (held) run has come, and count up what it did; here and in the row."""
    # A page that is only read again does not count: the run may fail at the next one for ever.
    is_further = step.to.sort_key > position_of(run).sort_key
    left = (
        {} if is_further else {"backoff_count": run.backoff_count, "crash_count": run.crash_count}
    )
    values: dict[str, Any] = {**step.to._asdict(), "backoff_count": 0, "crash_count": 0, **left}
    values |= {
        "recent": step.recent,
        "lists": step.lists,
        "note": " ".join(filter(None, (run.note, step.note))),
    }
    values |= {name: getattr(run, name) + counted.get(name, 0) for name in SyncRun.COUNTERS}
    for name, value in values.items():
        setattr(run, name, value)
    parameters = {**values, "recent": msgspec.json.encode(step.recent).decode(), "id": run.pk}
    parameters["lists"] = msgspec.json.encode(step.lists).decode() if step.lists else None
    sql.execute(_ADVANCE, parameters, prepare=True)


_ADVANCE: LiteralString = """
    UPDATE marketplace_syncrun
    SET pass_number = %(pass_number)s, "offset" = %(offset)s, is_closing = %(is_closing)s,
        recent = %(recent)s::jsonb, lists = %(lists)s::jsonb, note = %(note)s,
        put_downs = %(backoff_count)s, stumbles = %(crash_count)s,
        pages = %(pages)s, seen = %(seen)s, imported = %(imported)s, unchanged = %(unchanged)s,
        skipped = %(skipped)s, failed = %(failed)s, without_cloud_id = %(without_cloud_id)s,
        accounts_updated = %(accounts_updated)s, accounts_created = %(accounts_created)s
    WHERE id = %(id)s
"""


def release(run: SyncRun, now: datetime) -> None:
    """Let any worker go on with the run at once."""
    _leave(run, State.WAITING, due_at=now)


def suspend(run: SyncRun, why: str, not_before: timedelta, now: datetime) -> None:
    """Leave the run to be resumed later from where it is: the longer, the more often in a row."""
    delay = min(MIN_BACKOFF * 2 ** min(run.backoff_count, 10), MAX_BACKOFF)
    delay = min(max(delay, not_before), MAX_BACKOFF)
    with transaction.atomic():
        _note_error(run, why, now)
        left = {"due_at": now + delay, "error": why, "backoff_count": run.backoff_count + 1}
        _leave(run, State.WAITING, **left)


def is_exhausted(run: SyncRun, now: datetime) -> bool:
    """Whether the run, which the marketplace interrupts, has been tried often or long enough."""
    return run.backoff_count >= MAX_BACKOFF_COUNT or is_too_old(run, now)


def is_too_old(run: SyncRun, now: datetime) -> bool:
    return run.started_at is not None and now - run.started_at > MAX_RUN_DURATION


def fail(run: SyncRun, why: str, now: datetime) -> None:
    """End the run; the connection stays as it is, and the schedule tries again."""
    with transaction.atomic():
        _note_error(run, why, now)
        _close(run, State.FAILED, now, error=why)


def require_authentication(run: SyncRun, why: str, now: datetime) -> None:
    """End the run because its credentials are not accepted, and pause the connection's syncs;
    unless it has other details by now."""
    with transaction.atomic():
        _current(run).update(
            state=Connection.State.REQUIRES_AUTHENTICATION,
            state_reason=why,
            state_changed_at=now,
            last_error=why,
            last_error_at=now,
        )
        _close(run, State.FAILED, now, error=why)


def finish(run: SyncRun, now: datetime) -> None:
    """End the run: it has read everything it was to read."""
    with transaction.atomic():
        whole: dict[str, Any] = {}
        if run.kind != Kind.RECENT:
            whole = {"full_synced_at": run.started_at, "lists": run.lists}
        _current(run).update(last_success_at=now, **whole)
        _close(run, State.SUCCEEDED, now, error="")


def _current(run: SyncRun) -> QuerySet[Connection]:
    """The run's connection, unless it was replaced, paused or removed since the run began."""
    return Connection.objects.filter(
        pk=run.connection_id, generation=run.generation, state=Connection.State.ACTIVE
    )


def _note_error(run: SyncRun, why: str, now: datetime) -> None:
    _current(run).update(last_error=why, last_error_at=now)


def _close(run: SyncRun, state: SyncRun.State, now: datetime, error: str) -> None:
    _leave(run, state, finished_at=now, error=error, recent=[])
    duplicates.delete_pending([run.pk])


def _leave(run: SyncRun, state: SyncRun.State, **values: Any) -> None:
    """Give the run another state, if it is still ours."""
    ours = SyncRun.objects.filter(pk=run.pk, attempt=run.attempt, state=State.RUNNING)
    ours.update(state=state, **values)
