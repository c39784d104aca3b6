"""Runs of destinations: request one, store its progress, and end it.

Each unfinished run has a job, whose lease says which worker sends. ``cursors`` are states of a
workspace: its score set, its latest change stamp, and the benchmarks that its scores show.
"""

from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q

from core import retention
from core.database import clocks, nodes
from core.jobs import run as jobs
from core.jobs.backoff import Backoff
from core.jobs.run import LeaseLost
from core.models import Job
from core.retention import Retention
from destinations.models import RecordDestination, RecordLink, RecordRun
from engagement import changes
from engagement.changes import Benchmarks
from engagement.models import ScoreSet
from engagement.scopes import get_kind

# The kind of the jobs. A job's key is its run's id.
KIND = "send records"
QUEUE = "destinations"
# Longer than the slowest response. A worker that sends renews it with each batch.
LEASE = timedelta(minutes=2)
# Pauses of 1, 4, 16, and 60 minutes. After the fifth failure in a row the run fails.
BACKOFF = Backoff(timedelta(minutes=1), 4, timedelta(hours=1), give_up=5)
CRASHED = "The worker ended in the middle of it, again and again. Its log says more."
RETENTION = timedelta(days=90)
COMPARE_EVERY = timedelta(days=1)
# Of the rows of a run, in percent and at least, from which on it counts as failing.
REJECTED_PERCENT, REJECTED_ROWS = 5, 5
Kind, State = RecordRun.Kind, RecordRun.State


def register() -> None:
    """Register the times and the retention of runs."""
    clocks.register(
        RecordDestination, {"next_run_at": timedelta(days=2), "compared_at": clocks.NOW}
    )
    retention.register(
        "destinations",
        Retention(RecordRun, "requested_at", lambda: RETENTION, ~Q(state__in=RecordRun.UNFINISHED)),
    )


# --- Requests -------------------------------------------------------------------------------


def request_run(
    destination: RecordDestination, kind: RecordRun.Kind, now: datetime, requested_by: str = ""
) -> bool:
    """Add a run to the destination. Returns False if one is unfinished."""
    return RecordRun.request(
        product_id=destination.product_id,
        destination=destination,
        kind=kind,
        requested_by=requested_by,
        requested_at=now,
    )


def request_due(now: datetime) -> int:
    """Add a run to each active destination whose time has come. Returns how many."""
    due = RecordDestination.objects.filter(
        next_run_at__lte=now,
        state=RecordDestination.State.ACTIVE,
        product__deletion_requested_at=None,
    )
    return sum(request_run(destination, due_kind(destination, now), now) for destination in due)


def due_kind(destination: RecordDestination, now: datetime) -> RecordRun.Kind:
    compared_at = destination.compared_at
    is_due = compared_at is None or now - compared_at >= COMPARE_EVERY
    return Kind.COMPARE if is_due else Kind.CHANGES


def start(destination: RecordDestination, now: datetime) -> None:
    """Send what changes from now on."""
    RecordDestination.objects.filter(pk=destination.pk).update(
        state=RecordDestination.State.ACTIVE, pause_reason="", next_run_at=now
    )


def pause(destination: RecordDestination, reason: str, now: datetime) -> None:
    """Send nothing until somebody starts it again."""
    with transaction.atomic():
        RecordDestination.objects.filter(pk=destination.pk).update(
            state=RecordDestination.State.PAUSED, pause_reason=reason, next_run_at=None
        )
        stop_unfinished(destination, reason, now)


def stop_unfinished(destination: RecordDestination, reason: str, now: datetime) -> None:
    """End the destination's unfinished run, even while a worker is busy with it."""
    with transaction.atomic():
        rows = RecordRun.objects.filter(destination=destination, state__in=UNFINISHED)
        for run in rows:
            jobs.end(KIND, run.pk)
        rows.update(state=State.STOPPED, finished_at=now, error=reason)


# --- Jobs -----------------------------------------------------------------------------------

UNFINISHED = RecordRun.UNFINISHED


def unfinished_ids() -> list[int]:
    """The runs to go on with, the oldest first."""
    return list(nodes.reachable(RecordRun.unfinished()).order_by("id").values_list("id", flat=True))


def title(run_id: int) -> str:
    """Which run it is, for the page of jobs."""
    run = RecordRun.objects.filter(pk=run_id).select_related("destination__workspace").first()
    return f"{run.destination}, run {run_id}" if run else f"run {run_id}"


def find_unfinished(job: Job) -> RecordRun | None:
    """The job's run; None if it has ended."""
    return RecordRun.unfinished().filter(pk=job.key).first()


def give_up(job: Job) -> None:
    """End the run, which has failed too often in a row."""
    for run in RecordRun.unfinished().filter(pk=job.key):
        ended = {"state": State.FAILED, "finished_at": job.failed_at}
        RecordRun.unfinished().filter(pk=run.pk).update(**ended, error=run.error or CRASHED)
        _plan_next(run, job.failed_at)


