"""What changed in large workspaces and their segments: found after each night, and kept until the
next one.

Finding it reads all rows of the score set. Of a small set it is found while a reader waits, and so
it is of a saved view, and after an edit of a segment or of what counts until the job has come
round. The overview does not wait for a large set.
"""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from django.db.models import QuerySet

from core.database import locks, nodes, sql
from core.jobs import kinds, run
from core.jobs.kinds import Blocked, Done, More, Outcome
from core.models import Job
from engagement.models import ScoreSet, Workspace
from engagement.removal import forgetting
from engagement.scopes import ACCOUNTS
from engagement.segments import counts, members
from outcomes.reading import QUEUE
from trends.changes import whose
from trends.changes.finding import find_changes, last_period
from trends.changes.results import Cadence, Changes, Period, without
from trends.changes.whose import Whose
from trends.models import WHOLE, DayFigures, StoredChanges

if TYPE_CHECKING:
    from engagement.recording.suppression import SubjectRef

logger = logging.getLogger(__name__)

JOB = "what changed"
# Longer than the statements about one segment may take.
LEASE = timedelta(minutes=10)
STATEMENT_TIMEOUT_SECONDS = 60.0
DAY = timedelta(days=1)


def register() -> None:
    """Register the kind of job, and what forgetting an account asks for."""
    forgetting.register_eraser(_forget)
    kinds.register(
        JOB,
        "Finds what changed this week in large workspaces and in their segments, after each night.",
        queue=QUEUE,
        step=find_next,
        keys=due_workspaces,
        lease=LEASE,
        title=Workspace.title_of,
    )


def changes_of(own: Whose, cadence: Cadence) -> Changes:
    """What changed in the last complete period. That of a large set is as the last night found it,
    until the next one has."""
    ready = ready_changes(own, cadence)
    return find_changes(own, last_period(own.score_set, cadence)) if ready is None else ready


def ready_changes(own: Whose, cadence: Cadence) -> Changes | None:
    """The same for a page that does not wait: None of a large set if the job has yet to find it."""
    period = last_period(own.score_set, cadence)
    if own.segment_id == whose.NOBODY or not _is_large(own.score_set):
        return find_changes(own, period)
    rows = StoredChanges.objects.filter(workspace=own.score_set.workspace_id)
    row = rows.filter(segment=own.segment_id or None).first()
    is_recent = row is not None and period.last - DAY <= row.last_day <= period.last
    if row and row.result and is_recent and row.question == _question(own.score_set, own.rule):
        return msgspec.convert(row.result[cadence], Changes)
    return None


def _is_large(score_set: ScoreSet) -> bool:
    return counts.counted_at(score_set) is not None


def _question(score_set: ScoreSet, rule: Any) -> dict[str, Any]:
    level = score_set.workspace.alarm_level
    return {"score_set_id": score_set.pk, "alarm_level": level, "rule": rule}


# --- The job --------------------------------------------------------------------------------


def due_workspaces() -> list[int]:
    """The keys of the job: the large workspaces of which something is to be found."""
    large = Workspace.objects.filter(
        product__deletion_requested_at=None,
        scores__scored_day__isnull=False,
        scores__cached_counts__seconds__gt=counts.LIVE_COUNT_SECONDS,
    )
    return [each.pk for each in nodes.reachable(_with_scores(large)) if any(_due(each))]


def _with_scores(workspaces: QuerySet[Workspace]) -> QuerySet[Workspace]:
    return workspaces.select_related("product", "scores__cached_counts").order_by("pk")


def find_next(job: Job, now: datetime) -> Outcome:
    """A step of the job: find what changed in the workspace, or in its next segment."""
    open_products = Workspace.objects.filter(product__deletion_requested_at=None)
    workspace = _with_scores(open_products).filter(pk=job.key).first()
    if workspace is None or workspace.scores is None or workspace.scores.scored_day is None:
        return Done()
    if workspace.product_id in nodes.missing_products():
        return Blocked()
    due = list(_due(workspace))
    if not due:
        return Done()
    # Nobody is forgotten between reading and writing.
    with run.holding(job):
        if locks.share_lock_products([workspace.product_id]):
            _find(workspace, due[0])
    return More(progress=job.progress + 1, total=job.progress + len(due))


def _due(workspace: Workspace) -> Iterator[StoredChanges]:
    """What is to be found, without its result: the whole workspace first."""
    score_set = workspace.scores
    assert score_set is not None
    score_set.workspace = workspace
    last = last_period(score_set, Cadence.DAY).last
    nights = DayFigures.objects.filter(workspace=workspace, segment_id=WHOLE, day=last)
    has_figures = nights.exists()
    rows = StoredChanges.objects.filter(workspace=workspace).defer("result")
    stored = {row.segment_id: (row.last_day, row.has_figures, row.question) for row in rows}
    for segment in (None, *members.usable_segments(workspace, "account")):
        question = _question(score_set, segment and segment.stored_rule)
        if stored.get(segment.pk if segment else None) != (last, has_figures, question):
            yield StoredChanges(
                workspace=workspace,
                segment=segment,
                last_day=last,
                has_figures=has_figures,
                question=question,
            )


def _find(workspace: Workspace, row: StoredChanges) -> None:
    """Find the result of the row, and store it."""
    own = whose.of_workspace(workspace, row.segment)
    try:
        with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
            week = find_changes(own, Period.until(row.last_day, Cadence.WEEK), counts_all=True)
            day = find_changes(own, Period.until(row.last_day, Cadence.DAY), like=week)
        row.result = msgspec.to_builtins({Cadence.WEEK.value: week, Cadence.DAY.value: day})
    except sql.StatementTimeout:
        logger.warning("Finding what changed for segment %d took too long.", own.segment_id)
    StoredChanges.objects.update_or_create(
        workspace=workspace,
        segment=row.segment,
        defaults={
            name: getattr(row, name) for name in ("last_day", "has_figures", "question", "result")
        },
    )


def _forget(subject: "SubjectRef", now: datetime) -> None:
    """Take the account out of what is stored. Numbers stay."""
    if subject.scope.value == ACCOUNTS.scope:
        rows = StoredChanges.objects.filter(workspace__product=subject.product_id)
        for row in rows.select_for_update(of=["self"]).order_by("pk").iterator(chunk_size=1):
            rest = without(row.result, subject.external_id)
            if rest != row.result:
                StoredChanges.objects.filter(pk=row.pk).update(result=rest)
