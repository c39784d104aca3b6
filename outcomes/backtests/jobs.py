"""The jobs that compute backtests: of each workspace when one is outdated, of a segment on request.

A step computes one kind of outcome, and stores it. It runs under a lease, because it reads for
seconds where there are many accounts, and holds no lock meanwhile. A worker that dies repeats one
step.
"""

from datetime import UTC, datetime, timedelta
from typing import LiteralString

from core.database import clocks, nodes, sql
from core.jobs import kinds, run
from core.jobs.kinds import Blocked, Done, More, Outcome
from core.models import Job
from engagement.models import Segment, Workspace
from engagement.rescoring.what_if import scoring_definition
from outcomes.backtests import storage
from outcomes.models import StoredBacktest
from outcomes.reading import QUEUE, available_kinds

# After new scores or outcomes, and in any case. The first bounds the share of the time that
# backtests take, however often people edit weights and a marketplace reports.
AFTER_CHANGES, ALWAYS = timedelta(minutes=15), timedelta(days=7)
# Longer than the statements of all kinds may take.
LEASE = timedelta(minutes=10)

_DUE: LiteralString = f"""
    SELECT w.id
    FROM engagement_workspace w
    JOIN engagement_product p ON p.id = w.product_id AND p.deletion_requested_at IS NULL
    JOIN engagement_scoreset s ON s.id = w.scores_id AND s.scored_day IS NOT NULL
    LEFT JOIN outcomes_licenserevision r ON r.product_id = w.product_id
    LEFT JOIN LATERAL (
        SELECT min(b.computed_at) AS computed_at, bool_and(b.score_set_id = s.id) AS is_current,
            max(b.revision) AS revision
        FROM outcomes_storedbacktest b
        WHERE b.workspace_id = w.id AND b.segment_id IS NULL) last ON true
    WHERE (last.computed_at IS NULL
           OR last.computed_at <= %(always)s
           OR ((NOT last.is_current OR last.revision IS DISTINCT FROM r.revision)
               AND last.computed_at <= %(after_changes)s))
      AND {nodes.among_reachable("w")}
    ORDER BY last.computed_at NULLS FIRST, w.id
"""


def register() -> None:
    """Register the kinds of jobs, and the time that the next backtest waits for."""
    clocks.register(StoredBacktest, {"computed_at": clocks.NOW})
    kinds.register(
        storage.OF_WORKSPACE,
        "Compares the scores of past days with what became of accounts, once a week and after "
        "new scores and outcomes.",
        queue=QUEUE,
        step=compute_of_workspace,
        keys=tuple,
        lease=LEASE,
        title=Workspace.title_of,
    )
    kinds.register(
        storage.OF_SEGMENT,
        "Does the same for the accounts of a segment, when somebody asks for it.",
        queue=QUEUE,
        step=compute_of_segment,
        keys=tuple,
        lease=LEASE,
        title=_name_of_segment,
    )


def request_due(now: datetime) -> None:
    """Request the backtests of workspaces that have none, or have one that is outdated."""
    parameters = {
        "always": now - ALWAYS,
        "after_changes": now - AFTER_CHANGES,
        "reachable": nodes.reachable_products(),
    }
    for (workspace_id,) in sql.fetch(_DUE, parameters):
        run.request(storage.OF_WORKSPACE, now, workspace_id)


def compute_of_workspace(job: Job, now: datetime) -> Outcome:
    """A step of a job: compute the backtest of the next kind of outcome."""
    return _compute(job, int(job.key), None, now)


def compute_of_segment(job: Job, now: datetime) -> Outcome:
    """The same, of the accounts of a segment."""
    segment = Segment.objects.filter(pk=job.key).first()
    return _compute(job, segment.workspace_id, segment, now) if segment else Done()


def _compute(job: Job, workspace_id: int, segment: Segment | None, now: datetime) -> Outcome:
    workspace = _workspace(workspace_id)
    if workspace is None or workspace.scores is None:
        return Done()
    if workspace.product_id in nodes.missing_products():
        return Blocked()
    own_kinds, number = available_kinds(workspace), job.cursor or 0
    if number >= len(own_kinds):
        with run.holding(job):
            rows = storage.of_workspace(workspace).filter(segment=segment)
            rows.exclude(kind__in=own_kinds).delete()
            storage.delete_old(now)
        return Done()
    # numpy takes 0.1 s and 20 MB, and processes that serve pages import this module.
    from outcomes.backtests import backtest

    definition = scoring_definition(workspace.scores)
    today = now.astimezone(UTC).date()
    result = backtest.run(workspace, own_kinds[number], today, definition, segment)
    with run.holding(job):
        # Readers may see other scores by now, whose backtest this is not.
        if Workspace.objects.filter(pk=workspace_id, scores=workspace.scores_id).exists():
            storage.save(workspace, segment, result, definition, now)
            number += 1
    return More(number, progress=number, total=len(own_kinds))


def _workspace(workspace_id: int) -> Workspace | None:
    open_products = Workspace.objects.filter(product__deletion_requested_at=None)
    return open_products.select_related("scores").filter(pk=workspace_id).first()


def _name_of_segment(segment_id: int) -> str:
    return str(Segment.objects.filter(pk=segment_id).first() or segment_id)
