"""The forecast of a workspace: what renews in the months ahead, and how the past ones went."""

from collections.abc import Sequence
from datetime import date
from itertools import pairwise
from typing import NamedTuple

from engagement.models import Workspace
from outcomes.forecasts import became
from outcomes.forecasts.results import (
    QUARTER,
    Forecast,
    ForecastBand,
    ForecastMonth,
    Measure,
    PastMonth,
    Term,
    months_from,
)
from outcomes.forecasts.simulation import (
    BAND_EDGES,
    BANDS,
    LEAST_VARIANCE,
    Simulation,
    believed_spreads,
    simulate,
)
from outcomes.forecasts.terms import past_counts, read_terms
from outcomes.kinds import Kind
from outcomes.sources.licenses import revision_of
from outcomes.statistics.estimates import Estimate
from outcomes.statistics.rates import wilson


class Made(NamedTuple):
    """A forecast, and the terms that it is about."""

    forecast: Forecast
    terms: Sequence[Term]


def make(workspace: Workspace, kind: Kind, today: date, *, is_share: bool) -> Made:
    """The forecast as of that UTC day, by the chances of the latest look."""
    terms, unknown = read_terms(workspace, kind, today)
    months_past = list(became.past_months(workspace, kind, today))
    quarters_past = list(became.past_quarters(workspace, kind, today))
    # What was expected of a month by its forecast tells more than the rate of all.
    counts = past_counts(workspace.product_id, kind, today)
    counts |= {own.month.first_day: own.predicted for own in months_past if own.predicted.variance}
    informed = [count for count in counts.values() if count.variance >= LEAST_VARIANCE]
    # The same until the month is over, so that a page does not flicker.
    seed = (workspace.pk, today.replace(day=1).toordinal(), list(Kind).index(kind))
    drawn = simulate(terms, believed_spreads(informed), seed)
    months = [
        ForecastMonth(
            first_day,
            sum(term.month == number for term in terms),
            sum(term.month == number and term.chance in (0, 1) for term in terms),
            drawn.sums([number]),
            _bands(drawn, number),
        )
        for number, first_day in enumerate(months_from(today))
    ]
    forecast = Forecast(
        kind=kind,
        made_on=today,
        outcomes=max((term.outcomes for term in terms), default=0),
        is_share=is_share,
        learned_months=len(informed),
        months=months,
        total=drawn.sums() if kind is Kind.RENEWAL else {},
        past=[own.month for own in months_past],
        coverage=_coverage([own.month for own in months_past]),
        revision=revision_of(workspace.product_id),
        unknown=unknown,
        quarter=drawn.sums(range(QUARTER)) if kind is Kind.RENEWAL else {},
        past_quarters=[own.month for own in quarters_past],
        decisive=[own.decisive for own in (*quarters_past, *months_past)],
    )
    return Made(forecast, terms)


def _bands(drawn: Simulation, month: int) -> list[ForecastBand]:
    edges: list[int | None] = [0, *BAND_EDGES, 100]
    pairs = [*pairwise(edges), (None, None)]
    bands = (
        ForecastBand(*pair, drawn.sums([month], number))
        for number, pair in enumerate(pairs[:BANDS])
    )
    return [band for band in bands if any(sums.terms for sums in band.sums.values())]


def _coverage(past: Sequence[PastMonth]) -> dict[Measure, Estimate]:
    estimates = {}
    for measure in Measure:
        judged = [inside for month in past if (inside := month.is_within[measure]) is not None]
        if estimate := wilson(sum(judged), len(judged)):
            estimates[measure] = estimate
    return estimates
