"""Metrics as parts of queries over engagement rows, equal to ``engagement.scores.metrics``.

What is shown rounds, and a rounding that SQL did once more could differ by a hair. So a threshold
on a shown number becomes one on the whole number behind it, found with the function that shows it.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import lru_cache, partial
from typing import Any, NamedTuple

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
from django.db.models.lookups import Exact, GreaterThanOrEqual, LessThan, LessThanOrEqual

from engagement.metric_names import MetricName, Scope
from engagement.models import DailyCount, ScoredEvent, ScoreSet
from engagement.rules.filters import (
    QueryContext,
    aggregate_subquery,
    creation_time,
    subject_daily_counts,
)
from engagement.rules.rules import MetricCondition, TrendCondition
from engagement.rules.trait_filters import TraitNumber, TraitType, start_of_day
from engagement.scores.formula import classify_trend, percentile_rank, rounded_score
from engagement.scores.metrics import MAX_SEATS, SEATS_TRAIT, ratio

# No raw score or count comes near.
_UNREACHED = 2**62
_HIGHEST_TENTH = 1000
_NUMBERS: Any = ArrayField(BigIntegerField())

DisplayFunction = Callable[[Any], float | None]
_NOBODY = Q(Value(False))


class MetricValue(NamedTuple):
    """A metric of an engagement row: what the database has of it, and what is shown of that.

    ``shown`` takes whole numbers from ``from_`` on, and never falls as they rise.
    """

    stored: Any
    shown: DisplayFunction
    minimum: int = 0


def metric_filter(condition: MetricCondition, score_set: ScoreSet, place: QueryContext) -> Q:
    """What the condition asks of an engagement row; it may be NULL where it is not met."""
    match condition.metric:
        case "license_utilization" if score_set.audience:
            return _NOBODY
        case "active_share" | "license_utilization":
            return _compare_numbers(
                metric_value(condition.metric, score_set, place).stored, condition
            )
        case "tenure_days":
            return _tenure(condition, place)
    return _compare(metric_value(condition.metric, score_set, place), condition)


def metric_value(metric: MetricName, score_set: ScoreSet, place: QueryContext) -> MetricValue:
    """The metric of an engagement row. Shares are stored as they are shown; tenure as a time."""
    match metric:
        case "engagement_score":
            return MetricValue(F("raw"), _score(_benchmark(score_set, place.scope)))
        case "score_yesterday":
            shown = _score(_benchmark(score_set, place.scope, "_yesterday"))
            return MetricValue(F("raw_yesterday"), shown)
        case "score_last_period":
            shown = _score(_benchmark(score_set, place.scope, "_last_period"))
            return MetricValue(F("raw_last_period"), shown)
        case "score_change":
            change = change_in_tenths(score_set, place.scope)
            return MetricValue(change, change_from_tenths, minimum=-_HIGHEST_TENTH)
        case "percentile":
            quantiles = getattr(score_set, f"{place.scope}_quantiles")
            return MetricValue(F("raw"), lambda raw: percentile_rank(raw, quantiles))
        case "adoption":
            return MetricValue(F("name_count"), _share_of_names(score_set))
        case "adoption_all_time":
            names = Count("event_name_id", distinct=True)
            ever = Coalesce(aggregate_subquery(_scored_counts(score_set, place), names), 0)
            return MetricValue(ever, _share_of_names(score_set))
        case "overall_scored_events":
            ever = Coalesce(aggregate_subquery(_scored_counts(score_set, place), Sum("count")), 0)
            return MetricValue(ever, float)
        case "active_share":
            return MetricValue(_active_share(), float)
        case "license_utilization" if score_set.audience:
            return MetricValue(Value(None, FloatField()), float)
        case "license_utilization":
            return MetricValue(_license_utilization(place), float)
        case "tenure_days":
            return MetricValue(creation_time(place), partial(_tenure_days, place.today))
    return MetricValue(F(_COLUMNS[metric]), float)


_COLUMNS = {
    "raw_score": "raw",
    "frequency": "active_days",
    "recently_scored_events": "event_count",
    "active_users": "active_users",
    "total_users": "total_users",
}


def trend_filter(condition: TrendCondition, score_set: ScoreSet, place: QueryContext) -> Q:
    change = change_in_tenths(score_set, place.scope)
    changes = range(-_HIGHEST_TENTH, _HIGHEST_TENTH + 1)
    steady = changes[
        bisect_left(changes, True, key=lambda c: classify_trend(change_from_tenths(c)) != "falling")
    ]
    rising = changes[
        bisect_left(changes, True, key=lambda c: classify_trend(change_from_tenths(c)) == "rising")
    ]
    match condition.trend:
        case "rising":
            return Q(GreaterThanOrEqual(change, rising))
        case "falling":
            return Q(LessThan(change, steady))
        case "steady":
            return Q(GreaterThanOrEqual(change, steady), LessThan(change, rising))


# --- Thresholds -----------------------------------------------------------------------------


def _compare(measure: MetricValue, condition: MetricCondition) -> Q:
    stored, shown, from_ = measure
    if shown(from_) is None:
        return _NOBODY
    low, high = comparison_bounds(condition)
    numbers = range(from_, _UNREACHED)
    found = Q()
    if low is not None:
        reached = bisect_left(numbers, True, key=lambda number: _shown(shown, number) >= low)
        found &= Q(GreaterThanOrEqual(stored, numbers.start + reached))
    if high is not None:
        passed = bisect_left(numbers, True, key=lambda number: _shown(shown, number) > high)
        found &= Q(LessThan(stored, numbers.start + passed))
    return found


def _shown(shown: DisplayFunction, number: int) -> float:
    found = shown(number)
    assert found is not None, "A metric is null for all numbers or for none."
    return found


def _compare_numbers(number: Any, condition: MetricCondition) -> Q:
    low, high = comparison_bounds(condition)
    found = Q()
    if low is not None:
        found &= Q(GreaterThanOrEqual(number, Value(low, FloatField())))
    if high is not None:
        found &= Q(LessThanOrEqual(number, Value(high, FloatField())))
    return found


def comparison_bounds(condition: MetricCondition) -> tuple[float | None, float | None]:
    """From where and up to where the condition is met, both included."""
    match condition.operator:
        case "at_least":
            return condition.value, None
        case "at_most":
            return None, condition.value
        case "between":
            return condition.value, condition.upper


# --- Scores ---------------------------------------------------------------------------------


def _benchmark(score_set: ScoreSet, scope: Scope, of: str = "") -> float | None:
    benchmark: float | None = getattr(score_set, f"{scope}_benchmark{of}")
    return benchmark


def _score(benchmark: float | None) -> DisplayFunction:
    return lambda raw: rounded_score(raw, benchmark)


def change_from_tenths(number: int) -> float:
    return number / 10


def change_in_tenths(score_set: ScoreSet, scope: Scope) -> Any:
    """By how many tenths the shown score moved over one lookback."""
    now = _ScoreInTenths("raw", _benchmark(score_set, scope))
    return now - _ScoreInTenths("raw_last_period", _benchmark(score_set, scope, "_last_period"))


class _ScoreInTenths(Func):
    """The shown score in tenths: how many of its thousand steps the raw score has taken."""

    function = "width_bucket"
    output_field = IntegerField()

    def __init__(self, raw: str, benchmark: float | None) -> None:
        super().__init__(F(raw), Cast(Value(_steps_text(benchmark)), _NUMBERS))


@lru_cache(maxsize=100)
def _steps_text(benchmark: float | None) -> str:
    """The steps as PostgreSQL writes a list: Django and psycopg would look at each number."""
    return f"{{{','.join(map(str, _steps(benchmark)))}}}"


def _steps(benchmark: float | None) -> tuple[int, ...]:
    """The lowest raw scores that show 0.1, 0.2, … 100.0."""
    if not benchmark:
        return ()
    steps = [1]
    for tenth in range(1, _HIGHEST_TENTH + 1):
        steps.append(_lowest_raw(tenth / 10, benchmark, steps[-1]))
    return tuple(steps[1:])


def _lowest_raw(shown: float, benchmark: float, at_least: int) -> int:
    def reached(raw: int) -> bool:
        return rounded_score(raw, benchmark) >= shown

    # The formula turned round leads there but for rounding.
    guess = int(-benchmark * math.log10(1 - (shown - 0.05) / 100))
    first = max(at_least, guess - 2)
    near = range(first, first + 5)
    found = bisect_left(near, True, key=reached)
    if 0 < found < len(near) or (found == 0 and first == at_least):
        return near[found]
    everywhere = range(at_least, _UNREACHED)
    return at_least + bisect_left(everywhere, True, key=reached)


# --- Counts, shares and days ----------------------------------------------------------------


def _share_of_names(score_set: ScoreSet) -> DisplayFunction:
    return lambda names: ratio(names, score_set.scored_event_name_count)


def _scored_counts(score_set: ScoreSet, place: QueryContext) -> QuerySet[DailyCount]:
    """The daily counts of the row's subject that the definition scores."""
    counts = subject_daily_counts(place)
    listed = ScoredEvent.objects.filter(score_set=score_set).values("event_name_id")
    if score_set.default_weight:
        return counts.exclude(event_name_id__in=listed.filter(weight=0))
    return counts.filter(event_name_id__in=listed.filter(weight__gt=0))


