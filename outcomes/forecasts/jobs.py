"""The job that forecasts renewals: for each workspace after each look at its chances, so each day.

A step makes the forecast of one kind, and stores it. A worker that dies repeats one step.
"""

from datetime import UTC, date, datetime, timedelta
from typing import LiteralString

import msgspec

from core.database import clocks, nodes, sql, statistics
from core.jobs import kinds, run
from core.jobs.kinds import Blocked, Done, More, Outcome
from core.models import Job
from engagement.models import Workspace
from outcomes.forecasts import storage
from outcomes.forecasts.results import KINDS
from outcomes.models import ChanceLook, StoredForecast
from outcomes.reading import QUEUE, available_kinds

# Longer than reading and drawing 30,000 terms may take.
LEASE = timedelta(minutes=10)

_DUE: LiteralString = f"""
    SELECT l.workspace_id
    FROM outcomes_chancelook l
    JOIN engagement_workspace w ON w.id = l.workspace_id AND w.scores_id IS NOT NULL
    JOIN engagement_product p ON p.id = w.product_id AND p.deletion_requested_at IS NULL
    JOIN outcomes_licenserevision r ON r.product_id = p.id
    WHERE NOT EXISTS (
          SELECT FROM outcomes_storedforecast f
          WHERE f.workspace_id = w.id AND NOT f.stays AND f.looked_at = l.looked_at)
      AND NOT coalesce(w.outcomes->'off', '[]') @> %(kinds)s::jsonb
      AND {nodes.among_reachable("w")}
    ORDER BY l.workspace_id
"""


def register() -> None:
    """Register the kind of job, and its time."""
    clocks.register(StoredForecast, {"looked_at": clocks.NOW})
    kinds.register(
        storage.JOB,
        "Forecasts the renewals of the months ahead, after each look at their chances.",
        queue=QUEUE,
        step=forecast_next_kind,
        keys=tuple,
        lease=LEASE,
        title=Workspace.title_of,
    )


def request_due(now: datetime) -> None:
    """Request the forecasts of workspaces whose chances were looked at since the last one."""
    kinds_of_terms = msgspec.json.encode(KINDS).decode()
    parameters = {"kinds": kinds_of_terms, "reachable": nodes.reachable_products()}
    for (workspace_id,) in sql.fetch(_DUE, parameters):
        run.request(storage.JOB, now, workspace_id)


def forecast_next_kind(job: Job, now: datetime) -> Outcome:
    """A step of a job: make and store the forecast of the next kind."""
    open_products = Workspace.objects.filter(product__deletion_requested_at=None)
    workspace = open_products.select_related("scores", "product").filter(pk=job.key).first()
    look = ChanceLook.objects.filter(workspace_id=int(job.key)).first()
    if workspace is None or workspace.scores is None or look is None:
        return Done()
    if workspace.product_id in nodes.missing_products():
        return Blocked()
    number = job.cursor or 0
    own_kinds = [kind for kind in available_kinds(workspace) if kind in KINDS]
    if number >= len(own_kinds):
        return Done()
    models = storage.models_behind(workspace, own_kinds[number])
    # Chances and outcomes may have arrived by the ten thousands just before.
    statistics.analyze_grown_tables()
    statistics.refresh_product(workspace.product_id)
    # numpy takes 0.1 s and 20 MB, and processes that serve pages import this module.
    from outcomes.forecasts import forecast

    own = forecast.make(workspace, own_kinds[number], _day_of(now), is_share=models.is_share)
    with run.holding(job):
        storage.save(workspace, *own, models.versions, look.looked_at)
    return More(number + 1, progress=number + 1, total=len(own_kinds))


def _day_of(now: datetime) -> date:
    return now.astimezone(UTC).date()
