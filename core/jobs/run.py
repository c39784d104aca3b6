"""Runs the due jobs of a queue, step by step.

A step and the job's new state are one transaction, which holds the job's row. So a worker that
dies leaves the job as it was before the step, another worker can go on at once, and two never do
the same step.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime

from django.db import transaction
from django.db.models import Q, QuerySet

from core.database.retries import is_timeout, is_transient, retry_on_conflict
from core.jobs import kinds
from core.jobs.kinds import Done, Kind, Later, More, Outcome
from core.models.jobs import Job

logger = logging.getLogger(__name__)

ERROR_LENGTH = 500
# Due at any time, whatever the clocks of the machines say.
_ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)


def request(kind: str, now: datetime, key: str = "") -> None:
    """Make the job due now, in the caller's transaction. Creates it if it is new."""
    Job.objects.bulk_create([Job(kind=kind, key=key, due_at=now)], ignore_conflicts=True)
    # A later time is taken back; a job that is due already keeps its turn.
    Job.objects.filter(_rests(now), kind=kind, key=key).update(due_at=now)


def run_due(
    queue: str, clock: Callable[[], datetime], out_of_time: Callable[[], bool] = lambda: False
) -> int:
    """Run the queue's due jobs in turns of one step each; return the number of steps that left
    more to do.

    Each gets one step, so that busy recording delays none forever. Stops when nothing is left to
    do, or then when *out_of_time* returns true.
    """
    return _run({kind.name: kind for kind in kinds.in_queue(queue)}, clock, out_of_time)


def run_now(
    kind: Kind, clock: Callable[[], datetime], out_of_time: Callable[[], bool] = lambda: False
) -> int:
    """Run the jobs of one kind at once, as ``run_due()`` does; return the number of steps."""
    request(kind.name, clock())
    return _run({kind.name: kind}, clock, out_of_time)


def _run(
    by_name: Mapping[str, Kind], clock: Callable[[], datetime], out_of_time: Callable[[], bool]
) -> int:
    _ensure_jobs(by_name, clock())
    steps, met, rests = 0, set[int](), set[int]()
    while turn := [job for job in _due(by_name, clock()) if job[0] not in rests]:
        for pk, name in turn:
            if pk in met and out_of_time():
                return steps
            met.add(pk)
            outcome = _run_step(pk, by_name[name], clock)
            if isinstance(outcome, More):
                steps += 1
            else:
                rests.add(pk)
    return steps


def _ensure_jobs(by_name: Mapping[str, Kind], now: datetime) -> None:
    existing = set(Job.objects.filter(kind__in=by_name).values_list("kind", flat=True))
    for name, kind in by_name.items():
        if name not in existing:
            request(name, now if kind.every else _ALWAYS)


def _next_look(kind: Kind, now: datetime) -> datetime:
    """When an idle job looks for work again."""
    return now + kind.every if kind.every else _ALWAYS


def _due(names: Collection[str], now: datetime) -> list[tuple[int, str]]:
    jobs = Job.objects.filter(kind__in=names, is_paused=False, due_at__lte=now)
    return list(jobs.order_by("due_at", "pk").values_list("pk", "kind"))


def _rests(now: datetime) -> Q:
    return Q(due_at=None) | Q(due_at__gt=now)


def _run_step(pk: int, kind: Kind, clock: Callable[[], datetime]) -> Outcome | None:
    """Run one step; return its outcome, None if another worker has the job or the step failed."""
    try:
        return retry_on_conflict(lambda: _step(pk, kind, clock))
    except Exception as error:
        # Whatever the step raises, other jobs go on, and this one is tried again.
        if is_transient(error) and not is_timeout(error):
            # The database is away: beat asks for all of them again.
            raise
        logger.exception("A step of the job %s failed.", kind.name)
        _note_failure(pk, kind, error, clock())
        return None


def _step(pk: int, kind: Kind, clock: Callable[[], datetime]) -> Outcome | None:
    now = clock()
    with transaction.atomic(durable=True):
        rows: QuerySet[Job] = Job.objects.select_for_update(skip_locked=True)
        job = rows.filter(pk=pk, is_paused=False, due_at__lte=now).first()
        if job is None:
            return None
        started = time.monotonic()
        outcome = kind.step(job, now)
        _store(job, kind, outcome, time.monotonic() - started, clock())
    return outcome


def _store(job: Job, kind: Kind, outcome: Outcome, seconds: float, now: datetime) -> None:
    if outcome == Done() and not kind.every and not (job.cursor or job.failures):
        # An idle job costs no write each time that it finds nothing.
        return
    job.cursor, job.progress, job.total = None, 0, None
    match outcome:
        case Done():
            job.due_at = _next_look(kind, now)
        case More():
            job.cursor, job.progress, job.total = outcome.cursor, outcome.progress, outcome.total
        case Later():
            job.cursor, job.due_at = outcome.cursor, outcome.at
    job.failures, job.error = 0, ""
    job.steps += 1
    job.seconds += seconds
    job.stepped_at = now
    job.save()


def _note_failure(pk: int, kind: Kind, error: Exception, now: datetime) -> None:
    """Have the job tried again after its backoff. Stores the first line of the error: PostgreSQL
    shows rows in the others."""
    with transaction.atomic(durable=True):
        job = Job.objects.select_for_update().filter(pk=pk).first()
        if job is not None:
            text = str(error).partition("\n")[0]
            job.failures += 1
            job.error = f"{type(error).__name__}: {text}"[:ERROR_LENGTH]
            job.failed_at = now
            job.due_at = now + kind.backoff.delay(job.failures)
            job.save(update_fields=["failures", "error", "failed_at", "due_at"])


def failures_of(kind: str) -> list[str]:
    """The errors of the kind's jobs whose last step failed."""
    return list(Job.objects.filter(kind=kind, failures__gt=0).values_list("error", flat=True))


# --- By hand --------------------------------------------------------------------------------


def pause(pk: int) -> bool:
    """Run no further step of the job until it is resumed. Returns whether it was running."""
    return bool(Job.objects.filter(pk=pk, is_paused=False).update(is_paused=True))


def resume(pk: int, now: datetime) -> bool:
    """Let a paused job go on, and one that waits after a failure be tried now. Returns whether
    there is such a job."""
    return bool(Job.objects.filter(pk=pk).update(is_paused=False, due_at=now))
