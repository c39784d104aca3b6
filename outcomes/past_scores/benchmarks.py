"""What a score of 90 was on a past day, under a definition.

The benchmark of a day that the history covers is the stored one, if it is that of the definition
and counts all users. Otherwise it is the 90th percentile of the raw scores above zero of an even
sample of the accounts that were active since, on that very day.
"""

from collections.abc import Callable, Collection, Iterator
from datetime import date, timedelta
from typing import LiteralString

from core.database import sql
from engagement.models import DailyBenchmark, ScoreSet
from engagement.rescoring.what_if import ScoringDefinition, scoring_definition
from engagement.scores.benchmarks import HISTORY_DAYS
from engagement.scores.formula import points_on
from outcomes.past_scores.days import (
    RAW_BY_DAY,
    STATEMENT_TIMEOUT_SECONDS,
    WEIGHTS,
    parameters_of,
)

# Of as many accounts, the 90th percentile is that of 88 to 92% of all of them.
SAMPLE_SIZE = 1_000
# The percentiles of a statement need the raw scores of all accounts of the sample on as many days.
DAYS_PER_STATEMENT = 200

# In the order of a hash: the same accounts each time, all over the product.
_SAMPLE: LiteralString = f"""
    SELECT account_id FROM engagement_accountengagement
    WHERE product_id = %(product)s AND score_set_id = {sql.SCORE_SET}
      AND (%(active_from)s::date IS NULL OR last_active_at >= %(active_from)s::date)
    ORDER BY hashint8(account_id), account_id LIMIT %(limit)s
"""
_BENCHMARKS: LiteralString = f"""
    WITH {WEIGHTS},
    subject AS MATERIALIZED (
        SELECT id, %(first)s::date AS first, %(last)s::date AS last
        FROM unnest(%(accounts)b::bigint[]) AS id)
    SELECT known.day, percentile_cont(0.9) WITHIN GROUP (ORDER BY known.raw)
    FROM subject CROSS JOIN LATERAL ({RAW_BY_DAY}) known
    WHERE known.raw > 0 AND known.day - known.last_day < %(active)s
      AND known.day = ANY(%(days)b::date[])
    GROUP BY known.day
"""


def past_benchmarks(
    score_set: ScoreSet,
    definition: ScoringDefinition,
    days: Collection[date],
    sample_size: int = SAMPLE_SIZE,
    out_of_time: Callable[[], bool] = lambda: False,
) -> dict[date, float]:
    """The benchmark of accounts on each of the days that has one.

    Raises sql.StatementTimeout.
    """
    stored = _stored(score_set, definition)
    benchmarks = {day: stored[day] for day in days if day in stored}
    missing = sorted({*days} - benchmarks.keys())
    if missing:
        benchmarks |= _sampled(score_set, definition, missing, sample_size, out_of_time)
    return {day: benchmark for day, benchmark in benchmarks.items() if benchmark is not None}


def _stored(score_set: ScoreSet, definition: ScoringDefinition) -> dict[date, float | None]:
    last = score_set.scored_day
    own = scoring_definition(score_set)
    if last is None or own.audience or own != definition._replace(audience={}):
        return {}
    days = [last - timedelta(days=ago) for ago in reversed(range(HISTORY_DAYS))]
    rows = DailyBenchmark.objects.filter(score_set=score_set, day__gte=days[0], day__lte=last)
    by_day: dict[date, float | None] = dict(rows.values_list("day", "accounts"))
    stored: dict[date, float | None] = {}
    for day in days:
        # A day without a row has the benchmark of the day before it.
        if day in by_day or stored:
            stored[day] = by_day.get(day, stored.get(day - timedelta(days=1)))
    return {
        day: None if benchmark is None else points_on(score_set, benchmark, day)
        for day, benchmark in stored.items()
    }


def _sampled(
    score_set: ScoreSet,
    definition: ScoringDefinition,
    days: list[date],
    sample_size: int,
    out_of_time: Callable[[], bool],
) -> dict[date, float | None]:
    parameters = {
        **parameters_of(score_set.product_id, definition),
        "score_set": score_set.pk,
        "active_from": _active_from(score_set, definition, days[0]),
    }
    rows = sql.fetch(_SAMPLE, parameters | {"limit": sample_size})
    parameters["accounts"] = [id for (id,) in rows]
    benchmarks: dict[date, float | None] = {}
    for part in _parts(days):
        if out_of_time():
            raise sql.StatementTimeout
        bounds = {"first": part[0], "last": part[-1], "days": part}
        with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
            benchmarks |= dict(sql.fetch(_BENCHMARKS, parameters | bounds))
    return benchmarks


def _active_from(score_set: ScoreSet, definition: ScoringDefinition, day: date) -> date | None:
    """The set's accounts without an event since then have no points on the day, nor later. None if
    the set cannot say: it has an audience, or leaves out events that the definition scores."""
    own = scoring_definition(score_set)
    # "" stands for all events without a weight of their own.
    names = {"", *own.weights, *definition.weights}
    if own.audience or any(
        definition.weights.get(name, definition.default_weight)
        and not own.weights.get(name, own.default_weight)
        for name in names
    ):
        return None
    return day - timedelta(days=definition.lookback_days - 1)


def _parts(days: list[date]) -> Iterator[list[date]]:
    """The days, in parts that span at most DAYS_PER_STATEMENT."""
    part: list[date] = []
    for day in days:
        if part and (day - part[0]).days >= DAYS_PER_STATEMENT:
            yield part
            part = []
        part.append(day)
    if part:
        yield part
