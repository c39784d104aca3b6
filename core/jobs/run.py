"""Runs the due jobs of a queue, step by step.

A step and the job's new state are one transaction, which holds the job's row. So a worker that
dies leaves the job as it was before the step, another worker can go on at once, and two never do
the same step. A step with a lease holds no transaction: if its worker dies, another one goes on
when the lease has ended.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from uuid import uuid4

from django.db import Error, transaction
from django.db.models import F, Q, QuerySet

from core.database import retries, sql
from core.jobs import kinds
from core.jobs.kinds import Blocked, Done, Kind, Later, More, Outcome, StepFailed
from core.jobs.shares import rest_until
from core.models.jobs import Job

logger = logging.getLogger(__name__)

ERROR_LENGTH = 500
# Seconds, in which a worker that waits for a row lock wakes up.
SHORTEST_PAUSE = 0.01
CRASHED = "The worker ended in the middle of a step. Its log says more."
# Due at any time, whatever the clocks of the machines say.
_ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)

Clock = Callable[[], datetime]
OutOfTime = Callable[[], bool]


class LeaseLost(Exception):
    """Another worker has the job, or it was ended. Nothing is written."""


def request(kind: str, now: datetime, key: int | str = "") -> None:
    """Make the job due now, in the caller's transaction. Creates it if it is new."""
    Job.objects.bulk_create([Job(kind=kind, key=key, due_at=now)], ignore_conflicts=True)
    # A later time is taken back; a job that is due already keeps its turn.
    Job.objects.filter(_rests(now), kind=kind, key=key).update(due_at=now)


def end(kind: str, key: int) -> None:
    """Delete the job, in the caller's transaction. A worker that has its lease writes nothing
    more."""
    Job.objects.filter(kind=kind, key=key).delete()


def run_due(queue: str, clock: Clock, out_of_time: OutOfTime = lambda: False) -> int:
    """Run the queue's due jobs in turns of one step each; return the number of steps that left
    more to do.

    In a turn, kinds go in the order of their registration. Stops when nothing is left to do, or
    *out_of_time* returns true. But each kind gets one step, so that busy recording delays none
    forever: of its jobs, the one that waited longest. If the kind is urgent, each of them does.
    """
    return run_kinds(kinds.in_queue(queue), clock, out_of_time)


def finish(
    kind: str, key: int, clock: Clock, after_step: Callable[[More], object] = lambda more: None
) -> bool:
    """Run the job now until nothing is left, for callers that wait for it.

    Calls *after_step* after each step that left more to do. Returns False if the job stays: another
    worker has it, somebody has paused it, or a step failed.
    """
    request(kind, clock(), key)
    jobs, own_kind = Job.objects.filter(kind=kind, key=key), kinds.get(kind)
    assert own_kind is not None, kind
    pk = jobs.values_list("pk", flat=True).first() or 0
    while isinstance(outcome := _try_step(pk, own_kind, clock), More):
        after_step(outcome)
    return not jobs.exists()


def keys_in(queue: str) -> set[int]:
    """What the kinds of the queue name that there is to do now."""
    own_keys = [kind.keys for kind in kinds.in_queue(queue) if kind.keys is not None]
    return set[int]().union(*(keys() for keys in own_keys))


def run_kinds(own_kinds: Collection[Kind], clock: Clock, out_of_time: OutOfTime) -> int:
    """Run the due jobs of these kinds, as ``run_due()`` does."""
    by_name = {kind.name: kind for kind in own_kinds}
    _ensure_jobs(by_name, clock())
    steps, met, rests = 0, set[str | int](), set[int]()
    while turn := [job for job in _due(by_name, clock()) if job[0] not in rests]:
        for pk, name in turn:
            owner = pk if by_name[name].is_urgent else name
            if owner in met and out_of_time():
                rests.add(pk)
                continue
            met.add(owner)
            started = time.monotonic()
            outcome = _try_step(pk, by_name[name], clock)
            if isinstance(outcome, More):
                steps += 1
                _pause(by_name[name], time.monotonic() - started)
            else:
                rests.add(pk)
    return steps


