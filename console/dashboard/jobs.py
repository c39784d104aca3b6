"""The page of background jobs: what runs by itself, when it ran, and a button to run it now."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from celery import current_app
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.safestring import SafeString
from django_celery_beat.models import PeriodicTask
from kombu.exceptions import OperationalError

from access.pages.pages import not_allowed
from access.pages.scoping import sees_all_products
from access.trail import entries
from core import telemetry
from core.jobs import kinds, run
from core.models import Job as StepwiseJob
from core.models import OperationCounter
from core.time_format import format_ago, format_until
from engagement.prometheus import RESCORE
from exports.prometheus import RUN_COUNTER
from ingestion.prometheus import DRAIN_COUNTER
from notifications.prometheus import DELIVER_COUNTER, SWEEP_COUNTER

# What each job does, by the name of its task.
DESCRIPTIONS = {
    "ingestion.tasks.drain": "Records the messages in the inbox. Messages that arrive also start "
    "it, so this is a safety net.",
    "ingestion.tasks.maintain": "Deletes dropped and quarantined messages, message ids, and counts "
    "that are past their retention.",
    "engagement.tasks.rescore": "Scores the users and accounts that have changed. Recording also "
    "starts it.",
    "engagement.tasks.reattribute": "Moves events and memberships that belong to another user or "
    "account by now. Scoring also starts it.",
    "engagement.tasks.clear": "Deletes what is left of forgotten users and accounts, and of "
    "deleted products. A request on a page also starts it.",
    "engagement.tasks.maintain": "Creates partitions ahead, and drops old ones.",
    "marketplace.tasks.sync_all": "Starts a sync of each active marketplace connection.",
    "marketplace.tasks.resume": "Continues syncs that are due or were interrupted.",
    "marketplace.tasks.read_reports": "Reads the transactions, feedback, and histories that "
    "are due.",
    "notifications.tasks.sweep": "Looks for changes that subscriptions are about, and writes them "
    "to the outbox.",
    "notifications.tasks.deliver": "Delivers the messages in the outbox. The search for changes "
    "also starts it.",
    "notifications.tasks.maintain": "Deletes notifications that are past their retention.",
    "exports.tasks.run": "Starts scheduled exports whose time has come, and continues runs that "
    "are unfinished.",
    "exports.tasks.maintain": "Deletes runs of exports that are past their retention.",
    "destinations.tasks.run": "Starts runs of CRMs whose time has come, and continues those that "
    "are unfinished.",
    "outcomes.tasks.run": "Computes the backtests of workspaces that are missing, outdated, or "
    "requested.",
    "trends.tasks.run": "Computes the figures of the day that is over, and of days whose counts "
    "changed.",
}
# The counters of the jobs whose durations are recorded.
COUNTERS = {
    "ingestion.tasks.drain": DRAIN_COUNTER,
    "engagement.tasks.rescore": RESCORE,
    "notifications.tasks.sweep": SWEEP_COUNTER,
    "notifications.tasks.deliver": DELIVER_COUNTER,
    "exports.tasks.run": RUN_COUNTER,
}
UNITS = [
    ("day", timedelta(days=1)),
    ("hour", timedelta(hours=1)),
    ("minute", timedelta(minutes=1)),
    ("second", timedelta(seconds=1)),
]
# Celery adds it to each schedule. The service stores no results.
HIDDEN_TASK = "celery.backend_cleanup"
MAX_ROWS = 200
# Work that waits for others goes on within this time. A weekly look that is over rests longer.
LONGEST_WAIT = timedelta(hours=1)
# Seconds after which a request to run a job is void, so that none pile up without workers.
EXPIRES_AFTER = 60


@dataclass(frozen=True)
class StepRow:
    """A job that goes on step by step. ``duration`` is the average of its steps."""

    pk: int
    name: str
    description: str
    state: str
    progress: str
    last_step: SafeString | str
    duration: str
    next_step: SafeString | str
    error: str
    is_paused: bool
    is_failing: bool


@dataclass(frozen=True)
class Job:
    """A row of the page. ``duration`` is the average, empty if it is not recorded."""

    pk: int
    name: str
    description: str
    schedule: str
    last_run: SafeString | str
    duration: str
    next_run: SafeString | str


def jobs_view(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    """All background jobs. For superusers only."""
    _require_superuser(request)
    now = timezone.now()
    context = {
        **context,
        "title": "Background jobs",
        "jobs": list(list_jobs(now)),
        "stepwise": list(list_stepwise(now)),
    }
    return TemplateResponse(request, "config/jobs.html", context)


def run_view(request: HttpRequest, pk: int) -> HttpResponse:
    """Have a worker run the job soon."""
    _require_superuser(request)
    if request.method != "POST":
        return not_allowed(request, ["POST"])
    task = get_object_or_404(_visible_tasks(), pk=pk)
    try:
        current_app.send_task(task.task, queue=task.queue, expires=EXPIRES_AFTER)
    except OperationalError:
        messages.error(request, f"{_name(task)} was not started: the queue is not available.")
    else:
        messages.success(request, f"{_name(task)} starts as soon as a worker is free.")
    return redirect("admin:jobs")


def change_view(request: HttpRequest, pk: int, change: str) -> HttpResponse:
    """Pause a stepwise job, resume it, or have its next step run as soon as a worker is free."""
    _require_superuser(request)
    if request.method != "POST":
        return not_allowed(request, ["POST"])
    job = get_object_or_404(StepwiseJob, pk=pk)
    if change == "pause":
        run.pause(job.pk)
        messages.success(request, f"{_title(job)} is paused. What it does waits until you resume.")
    else:
        run.resume(job.pk, timezone.now())
        messages.success(request, f"{_title(job)} goes on as soon as a worker is free.")
    changes = {"paused": [job.is_paused, change == "pause"]}
    entries.record(
        entries.actor_of(request),
        entries.Action.CHANGED,
        "background job",
        object_id=job.pk,
        name=_title(job),
        changes=changes if job.is_paused != (change == "pause") else None,
        note="" if job.is_paused or change == "pause" else "Run now",
    )
    return redirect("admin:jobs")


def list_stepwise(now: datetime) -> Iterator[StepRow]:
    """The jobs that go on step by step, those that fail first. One for each score set would be
    long: of jobs with a key, those that rest after a step are left out."""
    goes_on_later = Q(cursor__isnull=False, due_at__lte=now + LONGEST_WAIT)
    rests = Q(due_at__gt=now, failures=0, is_paused=False) & ~goes_on_later & ~Q(key="")
    jobs = StepwiseJob.objects.exclude(rests, lease=None)
    for job in jobs.order_by("-failures", "kind", "key")[:MAX_ROWS]:
        kind = kinds.get(job.kind)
        yield StepRow(
            pk=job.pk,
            name=_title(job),
            description=kind.label
            if kind
            else "Of another release. No worker of this one runs it.",
            state=_state(job, now),
            progress=_progress(job),
            last_step=_last_step(job, now),
            duration=_seconds(job.seconds / job.steps) if job.steps else "",
            next_step=_next_step(job, now),
            error=job.error,
            is_paused=job.is_paused,
            is_failing=bool(job.failures),
        )


def _title(job: StepwiseJob) -> str:
    name, kind = str(job), kinds.get(job.kind)
    if job.key and kind:
        name = f"{job.kind}: {kind.title(int(job.key))}"
    return name[:1].upper() + name[1:]


def _state(job: StepwiseJob, now: datetime) -> str:
    if job.is_paused:
        return "Paused"
    if job.leased_until and job.leased_until > now:
        return "In progress"
    if job.failures:
        return f"Failed {job.failures:,} times in a row" if job.failures > 1 else "Failed"
    # One with a key is deleted when it is done.
    return "In progress" if job.cursor is not None or job.key else "Idle"


def _progress(job: StepwiseJob) -> str:
    if job.total:
        return f"{job.progress:,} of {job.total:,}"
    return f"{job.progress:,} so far" if job.progress else ""


def _last_step(job: StepwiseJob, now: datetime) -> SafeString | str:
    if job.stepped_at:
        return format_ago(job.stepped_at, now)
    return "None yet" if job.key else "Nothing to do yet"


def _next_step(job: StepwiseJob, now: datetime) -> SafeString | str:
    if job.is_paused:
        return "When it is resumed"
    return format_until(job.due_at, now) if job.due_at and job.due_at > now else "At the next run"


def list_jobs(now: datetime) -> Iterator[Job]:
    counters = telemetry.get_counters(*COUNTERS.values())
    for task in _visible_tasks():
        counter = counters.get(COUNTERS.get(task.task, ""))
        # Beat saves its times every few minutes.
        runs = [at for at in (task.last_run_at, counter and counter.last_at) if at]
        yield Job(
            pk=task.pk,
            name=_name(task),
            description=DESCRIPTIONS.get(task.task, task.description),
            schedule=_schedule(task),
            last_run=format_ago(max(runs), now) if runs else "Not yet",
            duration=_average(counter),
            next_run=_next_run(task, max(runs, default=task.date_changed), now),
        )


def _visible_tasks() -> Any:
    relations = ("interval", "crontab", "solar", "clocked")
    tasks = PeriodicTask.objects.exclude(task=HIDDEN_TASK)
    return tasks.select_related(*relations).order_by("name")


def _require_superuser(request: HttpRequest) -> None:
    if not sees_all_products(request.user):
        raise PermissionDenied


def _name(task: PeriodicTask) -> str:
    name: str = task.name
    return name[:1].upper() + name[1:]


def _schedule(task: PeriodicTask) -> str:
    if task.crontab:
        text: str = task.crontab.human_readable
        return text
    period = getattr(task.schedule, "run_every", None)
    if not isinstance(period, timedelta):
        return str(task.scheduler)
    # The largest unit in which it is a whole number.
    for unit, length in UNITS:
        if period >= length and not period % length:
            number = period // length
            return f"Every {unit}" if number == 1 else f"Every {number} {unit}s"
    return f"Every {period.total_seconds():g} seconds"


def _average(counter: OperationCounter | None) -> str:
    if counter is None or not counter.runs:
        return ""
    return _seconds(counter.seconds / counter.runs)


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms" if seconds < 1 else f"{seconds:,.1f} s"


def _next_run(task: PeriodicTask, last_run_at: datetime, now: datetime) -> SafeString | str:
    if not task.enabled:
        return "Disabled"
    schedule = task.schedule
    schedule.nowfun = lambda: now
    return format_until(now + schedule.remaining_estimate(last_run_at), now)
