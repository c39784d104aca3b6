"""A connection's sync runs: claim one, keep it, and end it.

A worker knows its run's attempt number and its connection's generation, and writes only while both
are unchanged. Locks are taken on the connection first, then on the run.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString

from django.db import transaction
from django.db.models import QuerySet

from core.database import sql
from core.jobs.backoff import Backoff
from marketplace import texts
from marketplace.licenses import duplicates
from marketplace.models import Connection, SyncRun

Kind, State, Finding = SyncRun.Kind, SyncRun.State, SyncRun.Finding

# Five pauses before the run fails: together about five hours.
BACKOFF = Backoff(timedelta(minutes=10), 2, timedelta(hours=6), give_up=6)
# A run fails after this time even if it makes progress.
MAX_RUN_DURATION = timedelta(hours=24)
# Crashes in a row before the run fails.
MAX_CRASH_COUNT = 5


class Superseded(Exception):
    """The run no longer belongs to this worker: it was stopped or claimed again, or the connection
    has other details. Nothing is written."""


# --- History --------------------------------------------------------------------------------


def unfinished_runs(connection: Connection) -> QuerySet[SyncRun]:
    return SyncRun.objects.filter(connection=connection, state__in=SyncRun.UNFINISHED)


def stop_unfinished(connection: Connection, reason: str, now: datetime) -> None:
    """End the (locked) connection's unfinished run, even while a worker is busy with it."""
    kinds = dict(unfinished_runs(connection).values_list("pk", "kind"))
    SyncRun.objects.filter(pk__in=kinds).update(state=State.STOPPED, finished_at=now, note=reason)
    duplicates.delete_pending(list(kinds))
    if set(kinds.values()) - {Kind.RECENT}:
        connection.is_full_sync_due = True
        connection.save(update_fields=["is_full_sync_due"])


# --- One worker for each connection ----------------------------------------------------------

# An arbitrary number that no other advisory lock in the database uses.
NAMESPACE: Final = 0x6D6B7470
# The second half of the lock's key has 32 bits.
MODULUS: Final = 2**31

_LOCK: LiteralString = "SELECT pg_try_advisory_lock(%(namespace)s, %(key)s)"
_UNLOCK: LiteralString = "SELECT pg_advisory_unlock(%(namespace)s, %(key)s)"


@contextmanager
def try_lock_connection(connection_id: int) -> Iterator[bool]:
    """Hold the connection's lock during the block, if it is free; yield whether it is.

    A worker that dies releases it with its session. A worker that loses its session may continue
    for a moment; the run's attempt number then prevents it from writing.
    """
    key = {"namespace": NAMESPACE, "key": connection_id % MODULUS}
    (is_free,) = sql.fetch(_LOCK, key)[0]
    try:
        yield is_free
    finally:
        if is_free:
            sql.fetch(_UNLOCK, key)


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
        if run.started_at is None:
            run.started_at = now
            run.report, run.splits_insights = connection.report, connection.splits_insights
        run.state = State.RUNNING
        run.attempt += 1
        run.save(update_fields=_CLAIMED_FIELDS)
        return run


_CLAIMED_FIELDS = ["state", "attempt", "crash_count", "started_at", "report", "splits_insights"]


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
# `core.database.locks.share_lock_products`; one statement takes all three, because every
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


# --- Endings --------------------------------------------------------------------------------


def release(run: SyncRun, now: datetime) -> None:
    """Let any worker resume the run at once."""
    leave(run, State.WAITING, due_at=now)


def wait(run: SyncRun, delay: timedelta, now: datetime) -> None:
    """Let the run resume after a pause that is no failure."""
    leave(run, State.WAITING, due_at=now + delay)


def suspend(
    run: SyncRun,
    reason: str,
    min_delay: timedelta,
    now: datetime,
    *,
    export: dict[str, Any] | None = None,
) -> None:
    """Let the run resume from its position after a pause, longer with each failure in a row. It
    continues with the *export*, if that is not None."""
    backoff = BACKOFF.delay(run.backoff_count + 1)
    due_at = now + min(max(backoff, min_delay), BACKOFF.longest)
    with transaction.atomic():
        _store_error(run, reason, now)
        leave(
            run,
            State.WAITING,
            due_at=due_at,
            error=reason,
            backoff_count=run.backoff_count + 1,
            trial_report="",
            export=export,
        )


def is_exhausted(run: SyncRun, now: datetime) -> bool:
    """Whether a run that the marketplace interrupts gets no further attempt."""
    return BACKOFF.gives_up(run.backoff_count + 1) or is_too_old(run, now)


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


def finish(run: SyncRun, now: datetime, note: str = "") -> None:
    """End the run successfully. *note* says in sentences what is missing."""
    full_sync: dict[str, Any] = {}
    if run.kind != Kind.RECENT:
        full_sync = {
            "full_synced_at": run.started_at,
            "lists": _lists_in_use(run),
            "is_full_sync_due": False,
        }
    with transaction.atomic():
        _current_connection(run).update(
            last_success_at=now,
            report=run.report,
            splits_insights=run.splits_insights,
            **full_sync,
        )
        _close(run, State.SUCCEEDED, now, error="", note=texts.join_sentences(run.note, note))


def _lists_in_use(run: SyncRun) -> dict[str, str] | None:
    """The run's findings. A list that had licenses before stays in use although it is refused."""
    previous: dict[str, str] = run.connection.lists or {}
    if run.lists is None:
        return None
    return {
        name: previous[name] if is_refused_list_in_use(run, name) else finding
        for name, finding in run.lists.items()
    }


def is_refused_list_in_use(run: SyncRun, name: str) -> bool:
    """Whether the marketplace refuses a list in which the last full sync found licenses."""
    findings, previous = run.lists or {}, run.connection.lists or {}
    return (findings.get(name), previous.get(name)) == (Finding.REFUSED, Finding.USED)


def _current_connection(run: SyncRun, *states: Connection.State | str) -> QuerySet[Connection]:
    """The run's connection, unless its details or its state changed since the run was created."""
    return Connection.objects.filter(
        pk=run.connection_id,
        generation=run.generation,
        state__in=states or [Connection.State.ACTIVE],
    )


def _store_error(run: SyncRun, reason: str, now: datetime) -> None:
    _current_connection(run).update(last_error=reason, last_error_at=now)


def _close(run: SyncRun, state: SyncRun.State, now: datetime, **values: Any) -> None:
    leave(run, state, finished_at=now, recent_fingerprints=[], trial_report="", **values)
    duplicates.delete_pending([run.pk])
    if state == State.FAILED and run.kind != Kind.RECENT:
        _current_connection(run, *Connection.State.values).update(is_full_sync_due=True)


def leave(run: SyncRun, state: SyncRun.State, **values: Any) -> None:
    """Set the run's state and *values*, if the run still belongs to this worker."""
    claimed = SyncRun.objects.filter(pk=run.pk, attempt=run.attempt, state=State.RUNNING)
    claimed.update(state=state, **values)