def _pause(kind: Kind, seconds: float) -> None:
    if kind.pause_share:
        time.sleep(max(SHORTEST_PAUSE, seconds * kind.pause_share))


def _ensure_jobs(by_name: Mapping[str, Kind], now: datetime) -> None:
    """Create the jobs of what there is to do."""
    work = [
        (name, key)
        for name, kind in by_name.items()
        for key in ([""] if kind.keys is None else map(str, kind.keys()))
    ]
    jobs = Job.objects.filter(kind__in=by_name, key__in={key for _, key in work})
    existing = set(jobs.values_list("kind", "key"))
    missing = [
        Job(kind=name, key=key, due_at=now if by_name[name].every else _ALWAYS)
        for name, key in work
        if (name, key) not in existing
    ]
    if missing:
        # Another worker may be faster.
        Job.objects.bulk_create(missing, ignore_conflicts=True)


def _due(names: Collection[str], now: datetime) -> list[tuple[int, str]]:
    jobs = Job.objects.filter(_is_free(now), kind__in=names)
    places = {name: place for place, name in enumerate(names)}
    # A step puts a job behind the others, and no later: the clock may have been ahead.
    rows = jobs.order_by(F("stepped_at").asc(nulls_first=True), "pk").values_list("pk", "kind")
    return sorted(rows, key=lambda job: places[job[1]])


def _is_free(now: datetime) -> Q:
    is_unleased = Q(leased_until=None) | Q(leased_until__lte=now)
    return is_unleased & Q(is_paused=False, due_at__lte=now)


def _rests(now: datetime) -> Q:
    return Q(due_at=None) | Q(due_at__gt=now)


# --- Steps ----------------------------------------------------------------------------------


def _try_step(pk: int, kind: Kind, clock: Clock) -> Outcome | None:
    """Run one step; return its outcome, None if another worker has the job or the step failed."""
    step = _run_in_transaction if kind.lease is None else _run_with_lease
    try:
        return retries.retry_on_conflict(lambda: step(pk, kind, clock))
    except LeaseLost:
        return None
    except (StepFailed, sql.StatementTimeout) as failure:
        text = sql.TOO_SLOW if isinstance(failure, sql.StatementTimeout) else str(failure)
        logger.warning("The job %s failed: %s", kind.name, text)
        _note_failure(pk, kind, text, clock())
    except Exception as error:
        # Whatever the step raises, other jobs go on, and this one is tried again.
        if retries.is_transient(error) and not retries.is_timeout(error):
            # The database is away: beat asks for all of them again.
            raise
        logger.exception("A step of the job %s failed.", kind.name)
        text = str(error).partition("\n")[0]
        _note_failure(pk, kind, f"{type(error).__name__}: {text}", clock())
    return None


def _run_in_transaction(pk: int, kind: Kind, clock: Clock) -> Outcome | None:
    now = clock()
    with transaction.atomic(durable=True):
        rows: QuerySet[Job] = Job.objects.select_for_update(skip_locked=True)
        job = rows.filter(_is_free(now), pk=pk).first()
        if job is None:
            return None
        started = time.monotonic()
        outcome = kind.step(job, now)
        _store(job, kind, outcome, time.monotonic() - started, clock())
    return outcome


def _run_with_lease(pk: int, kind: Kind, clock: Clock) -> Outcome | None:
    assert kind.lease is not None
    now = clock()
    job = _claim(pk, kind, now, now + kind.lease)
    if job is None:
        return None
    started = time.monotonic()
    try:
        outcome = kind.step(job, now)
    except Error:
        # No failure of the job if the database is away or a node is: then others may go on at once.
        with suppress(Error):
            _release(job)
        raise
    with holding(job):
        _store(job, kind, outcome, time.monotonic() - started, clock())
    return outcome


