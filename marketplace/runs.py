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
from marketplace.models import Connection, FailedRecord, Report, SyncRun

Kind, State, Finding = SyncRun.Kind, SyncRun.State, SyncRun.Finding

# The pause after the first failure; each further one is twice as long.
MIN_BACKOFF, MAX_BACKOFF = timedelta(minutes=10), timedelta(hours=6)
# Pauses in a row before the run fails: together about five hours.
MAX_BACKOFF_COUNT = 5
# A run fails after this time even if it makes progress.
MAX_RUN_DURATION = timedelta(hours=24)
# Crashes in a row before the run fails.
MAX_CRASH_COUNT = 5


# What a run counts for each license that it reads.
LICENSE_COUNTERS = tuple(name for name in SyncRun.COUNTERS if not name.startswith("accounts_"))


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


class ListTotal(NamedTuple):
    """The rows of a list: by the marketplace, if it says so, and received. A list is cut if it
    ended although a link led on."""

    reported: int | None = None
    received: int = 0
    is_cut: bool = False


class PageMarker(NamedTuple):
    """A page of a list, to recognize it if it comes again.

    After ``limit`` further pages another one is marked, for twice as long, so that a circle of any
    length is recognized (Brent's algorithm). ``repeats`` counts how often it came again.
    """

    pass_number: int
    fingerprint: str
    limit: int = 1
    pages: int = 0
    repeats: int = 0


class Step(NamedTuple):
    """The progress that a run makes with one write.

    ``note`` explains in sentences what was left out. ``lists`` is the ``Finding`` for each list,
    None in a sync of recent changes. With ``starts_over``, earlier progress no longer counts.
    """

    position: Position
    recent_fingerprints: list[str]
    pages: int
    note: str = ""
    lists: dict[str, str] | None = None
    totals: dict[str, ListTotal] | None = None
    page_marker: PageMarker | None = None
    starts_over: bool = False


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
        "recent_fingerprints": step.recent_fingerprints,
        "lists": step.lists,
        "totals": step.totals,
        "page_marker": step.page_marker,
        # The next list has an export of its own.
        "export": run.export if step.position.pass_number == run.pass_number else None,
        "report": run.report,
        "trial_report": run.trial_report,
        "note": _join(run.note, step.note),
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
        **{name: _json(values[name]) for name in _JSON_FIELDS},
    }
    sql.execute(_ADVANCE, parameters, prepare=True)


def _join(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


_JSON_FIELDS = ("recent_fingerprints", "lists", "totals", "page_marker", "export")


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


_ADVANCE: LiteralString = """
    UPDATE marketplace_syncrun
    SET pass_number = %(pass_number)s, "offset" = %(offset)s, is_closing = %(is_closing)s,
        recent = %(recent_fingerprints)s::jsonb, lists = %(lists)s::jsonb, note = %(note)s,
        totals = %(totals)s::jsonb, page_marker = %(page_marker)s::jsonb,
        export = %(export)s::jsonb, report = %(report)s, trial_report = %(trial_report)s,
        put_downs = %(backoff_count)s, stumbles = %(crash_count)s,
        pages = %(pages)s, seen = %(seen)s, imported = %(imported)s, unchanged = %(unchanged)s,
        skipped = %(skipped)s, failed = %(failed)s, without_cloud_id = %(without_cloud_id)s,
        accounts_updated = %(accounts_updated)s, accounts_created = %(accounts_created)s,
        of_other_product = %(of_other_product)s, unlisted = %(unlisted)s
    WHERE id = %(id)s
"""


def license_counters(run: SyncRun) -> dict[str, int]:
    return {name: getattr(run, name) for name in LICENSE_COUNTERS}


def store_export(run: SyncRun, export: Any, counters: dict[str, int] | None = None) -> None:
    """Note the export that the run waits for, in the row and in *run*.

    With *counters*, its list is read again from the beginning: they are from before the list.
    """
    values: dict[str, Any] = {"export": msgspec.to_builtins(export)}
    if counters is not None:
        values |= {**counters, "offset": 0, "recent_fingerprints": [], "page_marker": None}
    with transaction.atomic():
        lock_run(run)
        for name, value in values.items():
            setattr(run, name, value)
        run.save(update_fields=list(values))
        if counters is not None:
            listed = FailedRecord.objects.filter(run=run).values("pk")
            FailedRecord.objects.filter(pk__in=listed[counters["failed"] :]).delete()


def has_started_over(run: SyncRun) -> bool:
    """Whether the run may read licenses again that it has written, and counts them again."""
    before = run.connection
    return (run.report, run.splits_insights) != (before.report, before.splits_insights) or (
        run.export or {}
    ).get("requests", 1) != 1


# --- Other ways to read the lists -----------------------------------------------------------


def try_report(run: SyncRun, report: Report, reason: str) -> None:
    """Have any worker try another way at once. The run keeps its position until that brings a
    page."""
    _leave(run, State.WAITING, trial_report=report, trial_reason=reason, export=None)


def adopt_trial(run: SyncRun) -> None:
    """Start *run* over in the way that was tried; the caller stores it. What was imported stays,
    and accounts stay counted."""
    run.report, run.trial_report = run.trial_report, ""
    for name, value in _start_values().items():
        setattr(run, name, value)


def _start_values() -> dict[str, Any]:
    """The progress of a run that starts over."""
    return {
        **dict.fromkeys(LICENSE_COUNTERS, 0),
        **Position(0, 0)._asdict(),
        **{"recent_fingerprints": [], "lists": None, "totals": None, "page_marker": None},
    }


def split_insights(run: SyncRun) -> None:
    """Have any worker request licenses from before data insights separately."""
    _leave(run, State.WAITING, splits_insights=True, export=None)


def start_over_in_halves(run: SyncRun, note: str) -> None:
    """Have any worker do the same from the beginning. What was imported stays."""
    values = {**_start_values(), "note": _join(run.note, note)}
    with transaction.atomic():
        FailedRecord.objects.filter(run=run).delete()
        _leave(run, State.WAITING, splits_insights=True, export=None, **values)


# --- Endings --------------------------------------------------------------------------------


def release(run: SyncRun, now: datetime) -> None:
    """Let any worker resume the run at once."""
    _leave(run, State.WAITING, due_at=now)


def wait(run: SyncRun, delay: timedelta, now: datetime) -> None:
    """Let the run resume after a pause that is no failure."""
    _leave(run, State.WAITING, due_at=now + delay)


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
    backoff = MIN_BACKOFF * 2 ** min(run.backoff_count, 10)
    due_at = now + min(max(backoff, min_delay), MAX_BACKOFF)
    with transaction.atomic():
        _store_error(run, reason, now)
        _leave(
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
        _close(run, State.SUCCEEDED, now, error="", note=_join(run.note, note))


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
    _leave(run, state, finished_at=now, recent_fingerprints=[], trial_report="", **values)
    duplicates.delete_pending([run.pk])
    if state == State.FAILED and run.kind != Kind.RECENT:
        _current_connection(run, *Connection.State.values).update(is_full_sync_due=True)


def _leave(run: SyncRun, state: SyncRun.State, **values: Any) -> None:
    """Set the run's state and *values*, if the run still belongs to this worker."""
    claimed = SyncRun.objects.filter(pk=run.pk, attempt=run.attempt, state=State.RUNNING)
    claimed.update(state=state, **values)
