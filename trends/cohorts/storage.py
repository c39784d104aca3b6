"""The questions about cohorts that a workspace keeps, and their latest answers."""

from datetime import datetime, timedelta

import msgspec

from core.jobs import run
from core.models import Job
from engagement.metric_names import Scope
from engagement.models import EventName, Workspace
from outcomes.backtests.storage import interruption
from trends.cohorts.results import Cohorts
from trends.models import ANY_EVENT, StoredCohorts

JOB = "cohorts"
# What a workspace keeps besides the two that each one has; the one that nobody opened for the
# longest time goes first. The job stops computing those that nobody opened for a month.
MAX_QUESTIONS = 12
WANTED_FOR = timedelta(days=30)
_NOTED_EVERY = timedelta(days=1)


def find(
    workspace: Workspace, scope: Scope, event: EventName | None, trait: str
) -> StoredCohorts | None:
    """The question, if the workspace keeps it."""
    number = event.pk if event else ANY_EVENT
    rows = StoredCohorts.objects.filter(workspace=workspace, scope=scope)
    return rows.filter(event_name_id=number, trait=trait).first()


def ask(
    workspace: Workspace, scope: Scope, event: EventName | None, trait: str, now: datetime
) -> StoredCohorts:
    """Keep the question, and have it computed, in the caller's transaction."""
    # One writer at a time, so that the bound holds.
    Workspace.objects.select_for_update().get(pk=workspace.pk)
    question, _ = StoredCohorts.objects.update_or_create(
        workspace=workspace,
        scope=scope,
        event_name_id=event.pk if event else ANY_EVENT,
        trait=trait,
        # The one without an event and a trait is kept anyway.
        defaults={"wanted_at": now if event or trait else None},
    )
    others = StoredCohorts.objects.filter(workspace=workspace, wanted_at__isnull=False)
    latest = others.order_by("-wanted_at", "-pk").values_list("pk", flat=True)[:MAX_QUESTIONS]
    others.exclude(pk__in=list(latest)).delete()
    run.request(JOB, now, question.pk)
    return question


def note_opened(question: StoredCohorts, now: datetime) -> None:
    """Have the question computed for another month. Writes at most once a day."""
    if question.wanted_at and question.wanted_at < now - _NOTED_EVERY:
        StoredCohorts.objects.filter(pk=question.pk).update(wanted_at=now)


def decode(question: StoredCohorts) -> Cohorts | None:
    return None if question.result is None else msgspec.convert(question.result, Cohorts)


def progress(question: StoredCohorts) -> str:
    """How far the job is, as a sentence; "" if it has nothing to do."""
    job = Job.objects.filter(kind=JOB, key=question.pk).first()
    if job is None:
        return "" if question.result else "Computing soon."
    if text := interruption(job):
        return text
    return f"Computing: {job.progress} of {job.total} weeks." if job.total else "Computing soon."