def _active_share() -> Any:
    return Cast("active_users", FloatField()) / NullIf(F("total_users"), 0)


def _license_utilization(place: QueryContext) -> Any:
    traits = f"{place.path}traits"
    seats = TraitNumber(traits, SEATS_TRAIT)
    is_number = Exact(TraitType(traits, SEATS_TRAIT), "number")
    in_range = GreaterThanOrEqual(seats, 1), LessThanOrEqual(seats, MAX_SEATS)
    users = Cast("active_users", FloatField())
    return Case(When(Q(is_number, *in_range), then=users / Cast(seats, FloatField())))


def _tenure(condition: MetricCondition, place: QueryContext) -> Q:
    """Whole days are counted from the day of creation, and none is below 0."""
    low, high = comparison_bounds(condition)
    found = Q()
    if low is not None and low > 0:
        found &= _created_before(place, math.ceil(low) - 1)
    if high is not None:
        found &= ~_created_before(place, math.floor(high)) if high >= 0 else _NOBODY
    return found or Q(Value(True))


def _tenure_days(today: date, at: datetime) -> int:
    return max(0, (today - at.astimezone(UTC).date()).days)


def _created_before(place: QueryContext, days: int) -> Q:
    """Created more than so many days before today."""
    if days >= place.today.toordinal() - date.min.toordinal():
        return _NOBODY
    return Q(LessThan(creation_time(place), start_of_day(place.today, -days)))
