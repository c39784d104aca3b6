"""Evaluates rules for one subject, at a fraction of the cost of compiling them as queries.

The subject's metrics and times are read once, each by the expression that members are filtered by,
and compared here. Conditions on traits and events are left to the database; their SQL is compiled
once in a process.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from django.contrib.postgres.fields import ArrayField
from django.db import connection
from django.db.models import BooleanField, Case, F, Q, QuerySet, Value, When
from django.db.models.expressions import RawSQL
from django.db.models.sql import Query

from engagement.activity.reading import AccountAlarms, read_alarms, shown_alarms
from engagement.metric_names import MetricName, Scope
from engagement.models import Account, AccountEngagement, ScoreSet
from engagement.rules.filters import (
    EventNameIds,
    QueryContext,
    TimeCondition,
    creation_time,
    event_filter,
    feature_filter,
    is_before_window,
    license_event_filter,
    period_start,
    subject_trait_filter,
    work_filter,
)
from engagement.rules.rules import (
    AccountTraitCondition,
    ActivationCondition,
    ActiveCondition,
    ActivityCondition,
    ChanceCondition,
    Condition,
    CreatedCondition,
    EventCondition,
    FeatureCondition,
    FirstSeenCondition,
    InsightCondition,
    LastActiveCondition,
    LicenseEventCondition,
    MetricCondition,
    OwnerCondition,
    Rule,
    TagCondition,
    TraitCondition,
    TrendCondition,
)
from engagement.scopes import get_kind
from engagement.scores.formula import classify_trend
from engagement.scores.insights import account_facts, apply_rules
from engagement.segments import metric_filters
from engagement.segments.activation import activation_filter
from engagement.segments.chances import chance_filter

# The conditions of the segments of two workspaces that have as many as allowed; 1 to 2 KB each.
FRAGMENT_CACHE_SIZE = 8000

# What insights are decided by.
_ROW_COLUMNS = (
    "raw",
    "raw_yesterday",
    "raw_last_period",
    "raw_yesterday_last_period",
    "last_active_at",
    "active_users",
    "total_users",
    "top_user_points",
)
_ACCOUNT_COLUMNS = ("traits", "first_seen_at", "created_at")

_Values: TypeAlias = Mapping[str, Any]
_DatabaseCondition: TypeAlias = (
    EventCondition
    | FeatureCondition
    | LicenseEventCondition
    | TraitCondition
    | AccountTraitCondition
    | ChanceCondition
    | OwnerCondition
    | TagCondition
    | ActivationCondition
)
_Test: TypeAlias = Callable[[_Values], bool]


class _Fragment(NamedTuple):
    """An SQL expression that is never NULL, and its parameters."""

    sql: str
    parameters: tuple[Any, ...]


def evaluate_rules(
    subject_row: QuerySet[Any],
    rules: Sequence[Rule],
    score_set: ScoreSet,
    context: QueryContext,
    event_name_ids: EventNameIds,
) -> list[bool]:
    """Whether the subject matches each of the rules, with one query.

    *subject_row* selects the subject's engagement row. Without a row no rule matches.
    """
    evaluator = _Evaluator(score_set, context, event_name_ids)
    tests = [evaluator.rule_test(rule) for rule in rules]
    active = F(context.active_column)
    values = next(iter(subject_row.values(active=active, **evaluator.expressions())), None)
    if values is None:
        return [False] * len(rules)
    return [test(values) for test in tests]


class _Evaluator:
    """Turns rules into tests of a row's values, and collects the expressions for these values."""

    def __init__(
        self, score_set: ScoreSet, context: QueryContext, event_name_ids: EventNameIds
    ) -> None:
        self.score_set = score_set
        self.context = context
        self.event_name_ids = event_name_ids
        self.values: dict[str, Any] = {}
        self.fragments: list[_Fragment] = []
        self.metrics: dict[str, metric_filters.MetricValue] = {}
        self.uses_accounts = False
        self.insight_kinds: set[str] | None = None

    def expressions(self) -> dict[str, Any]:
        expressions = dict(self.values)
        # Fragments name tables; these values make Django join them.
        if self.fragments:
            expressions["joined"] = F(f"{self.context.subject_path}last_seen_at")
            expressions["decided"] = _array(self.fragments)
        if self.uses_accounts:
            expressions["joined_account"] = F(f"{self.context.subject_path}account__last_seen_at")
        return expressions

    def rule_test(self, rule: Rule) -> _Test:
        combine = all if rule.match == "all" else any
        in_database = [c for c in rule.conditions if isinstance(c, _DatabaseCondition)]
        tests = [
            self._condition_test(condition)
            for condition in rule.conditions
            if not isinstance(condition, _DatabaseCondition)
        ]
        if in_database:
            tests.append(self._database_test(rule, in_database))
        if not tests:
            return lambda values: True
        return lambda values: combine(test(values) for test in tests)

    def _database_test(self, rule: Rule, conditions: Sequence[_DatabaseCondition]) -> _Test:
        """One expression for all of them, so that the database can stop early: events are summed
        for each condition."""
        index = len(self.fragments)
        fragments = [self._fragment(condition) for condition in conditions]
        self.fragments.append(_join(" AND " if rule.match == "all" else " OR ", fragments))
        return lambda values: values["decided"][index]

    def _fragment(self, condition: _DatabaseCondition) -> _Fragment:
        if isinstance(condition, EventCondition):
            return _event_fragment(condition, self.event_name_ids[condition], self.context)
        if isinstance(condition, FeatureCondition):
            return _feature_fragment(condition, self.event_name_ids[condition], self.context)
        if isinstance(condition, LicenseEventCondition):
            return _license_event_fragment(condition, self.context)
        if isinstance(condition, OwnerCondition | TagCondition):
            return _work_fragment(condition, self.context)
        if isinstance(condition, ChanceCondition):
            return _compile(chance_filter(condition, self.score_set), self.context.scope)
        if isinstance(condition, ActivationCondition):
            kind = get_kind(self.context.scope)
            matches = activation_filter(condition, self.score_set, kind, self.context.today)
            return _compile(matches, self.context.scope)
        self.uses_accounts |= isinstance(condition, AccountTraitCondition)
        return _trait_fragment(condition, self.context.scope)

    def _condition_test(self, condition: Condition) -> _Test:
        match condition:
            case MetricCondition():
                return self._metric_test(condition)
            case TrendCondition():
                return self._trend_test(condition)
            case LastActiveCondition():
                return self._last_active_test(condition)
            case FirstSeenCondition():
                first_seen_at = F(f"{self.context.subject_path}first_seen_at")
                return self._time_test(condition, "first_seen", first_seen_at)
            case CreatedCondition():
                return self._time_test(condition, "created", creation_time(self.context))
            case ActiveCondition():
                active = condition.active
                return lambda values: (values["active"] > 0) == active
            case InsightCondition():
                return self._insight_test(condition)
            case ActivityCondition():
                return self._activity_test(condition)
        raise TypeError(f"{condition} is left to the database.")

    def _metric_test(self, condition: MetricCondition) -> _Test:
        displayed = self._displayed(condition.metric)
        low, high = metric_filters.comparison_bounds(condition)

        def matches(values: _Values) -> bool:
            number = displayed(values)
            return (
                number is not None
                and (low is None or number >= low)
                and (high is None or number <= high)
            )

        return matches

    def _trend_test(self, condition: TrendCondition) -> _Test:
        change, trend = self._displayed("score_change"), condition.trend

        def matches(values: _Values) -> bool:
            number = change(values)
            return number is not None and classify_trend(number) == trend

        return matches

    def _activity_test(self, condition: ActivityCondition) -> _Test:
        self.values["row_activity"] = F("activity")
        self._read_alarms()

        def matches(values: _Values) -> bool:
            activity = self._alarms(values).activity(values["row_activity"])
            return activity.state == condition.state

        return matches

    def _read_alarms(self) -> None:
        self.values["alarms"] = shown_alarms(self.score_set)

    def _alarms(self, values: _Values) -> AccountAlarms:
        return read_alarms(values["alarms"])

    def _insight_test(self, condition: InsightCondition) -> _Test:
        self._read_alarms()
        for column in _ROW_COLUMNS:
            self.values[f"row_{column}"] = F(column)
        for column in _ACCOUNT_COLUMNS:
            self.values[f"account_{column}"] = F(f"{self.context.subject_path}{column}")
        return lambda values: (condition.insight in self._insight_kinds(values)) == condition.has

    def _insight_kinds(self, values: _Values) -> set[str]:
        """The insights about the account, decided once for all conditions."""
        if self.insight_kinds is None:
            row = AccountEngagement(
                account=Account(**{name: values[f"account_{name}"] for name in _ACCOUNT_COLUMNS}),
                **{name: values[f"row_{name}"] for name in _ROW_COLUMNS},
            )
            facts = account_facts(self.score_set, row, alarms=self._alarms(values))
            insights = apply_rules(facts)
            self.insight_kinds = {insight.kind for insight in insights}
        return self.insight_kinds

    def _displayed(self, metric: MetricName) -> Callable[[_Values], float | None]:
        """Returns a metric as people see it, or None where the row has no value."""
        if metric not in self.metrics:
            self.metrics[metric] = metric_filters.metric_value(metric, self.score_set, self.context)
        expression, display, _ = self.metrics[metric]
        key = self._value(metric, expression)

        def displayed(values: _Values) -> float | None:
            value = values[key]
            return None if value is None else display(value)

        return displayed

    def _last_active_test(self, condition: LastActiveCondition) -> _Test:
        test = self._time_test(condition, "last_active", F("last_active_at"))
        if is_before_window(condition, self.context):
            return lambda values: values["active"] == 0 and test(values)
        return test

    def _time_test(self, condition: TimeCondition, name: str, expression: Any) -> _Test:
        start, key = period_start(condition, self.context), self._value(name, expression)
        within = condition.operator == "within_days"

        def matches(values: _Values) -> bool:
            time = values[key]
            return time is not None and (time >= start) == within

        return matches

    def _value(self, name: str, expression: Any) -> str:
        """Adds the expression to the query; returns its key in the row's values."""
        self.values[f"value_{name}"] = expression
        return f"value_{name}"


