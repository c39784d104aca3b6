"""A connection's sync runs: claim one, store its progress, and end it.

A worker knows its run's attempt number and its connection's generation, and writes only while both
are unchanged. Locks are taken on the connection first, then on the run.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, LiteralString, NamedTuple

import msgspec
from django.db import transaction
from django.db.models import QuerySet

from engagement.database import sql
from marketplace import duplicates, texts
from marketplace.models import Connection, SyncRun

Kind, State = SyncRun.Kind, SyncRun.State

# The pause after the first failure; each further one is twice as long.
MIN_BACKOFF, MAX_BACKOFF = timedelta(minutes=10), timedelta(hours=6)
# Pauses in a row before the run fails: together about five hours.
MAX_BACKOFF_COUNT = 5
# A run fails after this time even if it makes progress.
MAX_RUN_DURATION = timedelta(hours=24)
# Crashes in a row before the run fails.
MAX_CRASH_COUNT = 5


class Superseded(Exception):
    """The run no longer belongs to this worker: it was stopped or claimed again, or the connection
    has other details. Nothing is written."""


class Position(NamedTuple):
    """Where a run resumes: a list, an offset in it, and whether its end is being read again."""

    pass_number: int
    offset: int
    is_closing: bool = False

    @property
    def sort_key(self) -> tuple[int, bool, int]:
        """Grows as the run advances."""
        return self.pass_number, self.is_closing, self.offset


class Step(NamedTuple):
    """The progress that a run makes with one write.

    ``note`` explains in sentences what was left out. ``lists`` is the ``Finding`` for each list,
    None in a sync of recent changes.
    """

    position: Position
    recent_fingerprints: list[str]
    pages: int
    note: str = ""
    lists: dict[str, str] | None = None


# --- History --------------------------------------------------------------------------------


def unfinished_runs(connection: Connection) -> QuerySet[SyncRun]:
    return SyncRun.objects.filter(connection=connection, state__in=SyncRun.UNFINISHED)


def stop_unfinished(connection: Connection, reason: str, now: datetime) -> None:
    """End the (locked) connection's unfinished run, even while a worker is busy with it."""
    ids = list(unfinished_runs(connection).values_list("pk", flat=True))
    SyncRun.objects.filter(pk__in=ids).update(state=State.STOPPED, finished_at=now, note=reason)
    duplicates.delete_pending(ids)


# --- Claiming -------------------------------------------------------------------------------


def claim(connection_id: int, now: datetime) -> SyncRun | None:
    """Claim the connection's due run under a new attempt number; None if none is due.

    The caller holds the connection's lock (``try_lock_connection``). A run that is already marked
    as running has therefore lost its worker, which counts as a crash.
    """
    with transaction.atomic():
        connection = Connection.objects.select_for_update(no_key=True).get(pk=connection_id)
        run = unfinished_runs(connection).filter(due_at__lte=now).first()
        if run is None:
            return None
        run.crash_count += run.state == State.RUNNING
        if run.crash_count > MAX_CRASH_COUNT:
            fail(run, texts.SYNC_CRASHED, now)
            return None
        run.state = State.RUNNING
        run.attempt += 1
        run.started_at = run.started_at or now
        run.save(update_fields=["state", "attempt", "crash_count", "started_at"])
        return run


def lock_run(run: SyncRun) -> None:
    """Lock the product, the connection, and the run until the transaction ends.

    Call it first in a transaction, as every eraser locks the product first. Raises Superseded if
    the run no longer belongs to this worker or the product is being deleted.
    """
    # The commit need not wait for the disk: if it is lost, the page and the position are lost
    # together, and the page is read again.
    identity = {
        "id": run.pk,
        "attempt": run.attempt,
        "connection": run.connection_id,
        "generation": run.generation,
    }
    if not sql.fetch(_LOCK_RUN, identity, prepare=True):
        raise Superseded


# PostgreSQL takes the locks in this order. The one on the product is the lock of
# `engagement.database.locks.share_lock_products`; one statement takes all three, because every
# page needs them.
_LOCK_RUN: LiteralString = """
    SELECT set_config('synchronous_commit', 'off', true)
    FROM marketplace_connection c
    JOIN marketplace_syncrun r ON r.connection_id = c.id
    JOIN engagement_product p ON p.id = c.product_id
    WHERE c.id = %(connection)s AND c.generation = %(generation)s AND c.state = 'active'
      AND r.id = %(id)s AND r.attempt = %(attempt)s AND r.state = 'running'
      AND p.deletion_requested_at IS NULL
    FOR KEY SHARE OF p FOR SHARE OF c FOR NO KEY UPDATE OF r
"""


