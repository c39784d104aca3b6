"""Backtests to show, one for each verdict."""

from datetime import date, datetime

import msgspec

from engagement.models import Segment, Workspace
from outcomes.backtests.results import Backtest, Band, Horizon, ReliabilityPoint, Verdict
from outcomes.kinds import Exclusion, Kind
from outcomes.models import StoredBacktest
from outcomes.statistics.estimates import Estimate

DAYS = (14, 30, 60, 90)
EDGES = ((0, 25), (25, 50), (50, 75), (75, 100))
# Outcomes and bad ones of each band.
PREDICTED = ((21, 9), (34, 9), (71, 6), (88, 2))
UNRELATED = ((40, 9), (61, 11), (52, 10), (90, 18))
FEW = ((2, 1), (0, 0), (4, 1), (6, 2))


def share(bad: int, outcomes: int) -> Estimate | None:
    """A share with an interval that is easy to recognize."""
    if not outcomes:
        return None
    value = bad / outcomes
    return Estimate(value, max(0.0, value - 0.2), min(1.0, value + 0.2), outcomes)


def horizon(
    days: int,
    counts: tuple[tuple[int, int], ...],
    verdict: Verdict,
    auc: tuple[float, float] | None = None,
) -> Horizon:
    """A horizon. *auc* are that of the score and that of recency, both ± 0.06."""
    outcomes, bad = (sum(numbers) for numbers in zip(*counts, strict=True))
    bands = [
        Band(low, high, number, of_these, share(of_these, number))
        for (low, high), (number, of_these) in zip(EDGES, counts, strict=True)
    ]
    if auc is None:
        return Horizon(days, outcomes, bad, 0, 0, verdict, 30, bands, [])
    own, recency = (
        Estimate(value, round(value - 0.06, 2), round(value + 0.06, 2), outcomes) for value in auc
    )
    return Horizon(
        days,
        outcomes,
        bad,
        7,
        4,
        verdict,
        30,
        bands,
        [ReliabilityPoint(0.1, Estimate(0.12, 0.05, 0.2, 40))],
        auc=own,
        auc_of_recency=recency,
        auc_of_age=Estimate(0.52, 0.4, 0.64, outcomes),
        better_than_recency=Estimate(
            own.value - recency.value,
            round(own.value - recency.value - 0.07, 2),
            round(own.value - recency.value + 0.07, 2),
            outcomes,
        ),
        lift=Estimate(2.4, 1.6, 3.3, 31),
        brier=0.11,
        late_events=0.004,
    )


def backtest(
    kind: Kind,
    verdict: Verdict = Verdict.BETTER_THAN_BOTH,
    *,
    segment: int | None = None,
) -> Backtest:
    """The backtest of all horizons, each with the same verdict."""
    counts, auc = {
        Verdict.TOO_FEW: (FEW, None),
        Verdict.NO_BETTER_THAN_CHANCE: (UNRELATED, (0.51, 0.54)),
        Verdict.NO_BETTER_THAN_RECENCY: (PREDICTED, (0.74, 0.75)),
        Verdict.BETTER_THAN_BOTH: (PREDICTED, (0.77, 0.62)),
    }[verdict]
    return Backtest(
        kind,
        [horizon(days, counts, verdict, auc) for days in DAYS],
        {Exclusion.SANDBOX: 14, Exclusion.OPEN: 9},
        date(2025, 3, 1),
        date(2026, 10, 28),
        12_345,
        None,
        segment,
    )


def keep(workspace: Workspace, result: Backtest, computed_at: datetime) -> None:
    """Store the backtest as the job does that computes it."""
    StoredBacktest.objects.update_or_create(
        workspace=workspace,
        kind=result.kind,
        segment=Segment.objects.filter(pk=result.segment or 0).first(),
        defaults={
            "product_id": workspace.product_id,
            "result": msgspec.to_builtins(result),
            "revision": result.revision,
            "score_set_id": workspace.scores_id or 0,
            "computed_at": computed_at,
        },
    )
