"""Which rules one subject meets, at a small part of what it costs to compile them as queries.

What the subject's metrics and times are is read once, each by the expression that members are
filtered by, and compared here with what the conditions ask. Conditions on traits and events are
left to the database. Their SQL is compiled once in a process.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from django.contrib.postgres.fields import ArrayField
from django.db import connection
from django.db.models import BooleanField, Case, F, Q, QuerySet, Value, When
from django.db.models.expressions import RawSQL
from django.db.models.sql import Query

from engagement.metric_names import MetricName, Scope
from engagement.models import AccountEngagement, ScoreSet, UserEngagement
from engagement.rules.filters import (
    QueryContext,
    creation_time,
    is_before_window,
    period_start,
    trait_condition_filter,
    unscored_filter,
)
from engagement.rules.rules import (
    AccountTraitCondition,
    ActiveCondition,
    Condition,
    CreatedCondition,
    EventCondition,
    FirstSeenCondition,
    LastActiveCondition,
    MetricCondition,
    Rule,
    TraitCondition,
    TrendCondition,
)
from engagement.scores.formula import classify_trend
from engagement.segments import metric_filters

# What the conditions of two users' and two accounts' lists of segments need, where each has as
# many as a workspace may have; 1 to 2 KB each.
FRAGMENT_CACHE_SIZE = 8000

_Values: TypeAlias = Mapping[str, Any]
_TimeCondition: TypeAlias = LastActiveCondition | FirstSeenCondition | CreatedCondition
_LeftToDatabase: TypeAlias = EventCondition | TraitCondition | AccountTraitCondition
_Test: TypeAlias = Callable[[_Values], bool]


class _Fragment(NamedTuple):
    """An SQL expression that is never NULL, and its parameters."""

    sql: str
    parameters: tuple[Any, ...]


def evaluate_rules(
    of_subject: QuerySet[Any], rules: Sequence[Rule], score_set: ScoreSet, place: QueryContext
) -> list[bool]:
    """Whether the subject of the one row of *of_subject* meets each of the rules: one query.

    Where there is no row, none is met.
    """
    asked = _Asked(score_set, place)
    tests = [asked.test_of(rule) for rule in rules]
    values = next(iter(of_subject.values("raw", **asked.expressions())), None)
    if values is None:
        return [False] * len(rules)
    return [test(values) for test in tests]


class _Asked:
    """What rules ask of a row: the values that they compare, and what the database decides."""

    def __init__(self, score_set: ScoreSet, place: QueryContext) -> None:
        self.score_set = score_set
        self.sort_key = place
        self.values: dict[str, Any] = {}
        self.fragments: list[_Fragment] = []
        self.measures: dict[str, metric_filters.MetricValue] = {}
        self.of_accounts = False

    def expressions(self) -> dict[str, Any]:
        found = dict(self.values)
        # Fragments name the tables; these values have them joined.
        if self.fragments:
            found["joined"] = F(f"{self.sort_key.path}last_seen_at")
            found["decided"] = _array(self.fragments)
        if self.of_accounts:
            found["joined_account"] = F(f"{self.sort_key.path}account__last_seen_at")
        return found

    def test_of(self, rule: Rule) -> _Test:
        """Whether a row's values meet the rule."""
        every = all if rule.match == "all" else any
        left = [one for one in rule.conditions if isinstance(one, _LeftToDatabase)]
        tests = [self._test(one) for one in rule.conditions if not isinstance(one, _LeftToDatabase)]
        if left:
            tests.append(self._decided(rule, left))
        if not tests:
            return lambda values: True
        return lambda values: every(test(values) for test in tests)

    def _decided(self, rule: Rule, left: Sequence[_LeftToDatabase]) -> _Test:
        """The database decides these together, as far as it has to: events are summed for each."""
        number = len(self.fragments)
        compiled = [self._fragment(condition) for condition in left]
        self.fragments.append(_joined(" AND " if rule.match == "all" else " OR ", compiled))
        return lambda values: values["decided"][number]

    def _fragment(self, condition: _LeftToDatabase) -> _Fragment:
        place = self.sort_key
        if isinstance(condition, EventCondition):
            name = place.event_names.get(condition.event)
            names = () if name is None else ((condition.event, name),)
            return _of_event(condition, names, **_without_names(place))
        self.of_accounts |= isinstance(condition, AccountTraitCondition)
        return _of_trait(condition, place.scope)

    def _test(self, condition: Condition) -> _Test:
        match condition:
            case MetricCondition():
                return self._metric(condition)
            case TrendCondition():
                return self._trend(condition)
            case LastActiveCondition():
                return self._last_active(condition)
            case FirstSeenCondition():
                return self._time(condition, "first_seen", F(f"{self.sort_key.path}first_seen_at"))
            case CreatedCondition():
                return self._time(condition, "created", creation_time(self.sort_key))
            case ActiveCondition():
                active = condition.active
                return lambda values: (values["raw"] > 0) == active
        raise TypeError(f"{condition} is left to the database.")

    def _metric(self, condition: MetricCondition) -> _Test:
        number = self._measured(condition.metric)
        low, high = metric_filters.comparison_bounds(condition)

        def is_met(values: _Values) -> bool:
            shown = number(values)
            return (
                shown is not None
                and (low is None or shown >= low)
                and (high is None or shown <= high)
            )

        return is_met

    def _trend(self, condition: TrendCondition) -> _Test:
        change, asked = self._measured("score_change"), condition.trend

        def is_met(values: _Values) -> bool:
            shown = change(values)
            return shown is not None and classify_trend(shown) == asked

        return is_met

    def _measured(self, metric: MetricName) -> Callable[[_Values], float | None]:
        """What is shown of a metric; None where the database has nothing of it."""
        if metric not in self.measures:
            self.measures[metric] = metric_filters.metric_value(
                metric, self.score_set, self.sort_key
            )
        stored, show, _ = self.measures[metric]
        name = self._value(metric, stored)

        def shown(values: _Values) -> float | None:
            value = values[name]
            return None if value is None else show(value)

        return shown

    def _last_active(self, condition: LastActiveCondition) -> _Test:
        test = self._time(condition, "last_active", F("last_active_at"))
        if is_before_window(condition, self.sort_key):
            return lambda values: values["raw"] == 0 and test(values)
        return test

    def _time(self, condition: _TimeCondition, name: str, column: Any) -> _Test:
        began, name = period_start(condition, self.sort_key), self._value(name, column)
        within = condition.operator == "within_days"

        def is_met(values: _Values) -> bool:
            at = values[name]
            return at is not None and (at >= began) == within

        return is_met

    def _value(self, name: str, expression: Any) -> str:
        """The name under which a row's values have the expression's."""
        self.values[f"value_{name}"] = expression
        return f"value_{name}"


