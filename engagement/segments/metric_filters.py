"""Filters on the metrics of engagement rows, equal to ``engagement.scores.metrics``.

The metrics that people see are rounded, and rounding again in SQL could differ slightly. So a
threshold on a displayed number becomes a threshold on the integer behind it, found with the
function that computes the displayed number.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

from django.contrib.postgres.fields import ArrayField
from django.db.models import (
    BigIntegerField,
    Case,
    Count,
    F,
    FloatField,
    Func,
    IntegerField,
    Q,
    QuerySet,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce, NullIf
from django.db.models.lookups import GreaterThanOrEqual, LessThan, LessThanOrEqual

from engagement.license_traits import SEATS_TRAIT
from engagement.metric_names import MetricName
from engagement.models import DailyCount, ScoredEvent, ScoreSet
from engagement.rules.filters import (
    QueryContext,
    aggregate_subquery,
    creation_time,
    subject_daily_counts,
)
from engagement.rules.rules import MetricCondition, TrendCondition
from engagement.rules.trait_filters import TraitInRange, start_of_day
from engagement.scopes import SubjectKind, get_kind
from engagement.scores.formula import (
    Trend,
    classify_trend,
    percentile_rank,
    rounded_score,
    shown_points,
)
from engagement.scores.metrics import MAX_SEATS, ratio

# Larger than any raw score or count.
_INFINITY = 2**62
_MAX_TENTHS = 1000
_BIGINTS: Any = ArrayField(BigIntegerField())
_NOBODY = Q(Value(False))

DisplayFunction: TypeAlias = Callable[[Any], float | None]


class MetricValue(NamedTuple):
    """A metric of an engagement row: an SQL expression, and how people see its value.

    ``display`` takes integers from ``minimum`` up and never decreases as they grow.
    """

    expression: Any
    display: DisplayFunction
    minimum: int = 0


def score_filter(
    condition: MetricCondition | TrendCondition, score_set: ScoreSet, context: QueryContext
) -> Q:
    """The filter on engagement rows. It may be NULL for rows that do not match."""
    if isinstance(condition, TrendCondition):
        return trend_filter(condition.trend, score_set, get_kind(context.scope))
    match condition.metric:
        case "license_utilization" if not score_set.counts_seats:
            return _NOBODY
        case "active_share" | "license_utilization":
            return _compare_floats(
                metric_value(condition.metric, score_set, context).expression, condition
            )
        case "tenure_days":
            return _tenure_filter(condition, context)
        case "score_change":
            metric = metric_value("score_change", score_set, context)
            at_most = comparison_bounds(condition)[1]
            limit = _MAX_TENTHS if at_most is None else math.floor(at_most * 10) + 2
            return _compare(metric, condition) & _raw_below_change(
                score_set, get_kind(context.scope), limit
            )
    return _compare(metric_value(condition.metric, score_set, context), condition)


def metric_value(metric: MetricName, score_set: ScoreSet, context: QueryContext) -> MetricValue:
    """The metric of an engagement row. Ratios are stored as people see them, tenure as a time."""
    kind = get_kind(context.scope)
    match metric:
        case "engagement_score":
            return MetricValue(F("raw"), _score_display(kind.benchmark(score_set)))
        case "score_yesterday":
            display = _score_display(kind.benchmark(score_set, "_yesterday"))
            return MetricValue(F("raw_yesterday"), display)
        case "score_last_period":
            display = _score_display(kind.benchmark(score_set, "_last_period"))
            return MetricValue(F("raw_last_period"), display)
        case "score_change":
            change = change_in_tenths(score_set, kind)
            return MetricValue(change, change_from_tenths, minimum=-_MAX_TENTHS)
        case "score_change_complete_days":
            change = complete_change_in_tenths(score_set, kind)
            return MetricValue(change, change_from_tenths, minimum=-_MAX_TENTHS)
        case "percentile":
            quantiles = kind.quantiles(score_set)
            return MetricValue(F("raw"), lambda raw: percentile_rank(raw, quantiles))
        case "raw_score":
            return MetricValue(F("raw"), lambda raw: shown_points(score_set, raw, context.today))
        case "adoption":
            return MetricValue(F("name_count"), _adoption_display(score_set))
        case "adoption_all_time":
            names = Count("event_name_id", distinct=True)
            total = Coalesce(aggregate_subquery(_scored_counts(score_set, context), names), 0)
            return MetricValue(total, _adoption_display(score_set))
        case "overall_scored_events":
            events = Sum("count")
            total = Coalesce(aggregate_subquery(_scored_counts(score_set, context), events), 0)
            return MetricValue(total, float)
        case "active_share":
            return MetricValue(_active_share(), float)
        case "license_utilization" if not score_set.counts_seats:
            return MetricValue(Value(None, FloatField()), float)
        case "license_utilization":
            return MetricValue(seat_utilization(context.subject_path), float)
        case "tenure_days":
            return MetricValue(creation_time(context), partial(_tenure_days, context.today))
    return MetricValue(F(_COLUMNS[metric]), float)


_COLUMNS = {
    "frequency": "active_days",
    "recently_scored_events": "event_count",
    "active_users": "active_users",
    "total_users": "total_users",
}


def trend_filter(trend: Trend, score_set: ScoreSet, kind: SubjectKind) -> Q:
    change = change_in_tenths(score_set, kind)
    tenths = range(-_MAX_TENTHS, _MAX_TENTHS + 1)
    order: list[Trend] = ["falling", "steady", "rising"]

    def trend_order(tenth: int) -> int:
        return order.index(classify_trend(change_from_tenths(tenth)))

    steady, rising = (tenths[bisect_left(tenths, at_least, key=trend_order)] for at_least in (1, 2))
    match trend:
        case "rising":
            return Q(GreaterThanOrEqual(change, rising))
        case "falling":
            return Q(LessThan(change, steady)) & _raw_below_change(score_set, kind, steady)
        case "steady":
            return Q(GreaterThanOrEqual(change, steady), LessThan(change, rising))


def _raw_below_change(score_set: ScoreSet, kind: SubjectKind, limit: int) -> Q:
    """True of all rows whose change is below the limit, in tenths.

    A score was at most 100 before, so one that fell by 10 is at most 90. The ranking finds these
    without reading the rows above.
    """
    steps = _steps(kind.benchmark(score_set))
    if not steps or not -_MAX_TENTHS < limit <= 0:
        return Q()
    return Q(raw__lt=steps[_MAX_TENTHS + limit - 1])


# --- Thresholds -----------------------------------------------------------------------------


def _compare(metric: MetricValue, condition: MetricCondition) -> Q:
    low, high = comparison_bounds(condition)
    matching = _matching_values(metric, condition)
    if not matching:
        return _NOBODY
    matches = Q()
    if low is not None:
        matches &= Q(GreaterThanOrEqual(metric.expression, matching.start))
    if high is not None:
        matches &= Q(LessThan(metric.expression, matching.stop))
    return matches


def _matching_values(metric: MetricValue, condition: MetricCondition) -> range:
    """The integers behind the displayed numbers that match."""
    low, high = comparison_bounds(condition)
    numbers = range(metric.minimum, _INFINITY)
    if metric.display(metric.minimum) is None:
        return range(_INFINITY, _INFINITY)

    def displayed(number: int) -> float:
        value = metric.display(number)
        assert value is not None, "A metric is null for all numbers or for none."
        return value

    first, end = numbers.start, numbers.stop
    if low is not None:
        first += bisect_left(numbers, True, key=lambda number: displayed(number) >= low)
    if high is not None:
        end = numbers.start + bisect_left(
            numbers, True, key=lambda number: displayed(number) > high
        )
    return range(first, end)


# These compare a subject with others, or with how many event names are scored, and no record of a
# list has them.
_RELATIVE_METRICS: frozenset[MetricName] = frozenset(
    {"percentile", "score_yesterday", "adoption", "adoption_all_time"}
)


def moved_values(
    condition: MetricCondition, before: ScoreSet, after: ScoreSet, context: QueryContext
) -> list[range]:
    """The values of a relative metric that match by the numbers of one of two states of a set only.

    Empty for all other metrics. Some of the values may match by both or by none.
    """
    if condition.metric not in _RELATIVE_METRICS:
        return []
    old, new = (
        _matching_values(metric_value(condition.metric, score_set, context), condition)
        for score_set in (before, after)
    )
    ends = [sorted((old.start, new.start)), sorted((old.stop, new.stop))]
    return [range(low, high) for low, high in ends if low < high]


def within(metric: MetricName, values: range, score_set: ScoreSet, context: QueryContext) -> Q:
    """Keeps the rows with these values of a metric that ``moved_values()`` has."""
    expression = metric_value(metric, score_set, context).expression
    return Q(GreaterThanOrEqual(expression, values.start), LessThan(expression, values.stop))


def _compare_floats(expression: Any, condition: MetricCondition) -> Q:
    low, high = comparison_bounds(condition)
    matches = Q()
    if low is not None:
        matches &= Q(GreaterThanOrEqual(expression, Value(low, FloatField())))
    if high is not None:
        matches &= Q(LessThanOrEqual(expression, Value(high, FloatField())))
    return matches


def comparison_bounds(condition: MetricCondition) -> tuple[float | None, float | None]:
    """The lowest and the highest number that match; None without a limit."""
    match condition.operator:
        case "at_least":
            return condition.value, None
        case "at_most":
            return None, condition.value
        case "between":
            return condition.value, condition.upper


# --- Scores ---------------------------------------------------------------------------------


def _score_display(benchmark: float | None) -> DisplayFunction:
    return lambda raw: rounded_score(raw, benchmark)


def change_from_tenths(tenths: int) -> float:
    return tenths / 10


def change_in_tenths(score_set: ScoreSet, kind: SubjectKind) -> Any:
    """The change of the displayed score over one lookback, in tenths."""
    now = _ScoreInTenths("raw", kind.benchmark(score_set))
    return now - _ScoreInTenths("raw_last_period", kind.benchmark(score_set, "_last_period"))


def complete_change_in_tenths(score_set: ScoreSet, kind: SubjectKind) -> Any:
    """The same of yesterday, over complete days. NULL where ``Scores.complete_change`` is None."""
    benchmark = kind.benchmark(score_set, "_yesterday_last_period")
    yesterday = _ScoreInTenths("raw_yesterday", kind.benchmark(score_set, "_yesterday"))
    change = yesterday - _ScoreInTenths("raw_yesterday_last_period", benchmark)
    if benchmark is not None:
        return change
    return Case(When(raw_yesterday_last_period=0, then=change))


def score_in_tenths(raw: str, benchmark: float | None) -> Func:
    """The displayed score of the column *raw*, in tenths."""
    return _ScoreInTenths(raw, benchmark)


class _ScoreInTenths(Func):
    """The displayed score in tenths: the number of its 1,000 steps that a raw score reaches."""

    function = "width_bucket"
    output_field = IntegerField()

    def __init__(self, raw: str, benchmark: float | None) -> None:
        super().__init__(F(raw), Cast(Value(_steps_literal(benchmark)), _BIGINTS))


@lru_cache(maxsize=100)
def _steps_literal(benchmark: float | None) -> str:
    """The steps as an array literal. Django and psycopg would convert each number of a list."""
    return f"{{{','.join(map(str, _steps(benchmark)))}}}"


@lru_cache(maxsize=100)
def _steps(benchmark: float | None) -> tuple[int, ...]:
    """The lowest raw scores that display as 0.1, 0.2, … 100.0."""
    if not benchmark:
        return ()
    steps = [1]
    for tenth in range(1, _MAX_TENTHS + 1):
        steps.append(_lowest_raw(tenth / 10, benchmark, steps[-1]))
    return tuple(steps[1:])


def _lowest_raw(score: float, benchmark: float, at_least: int) -> int:
    def reaches(raw: int) -> bool:
        return rounded_score(raw, benchmark) >= score

    # The inverse of the formula is exact but for rounding.
    guess = int(-benchmark * math.log10(1 - (score - 0.05) / 100))
    first = max(at_least, guess - 2)
    candidates = range(first, first + 5)
    index = bisect_left(candidates, True, key=reaches)
    if 0 < index < len(candidates) or (index == 0 and first == at_least):
        return candidates[index]
    return at_least + bisect_left(range(at_least, _INFINITY), True, key=reaches)


# --- Counts, ratios, and days ---------------------------------------------------------------


def _adoption_display(score_set: ScoreSet) -> DisplayFunction:
    return lambda names: ratio(names, score_set.scored_event_name_count)


def _scored_counts(score_set: ScoreSet, context: QueryContext) -> QuerySet[DailyCount]:
    """The daily counts of the row's subject that the score set scores."""
    counts = subject_daily_counts(context)
    weighted = ScoredEvent.objects.filter(score_set=score_set).values("event_name_id")
    if score_set.default_weight:
        return counts.exclude(event_name_id__in=weighted.filter(weight=0))
    return counts.filter(event_name_id__in=weighted.filter(weight__gt=0))


