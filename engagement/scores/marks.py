"""Marks of score sets that something computed from their scores is stale, and the jobs that follow.

Computing reads every row of a set, outside of a transaction. The mark is cleared first, and what
changes meanwhile sets it again. So that no worker's death loses it, the job notes the beginning.
"""

from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

from django.db.models import QuerySet

from core.database import nodes
from core.jobs import run
from core.jobs.kinds import Blocked, Done, Outcome
from core.models import Job
from engagement.models import ScoreSet

# The cursor of a job whose computation has begun.
BEGUN = "begun"

# Clears the mark, computes, and says when to do so again.
Compute: TypeAlias = Callable[[Job, ScoreSet, datetime], Outcome]


def sets_with(mark: str) -> QuerySet[ScoreSet, int]:
    """The keys of a job: the current sets with the mark, which is the name of a column."""
    stale = ScoreSet.objects.filter(state=ScoreSet.State.CURRENT, **{mark: True})
    return nodes.reachable(stale).order_by("pk").values_list("pk", flat=True)


def recompute(job: Job, now: datetime, mark: str, compute: Compute) -> Outcome:
    """A step of a job with a lease: *compute* for its set, if it has the mark or if a worker that
    began to has died."""
    score_set = ScoreSet.objects.filter(pk=job.key, state=ScoreSet.State.CURRENT).first()
    if score_set is None or not (getattr(score_set, mark) or job.cursor == BEGUN):
        return Done()
    if score_set.product_id in nodes.missing_products():
        return Blocked()
    with run.holding(job):
        job.cursor = BEGUN
        job.save(update_fields=["cursor"])
    return compute(job, score_set, now)