# --- Fragments ------------------------------------------------------------------------------

# The results depend on nothing but the arguments, which are the keys of the caches.


@lru_cache(maxsize=FRAGMENT_CACHE_SIZE)
def _trait_fragment(condition: TraitCondition, scope: Scope) -> _Fragment:
    return _compile(subject_trait_filter(condition, get_kind(scope).path), scope)


@lru_cache(maxsize=FRAGMENT_CACHE_SIZE)
def _event_fragment(
    condition: EventCondition, ids: tuple[int, ...], context: QueryContext
) -> _Fragment:
    return _compile(event_filter(condition, ids, context), context.scope)


@lru_cache(maxsize=FRAGMENT_CACHE_SIZE)
def _feature_fragment(
    condition: FeatureCondition, ids: tuple[int, ...], context: QueryContext
) -> _Fragment:
    return _compile(feature_filter(condition, ids, context), context.scope)


@lru_cache(maxsize=FRAGMENT_CACHE_SIZE)
def _license_event_fragment(condition: LicenseEventCondition, context: QueryContext) -> _Fragment:
    return _compile(license_event_filter(condition, context), context.scope)


@lru_cache(maxsize=FRAGMENT_CACHE_SIZE)
def _work_fragment(condition: OwnerCondition | TagCondition, context: QueryContext) -> _Fragment:
    return _compile(work_filter(condition, context), context.scope)


def _compile(condition: Q, scope: Scope) -> _Fragment:
    query = Query(get_kind(scope).engagement_model)
    flag = Case(When(condition, then=Value(True)), default=Value(False)).resolve_expression(query)
    sql, parameters = query.get_compiler(connection=connection).compile(flag)
    return _Fragment(sql, tuple(parameters))


def _join(separator: str, fragments: Sequence[_Fragment]) -> _Fragment:
    parameters = chain.from_iterable(fragment.parameters for fragment in fragments)
    return _Fragment(separator.join(fragment.sql for fragment in fragments), tuple(parameters))


def _array(fragments: Sequence[_Fragment]) -> RawSQL:
    """An array with the value of each fragment."""
    sql, parameters = _join(", ", fragments)
    return RawSQL(f"ARRAY[{sql}]", parameters, output_field=ArrayField(BooleanField()))
