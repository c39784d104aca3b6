"""The job that finds chances: of each workspace every night, and after new licenses or scores.

A step looks at one model: it is fitted again if outcomes arrived, and what it predicts is stored. A
step runs under a lease, because it reads for seconds where there are many accounts, and holds no
lock meanwhile. A worker that dies repeats one step.
"""

from datetime import UTC, datetime, time, timedelta
from typing import Any, LiteralString

import msgspec

from core.database import clocks, nodes, sql
from core.jobs import kinds
from core.jobs.kinds import Blocked, Done, More, Outcome
from core.models import Job
from engagement.models import Workspace
from engagement.removal import forgetting
from outcomes.chances import storage
from outcomes.chances.cases import AGES, kinds_of
from outcomes.models import ChanceLook, ChanceModel
from outcomes.reading import QUEUE
from outcomes.sources import licenses

# After new licenses or scores. It bounds the share of the time that looking takes.
AFTER_CHANGES = timedelta(hours=1)
# Longer than the statements of a step may take.
LEASE = timedelta(minutes=10)

# A look that found no outcome waits for nothing: it was short, and the ledger may be young.
_DUE: LiteralString = f"""
    SELECT w.id
    FROM engagement_workspace w
    JOIN engagement_product p ON p.id = w.product_id AND p.deletion_requested_at IS NULL
    JOIN engagement_scoreset s ON s.id = w.scores_id AND s.scored_day IS NOT NULL
    LEFT JOIN outcomes_licenserevision r ON r.product_id = w.product_id
    LEFT JOIN outcomes_chancelook l ON l.workspace_id = w.id
    WHERE (l.looked_at IS NULL
           OR l.looked_at < %(midnight)s
           OR ((l.score_set_id <> s.id OR l.revision IS DISTINCT FROM r.revision)
               AND (l.looked_at <= %(after_changes)s OR NOT EXISTS (
                   SELECT FROM outcomes_chancemodel m
                   WHERE m.workspace_id = w.id AND m.outcomes > 0))))
      AND {nodes.among_reachable("w")}
    ORDER BY l.looked_at NULLS FIRST, w.id
"""


class Cursor(msgspec.Struct):
    """How far a look is: the number of the model, and the last place that it has looked at. What it
    began with holds for all of it."""

    started_at: datetime
    revision: int | None
    score_set_id: int
    model: int = 0
    after: tuple[int, str] | None = None


def register() -> None:
    """Register the kind of job, its times, and what forgetting an account asks for."""
    clocks.register(ChanceModel, {"fitted_at": clocks.NOW})
    clocks.register(ChanceLook, {"looked_at": clocks.NOW})
    forgetting.register_eraser(storage.forget_evidence)
    kinds.register(
        storage.JOB,
        "Says how likely running evaluations are to be bought, terms to be renewed, and accounts "
        "to stay, every night and after new licenses and scores.",
        queue=QUEUE,
        step=look,
        keys=tuple,
        lease=LEASE,
        title=Workspace.title_of,
    )


def request_due(now: datetime) -> None:
    """Request a look at the workspaces that nobody has looked at today, or since a change."""
    parameters = {
        "midnight": datetime.combine(now.astimezone(UTC), time(), UTC),
        "after_changes": now - AFTER_CHANGES,
        "reachable": nodes.reachable_products(),
    }
    for (workspace_id,) in sql.fetch(_DUE, parameters):
        storage.request(workspace_id, now)


def look(job: Job, now: datetime) -> Outcome:
    """A step of a job: look at what the next model predicts, or at the next part of it."""
    open_products = Workspace.objects.filter(product__deletion_requested_at=None)
    workspaces = open_products.select_related("scores", "product").filter(pk=job.key)
    workspace = workspaces.first()
    if workspace is None or workspace.scores is None:
        return Done()
    if workspace.product_id in nodes.missing_products():
        return Blocked()
    cursor = _cursor(job, workspace, workspace.scores.pk, now)
    own_kinds = kinds_of(workspace)
    models = [(kind, age) for kind in own_kinds for age in AGES[kind]]
    if cursor.model >= len(models):
        with storage.writing(workspace, job):
            began = (cursor.started_at, cursor.revision, cursor.score_set_id)
            storage.finish(workspace, own_kinds, *began)
        return Done()
    # numpy takes 0.1 s and 20 MB, and processes that serve pages import this module.
    from outcomes.chances import looking

    own = looking.Look(job, workspace, workspace.scores, *models[cursor.model], cursor.started_at)
    cursor.after = own.part(cursor.after)
    cursor.model += cursor.after is None
    return More(msgspec.to_builtins(cursor), progress=cursor.model, total=len(models))


def _cursor(job: Job, workspace: Workspace, score_set_id: int, now: datetime) -> Cursor:
    if job.cursor is not None:
        stored: Any = job.cursor
        return msgspec.convert(stored, Cursor)
    revision = None
    if licenses.kinds_of(workspace.product_id):
        revision = licenses.revision_of(workspace.product_id)
    return Cursor(now.astimezone(UTC), revision, score_set_id)