def update(job: Job, run: RecordRun, now: datetime, **values: Any) -> None:
    """Write the values of the run, whose job this worker holds and keeps for another while. Raises
    LeaseLost."""
    with jobs.holding(job, now + LEASE):
        own = RecordRun.objects.filter(pk=run.pk, state__in=UNFINISHED)
        if not (own.update(**values) if values else own.exists()):
            raise LeaseLost
    for name, value in values.items():
        setattr(run, name, value)


def add_counts(run: RecordRun, counts: Counter[str]) -> None:
    """Add to the run's numbers, in the caller's transaction."""
    if counts:
        values = {name: F(name) + number for name, number in counts.items()}
        RecordRun.objects.filter(pk=run.pk).update(**values)


# --- Beginning and end ----------------------------------------------------------------------


def current_cursor(score_set: ScoreSet, scope: str) -> dict[str, Any]:
    """The state of the workspace now. Read it before the rows: what changes in between is in the
    next run of changes."""
    kind = get_kind(scope)
    return {
        "score_set": score_set.pk,
        "stamp": changes.latest_stamp(score_set.product_id),
        "benchmarks": list(Benchmarks.of(score_set, kind.scope)),
    }


def begin(
    job: Job, run: RecordRun, destination: RecordDestination, score_set: ScoreSet, now: datetime
) -> None:
    """Store what the run is about, before its first step."""
    until, since = current_cursor(score_set, destination.scope), destination.cursor or None
    # After a rescore or a restored backup, nobody can tell what changed.
    is_usable = since and since["score_set"] == score_set.pk and since["stamp"] <= until["stamp"]
    started_at = run.started_at or now
    values = {"since": since if is_usable else None, "until": until, "after": 0}
    update(job, run, now, state=State.RUNNING, started_at=started_at, **values)


def finish(job: Job, run: RecordRun, now: datetime) -> None:
    """End the run, and let the next run of changes begin where it ended."""
    with transaction.atomic():
        update(job, run, now, state=State.DONE, finished_at=now, error="")
        own = RecordDestination.objects.filter(pk=run.destination_id)
        if run.kind in (Kind.CHANGES, Kind.COMPARE):
            own.update(cursor=run.until)
        if run.kind == Kind.COMPARE:
            own.update(compared_at=run.started_at)
        _plan_next(run, now)


def fail(job: Job, run: RecordRun, error: str, now: datetime) -> None:
    """End the run, which cannot succeed before somebody changes something."""
    with transaction.atomic():
        update(job, run, now, state=State.FAILED, finished_at=now, error=error)
        _plan_next(run, now)


def _plan_next(run: RecordRun, now: datetime | None) -> None:
    """Set when the next run is due. Who was forgotten in the meantime does not wait."""
    destination = RecordDestination.objects.filter(pk=run.destination_id).first()
    if destination is None or now is None or run.kind == Kind.DRY:
        return
    is_active = destination.state == RecordDestination.State.ACTIVE
    waits = RecordLink.objects.filter(
        destination=destination, state=RecordLink.State.FORGOTTEN, error=""
    ).exists()
    at = now if waits else now + timedelta(minutes=destination.interval)
    RecordDestination.objects.filter(pk=destination.pk).update(
        next_run_at=at if is_active else None
    )


# --- What went wrong ------------------------------------------------------------------------


def failing(product_ids: Collection[int]) -> list[tuple[RecordDestination, str]]:
    """The products' destinations that need somebody, each with a sentence why."""
    rows = RecordDestination.objects.filter(product__in=product_ids).select_related("workspace")
    destinations = list(rows.exclude(state=RecordDestination.State.DRAFT))
    last_runs = _last_runs(destinations)
    problems = [(each, _problem(each, last_runs.get(each.pk))) for each in destinations]
    return [(each, text) for each, text in problems if text]


def problem(destination: RecordDestination) -> str:
    """Why the destination needs somebody; empty if it does not."""
    return _problem(destination, _last_runs([destination]).get(destination.pk))


def _last_runs(destinations: Collection[RecordDestination]) -> dict[int, RecordRun]:
    """The last run of each that has ended by itself."""
    runs = RecordRun.objects.filter(destination__in=destinations).exclude(kind=Kind.DRY)
    last = runs.filter(state__in=(State.DONE, State.FAILED)).order_by("destination_id", "-id")
    return {run.destination_id: run for run in last.distinct("destination_id")}


def _problem(destination: RecordDestination, last: RecordRun | None) -> str:
    if destination.state == RecordDestination.State.PAUSED:
        return f"{destination} is paused. {destination.pause_reason}"
    if last is None:
        return ""
    if last.state == State.FAILED:
        return f"The last run of {destination} failed. {last.error}"
    rows = last.updated + last.created + last.rejected
    if last.rejected >= REJECTED_ROWS and 100 * last.rejected >= REJECTED_PERCENT * rows:
        return f"{destination} rejected {last.rejected:,} of {rows:,} records in its last run."
    return ""
