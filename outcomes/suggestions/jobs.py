"""The job that computes a suggestion, when somebody asks for it. Its key is its backtest's."""

from datetime import UTC, datetime, timedelta

import msgspec

from core.database import nodes
from core.jobs import kinds, run
from core.jobs.kinds import Blocked, Done, Outcome
from core.models import Job
from outcomes.kinds import Kind
from outcomes.models import StoredBacktest
from outcomes.reading import QUEUE
from outcomes.suggestions import storage

# Longer than reading the counts of all outcomes, and learning from them, may take.
LEASE = timedelta(minutes=30)


def register() -> None:
    """Register the kind of job."""
    kinds.register(
        storage.JOB,
        "Learns from what became of accounts which weights would have predicted it, when somebody "
        "asks for it.",
        queue=QUEUE,
        step=compute,
        keys=tuple,
        lease=LEASE,
    )


def compute(job: Job, now: datetime) -> Outcome:
    """Compute and store the suggestion from the outcomes of the backtest."""
    rows = StoredBacktest.objects.filter(pk=job.key, product__deletion_requested_at=None)
    row = rows.select_related("workspace__scores").first()
    if row is None or row.workspace.scores is None:
        return Done()
    if row.product_id in nodes.missing_products():
        return Blocked()
    # numpy takes 0.1 s and 20 MB, and processes that serve pages import this module.
    from outcomes.suggestions.suggesting import suggest

    today = now.astimezone(UTC).date()
    suggestion = suggest(row.workspace, Kind(row.kind), today)
    with run.holding(job):
        rows.update(suggestion=msgspec.to_builtins(suggestion), suggested_at=now)
    return Done()