# --- Progress -------------------------------------------------------------------------------


def position_of(run: SyncRun) -> Position:
    return Position(run.pass_number, run.offset, run.is_closing)


def advance(run: SyncRun, step: Step, counts: Mapping[str, int]) -> None:
    """Store the (locked) run's progress and add to its counters, in the row and in *run*."""
    values: dict[str, Any] = {
        **step.position._asdict(),
        "recent": step.recent_fingerprints,
        "lists": step.lists,
        "note": " ".join(filter(None, (run.note, step.note))),
        **{name: getattr(run, name) + counts.get(name, 0) for name in SyncRun.COUNTERS},
    }
    # A page that is read again is no progress: the run could fail at the next one forever.
    if step.position.sort_key > position_of(run).sort_key:
        values |= {"backoff_count": 0, "crash_count": 0}
    for name, value in values.items():
        setattr(run, name, value)
    parameters = {
        **values,
        "id": run.pk,
        "backoff_count": run.backoff_count,
        "crash_count": run.crash_count,
        "recent": msgspec.json.encode(step.recent_fingerprints).decode(),
        "lists": msgspec.json.encode(step.lists).decode() if step.lists else None,
    }
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


# --- Endings --------------------------------------------------------------------------------


def release(run: SyncRun, now: datetime) -> None:
    """Let any worker resume the run at once."""
    _leave(run, State.WAITING, due_at=now)


def suspend(run: SyncRun, reason: str, min_delay: timedelta, now: datetime) -> None:
    """Let the run resume from its position after a pause, longer with each failure in a row."""
    backoff = MIN_BACKOFF * 2 ** min(run.backoff_count, 10)
    due_at = now + min(max(backoff, min_delay), MAX_BACKOFF)
    with transaction.atomic():
        _store_error(run, reason, now)
        _leave(run, State.WAITING, due_at=due_at, error=reason, backoff_count=run.backoff_count + 1)


def is_exhausted(run: SyncRun, now: datetime) -> bool:
    """Whether a run that the marketplace interrupts gets no further attempt."""
    return run.backoff_count >= MAX_BACKOFF_COUNT or is_too_old(run, now)


def is_too_old(run: SyncRun, now: datetime) -> bool:
    return run.started_at is not None and now - run.started_at > MAX_RUN_DURATION


def fail(run: SyncRun, reason: str, now: datetime) -> None:
    """End the run. The connection stays active, and the schedule tries again."""
    with transaction.atomic():
        _store_error(run, reason, now)
        _close(run, State.FAILED, now, error=reason)


def require_authentication(run: SyncRun, reason: str, now: datetime) -> None:
    """End the run and pause the connection, because the marketplace rejects the credentials.

    A connection that has other details by now stays active.
    """
    with transaction.atomic():
        _current_connection(run).update(
            state=Connection.State.REQUIRES_AUTHENTICATION,
            state_reason=reason,
            state_changed_at=now,
            last_error=reason,
            last_error_at=now,
        )
        _close(run, State.FAILED, now, error=reason)


def finish(run: SyncRun, now: datetime) -> None:
    """End the run successfully."""
    full_sync: dict[str, Any] = {}
    if run.kind != Kind.RECENT:
        full_sync = {"full_synced_at": run.started_at, "lists": run.lists}
    with transaction.atomic():
        _current_connection(run).update(last_success_at=now, **full_sync)
        _close(run, State.SUCCEEDED, now, error="")


def _current_connection(run: SyncRun) -> QuerySet[Connection]:
    """The run's connection, unless its details or its state changed since the run was created."""
    return Connection.objects.filter(
        pk=run.connection_id, generation=run.generation, state=Connection.State.ACTIVE
    )


def _store_error(run: SyncRun, reason: str, now: datetime) -> None:
    _current_connection(run).update(last_error=reason, last_error_at=now)


def _close(run: SyncRun, state: SyncRun.State, now: datetime, error: str) -> None:
    _leave(run, state, finished_at=now, error=error, recent=[])
    duplicates.delete_pending([run.pk])


def _leave(run: SyncRun, state: SyncRun.State, **values: Any) -> None:
    """Set the run's state and *values*, if the run still belongs to this worker."""
    claimed = SyncRun.objects.filter(pk=run.pk, attempt=run.attempt, state=State.RUNNING)
    claimed.update(state=state, **values)
