"""The job that counts cohorts: each question once a night, week by week.

All weeks are counted again, so late events, joined and forgotten users, and an edited workspace
are in them the next morning. A worker that dies repeats one week.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

import msgspec
from django.db.models import Exists, F, OuterRef, Q

from core.database import clocks, nodes
from core.jobs import kinds, run
from core.jobs.kinds import Blocked, Done, More, Outcome
from core.models import Job
from engagement.models import Segment, Workspace
from outcomes.reading import QUEUE
from trends.cohorts import storage
from trends.cohorts.counting import Counting
from trends.cohorts.results import WEEKS, Cohorts
from trends.models import StoredCohorts

# Longer than the statement of a week may take.
LEASE = timedelta(minutes=10)
DAY = timedelta(days=1)


def register() -> None:
    """Register the kind of job, and its times."""
    clocks.register(StoredCohorts, {"computed_at": clocks.NOW, "wanted_at": clocks.NOW})
    kinds.register(
        storage.JOB,
        "Counts who of those that came in a week is active in the weeks after, each night.",
        queue=QUEUE,
        step=count_next_week,
        keys=due_questions,
        lease=LEASE,
        title=_name_of,
    )


def due_questions() -> Collection[int]:
    """The questions whose answers end before the last complete day. Adds the two that each
    workspace has anyway."""
    workspaces = Workspace.objects.filter(
        scores__scored_day__isnull=False, product__deletion_requested_at=None
    )
    for scope in Segment.Scope.values:
        own = StoredCohorts.objects.filter(workspace=OuterRef("pk"), scope=scope, wanted_at=None)
        for workspace in workspaces.exclude(Exists(own)):
            StoredCohorts.objects.bulk_create(
                [StoredCohorts(workspace=workspace, scope=scope)], ignore_conflicts=True
            )
    scored_day = F("workspace__scores__scored_day")
    due = StoredCohorts.objects.filter(
        Q(through=None) | Q(through__lt=scored_day - DAY),
        Q(wanted_at=None) | Q(wanted_at__gt=scored_day - storage.WANTED_FOR),
        workspace__in=nodes.reachable(workspaces),
    )
    return list(due.order_by("computed_at", "pk").values_list("pk", flat=True))


def count_next_week(job: Job, now: datetime) -> Outcome:
    """A step of the job: find the sizes of all cohorts, or who was active in one more week."""
    questions = StoredCohorts.objects.select_related("workspace__scores", "workspace__product")
    question = questions.filter(pk=job.key).first()
    score_set = question.workspace.scores if question else None
    if question is None or score_set is None or score_set.scored_day is None:
        return Done()
    if question.workspace.product.deletion_requested_at is not None:
        return Done()
    if score_set.product_id in nodes.missing_products():
        return Blocked()
    cohorts = msgspec.convert(job.cursor["cohorts"], Cohorts) if job.cursor else None
    week = job.cursor["week"] if job.cursor else 0
    through = cohorts.through if cohorts else score_set.scored_day - DAY
    counting = Counting(question, score_set, through)
    if cohorts is None:
        cohorts = counting.begin()
    counting.add_week(cohorts, week)
    result = msgspec.to_builtins(cohorts)
    if week + 1 < WEEKS:
        cursor = {"cohorts": result, "week": week + 1}
        return More(cursor, progress=week + 1, total=WEEKS)
    with run.holding(job):
        StoredCohorts.objects.filter(pk=question.pk).update(
            result=result, through=through, computed_at=now
        )
    return Done()


def _name_of(question_id: int) -> str:
    question = StoredCohorts.objects.filter(pk=question_id).first()
    workspace = question and Workspace.objects.filter(pk=question.workspace_id).first()
    return str(workspace or question_id)