def _claim(pk: int, kind: Kind, now: datetime, until: datetime) -> Job | None:
    """The job, under a new lease. One whose lease has ended lost its worker: that is a failure."""
    with transaction.atomic(durable=True):
        rows: QuerySet[Job] = Job.objects.select_for_update(skip_locked=True)
        job = rows.filter(_is_free(now), pk=pk).first()
        if job is None:
            return None
        if job.lease is not None:
            _fail(job, kind, CRASHED, now)
            return None
        job.lease, job.leased_until = uuid4(), until
        job.save(update_fields=["lease", "leased_until"])
    return job


def _release(job: Job) -> None:
    Job.objects.filter(pk=job.pk, lease=job.lease).update(lease=None, leased_until=None)


@contextmanager
def holding(job: Job, until: datetime | None = None) -> Iterator[None]:
    """A transaction in which this worker has the job's lease, and renews it if *until* is given.

    Raises LeaseLost. For the writes of a step with a lease.
    """
    with transaction.atomic():
        if not Job.objects.select_for_update().filter(pk=job.pk, lease=job.lease).exists():
            raise LeaseLost
        if until is not None:
            job.leased_until = until
            job.save(update_fields=["leased_until"])
        yield


def _store(job: Job, kind: Kind, outcome: Outcome, seconds: float, now: datetime) -> None:
    if isinstance(outcome, Blocked) or (outcome == Done() and _rests_idle(job, kind)):
        # An idle job costs no write each time that it finds nothing.
        if kind.lease is not None:
            _release(job)
        return
    if outcome == Done() and job.key:
        job.delete()
        return
    job.cursor, job.progress, job.total = None, 0, None
    unrested, job.unrested_seconds = job.unrested_seconds + seconds, 0.0
    match outcome:
        case Done():
            job.due_at = now + kind.every if kind.every else _ALWAYS
        case More():
            job.cursor, job.progress, job.total = outcome.cursor, outcome.progress, outcome.total
            job.unrested_seconds = unrested
        case Later():
            rest = max(kind.shortest_rest, rest_until(now, unrested, kind.share) - now)
            job.cursor, job.due_at = outcome.cursor, outcome.at or now + rest
    job.failures, job.error = 0, ""
    job.steps += 1
    job.seconds += seconds
    job.stepped_at = now
    job.lease = job.leased_until = None
    job.save()


def _rests_idle(job: Job, kind: Kind) -> bool:
    """Whether the row of a job that is done says so already."""
    return not (kind.every or job.key or job.cursor or job.total or job.failures)


# --- Failures -------------------------------------------------------------------------------


def _note_failure(pk: int, kind: Kind, error: str, now: datetime) -> None:
    """Have the job tried again after its backoff. Stores the first line of the error: PostgreSQL
    shows rows in the others."""
    with transaction.atomic(durable=True):
        job = Job.objects.select_for_update().filter(pk=pk).first()
        if job is not None:
            _fail(job, kind, error, now)


def _fail(job: Job, kind: Kind, error: str, now: datetime) -> None:
    job.failures += 1
    job.error = error[:ERROR_LENGTH]
    job.failed_at = now
    job.lease = job.leased_until = None
    if kind.backoff.gives_up(job.failures):
        kind.on_give_up(job)
        job.delete()
        return
    job.due_at = now + kind.backoff.delay(job.failures)
    job.save(update_fields=["failures", "error", "failed_at", "due_at", "lease", "leased_until"])


# --- By hand --------------------------------------------------------------------------------


def pause(pk: int) -> bool:
    """Run no further step of the job until it is resumed. Returns whether it was running."""
    return bool(Job.objects.filter(pk=pk, is_paused=False).update(is_paused=True))


def resume(pk: int, now: datetime) -> bool:
    """Let a paused job go on, and one that waits after a failure be tried now. Returns whether
    there is such a job."""
    return bool(Job.objects.filter(pk=pk).update(is_paused=False, due_at=now))