# --- Fragments ------------------------------------------------------------------------------

# What these are given is all that they can depend on: their results are kept by it.


@lru_cache(maxsize=FRAGMENT_CACHE_SIZE)
def _of_trait(condition: TraitCondition, scope: Scope) -> _Fragment:
    return _compiled(trait_condition_filter(condition, f"{scope}__"), scope)


@lru_cache(maxsize=FRAGMENT_CACHE_SIZE)
def _of_event(
    condition: EventCondition, names: tuple[tuple[str, int], ...], **known: Any
) -> _Fragment:
    place = QueryContext(**known, event_names=dict(names))
    return _compiled(unscored_filter(condition, place), place.scope)


def _without_names(place: QueryContext) -> dict[str, Any]:
    every = {field.name: getattr(place, field.name) for field in fields(place)}
    del every["event_names"]
    return every


def _compiled(asked: Q, scope: Scope) -> _Fragment:
    query = Query(UserEngagement if scope == "user" else AccountEngagement)
    flag = Case(When(asked, then=Value(True)), default=Value(False)).resolve_expression(query)
    sql, parameters = query.get_compiler(connection=connection).compile(flag)
    return _Fragment(sql, tuple(parameters))


def _joined(by: str, fragments: Sequence[_Fragment]) -> _Fragment:
    parameters = chain.from_iterable(one.parameters for one in fragments)
    return _Fragment(by.join(one.sql for one in fragments), tuple(parameters))


def _array(fragments: Sequence[_Fragment]) -> RawSQL:
    """A list of what each of the fragments says."""
    found = _joined(", ", fragments)
    output = ArrayField(BooleanField())
    return RawSQL(f"ARRAY[{found.sql}]", found.parameters, output_field=output)