def _active_share() -> Any:
    return Cast("active_users", FloatField()) / NullIf(F("total_users"), 0)


def seat_utilization(subject_path: str) -> Any:
    """Active users per licensed seat; NULL without a number of seats."""
    return Cast("active_users", FloatField()) / licensed_seats(f"{subject_path}traits")


def licensed_seats(traits: str) -> Any:
    """As ``metrics.licensed_seats()``; NULL without a number of seats."""
    return TraitInRange(traits, SEATS_TRAIT, 1, MAX_SEATS)


def _tenure_filter(condition: MetricCondition, context: QueryContext) -> Q:
    """Tenure is in whole days since the day of creation, and never negative."""
    low, high = comparison_bounds(condition)
    matches = Q()
    if low is not None and low > 0:
        matches &= _created_before(context, math.ceil(low) - 1)
    if high is not None:
        matches &= ~_created_before(context, math.floor(high)) if high >= 0 else _NOBODY
    return matches or Q(Value(True))


def _tenure_days(today: date, created_at: datetime) -> int:
    return max(0, (today - created_at.astimezone(UTC).date()).days)


def _created_before(context: QueryContext, days: int) -> Q:
    """Created more than *days* days before today."""
    if days >= context.today.toordinal() - date.min.toordinal():
        return _NOBODY
    return Q(LessThan(creation_time(context), start_of_day(context.today, -days)))
