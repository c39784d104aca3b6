"""The latest backtests: found, requested, and kept. Pages read them: nothing here needs numpy."""

import hashlib
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
from django.db.models import QuerySet

from core.jobs import run
from core.models import Job
from engagement.models import Segment, Workspace
from engagement.rescoring.what_if import ScoringDefinition
from outcomes.backtests.results import Backtest
from outcomes.kinds import Kind
from outcomes.models import StoredBacktest

OF_WORKSPACE = "compute backtests"
OF_SEGMENT = "compute backtests of a segment"
# What nobody has requested again goes then.
SEGMENTS_KEPT = timedelta(days=30)


class DatedBacktest(NamedTuple):
    """A backtest, and when it was computed."""

    backtest: Backtest
    computed_at: datetime


def fingerprint(definition: ScoringDefinition) -> str:
    """The same text for two definitions that give the same past scores, and for no others."""
    own = definition._replace(audience={}, weights=dict(sorted(definition.weights.items())))
    return hashlib.sha256(msgspec.json.encode(own)).hexdigest()


def decode(row: StoredBacktest) -> Backtest:
    return msgspec.convert(row.result, Backtest)


def of_workspace(workspace: Workspace) -> QuerySet[StoredBacktest]:
    """Its backtests of all kinds, of all accounts and of segments."""
    return StoredBacktest.objects.filter(product=workspace.product_id, workspace=workspace)


def find(workspace: Workspace, kind: Kind, segment: Segment | None = None) -> DatedBacktest | None:
    """The latest backtest; None if none was computed yet."""
    row = of_workspace(workspace).filter(kind=kind, segment=segment).first()
    return DatedBacktest(decode(row), row.computed_at) if row else None


def first_kind(workspace: Workspace) -> Kind | None:
    """The first kind, in their order, that has outcomes; None without any."""
    rows = of_workspace(workspace).filter(segment=None)
    with_outcomes = {row.kind for row in rows if decode(row).first_day is not None}
    return next((kind for kind in Kind if kind in with_outcomes), None)


def save(
    workspace: Workspace,
    segment: Segment | None,
    backtest: Backtest,
    definition: ScoringDefinition,
    now: datetime,
) -> None:
    """Store the backtest of the workspace's scores instead of the one before."""
    assert workspace.scores_id is not None, "A backtest is of scores."
    StoredBacktest.objects.update_or_create(
        workspace=workspace,
        kind=backtest.kind,
        segment=segment,
        defaults={
            "product_id": workspace.product_id,
            "result": msgspec.to_builtins(backtest),
            "revision": backtest.revision,
            "score_set_id": workspace.scores_id,
            "definition": fingerprint(definition),
            "computed_at": now,
        },
    )


def delete_old(now: datetime) -> None:
    """Delete the backtests of segments that are older than SEGMENTS_KEPT."""
    rows = StoredBacktest.objects.filter(segment__isnull=False)
    rows.filter(computed_at__lt=now - SEGMENTS_KEPT).delete()


# --- Requests -------------------------------------------------------------------------------


def request(workspace: Workspace, segment: Segment | None, now: datetime) -> None:
    """Have the backtests of all kinds computed soon, in the caller's transaction."""
    if segment is None:
        run.request(OF_WORKSPACE, now, workspace.pk)
    else:
        run.request(OF_SEGMENT, now, segment.pk)


def progress(workspace: Workspace) -> str:
    """What is being computed of the workspace's backtests, as a sentence; "" if nothing is."""
    keys = Segment.objects.filter(workspace=workspace).values_list("pk", flat=True)
    jobs = Job.objects.filter(kind=OF_WORKSPACE, key=workspace.pk)
    job = (jobs | Job.objects.filter(kind=OF_SEGMENT, key__in=map(str, keys))).first()
    if job is None:
        return ""
    if text := interruption(job):
        return text
    return f"Computing: {job.progress} of {job.total} kinds." if job.total else "Computing soon."


def interruption(job: Job) -> str:
    """Why the job does not go on, as a sentence; "" if it does."""
    if job.is_paused or job.failures:
        return f"Computing is interrupted: {job.error or 'somebody has paused it.'}"
    return ""
