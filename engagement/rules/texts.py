"""Texts for rules: what pages show and what forms offer."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from engagement.insight_kinds import ACTIVITY_LABELS, INSIGHTS
from engagement.metric_names import METRICS, MetricName, to_percent
from engagement.rules import license_events
from engagement.rules.rules import (
    AccountTraitCondition,
    ActivationCondition,
    ActivationState,
    ActiveCondition,
    ActivityCondition,
    ChanceCondition,
    ChanceName,
    Condition,
    CreatedCondition,
    EventCondition,
    FeatureCondition,
    FirstSeenCondition,
    InsightCondition,
    LastActiveCondition,
    LicenseEventCondition,
    MetricCondition,
    Number,
    OwnerCondition,
    Rule,
    TagCondition,
    TraitCondition,
    TrendCondition,
)

METRIC_OPERATOR_LABELS = {
    "at_least": "is at least",
    "at_most": "is at most",
    "between": "is between",
}
TRAIT_OPERATOR_LABELS = {
    "is_ignoring_case": "is",
    "is_not_ignoring_case": "is not",
    "is": "is exactly",
    "is_not": "is not exactly",
    "contains": "contains",
    "is_set": "is set",
    "is_not_set": "is not set",
    "at_least": "is at least",
    "at_most": "is at most",
    "before": "is before",
    "after": "is after",
}
EVENT_OPERATOR_LABELS = {"done": "done", "not_done": "not done"}
FEATURE_OPERATOR_LABELS = {"uses": "used", "stopped": "stopped", "never": "never used"}
LICENSE_EVENT_OPERATOR_LABELS = {"happened": "happened", "not_happened": "did not happen"}
CHANCE_LABELS: dict[ChanceName, str] = {
    "buy": "Chance to buy",
    "renew": "Chance to renew",
    "stay": "Chance to stay",
}
CHANCE_OPERATOR_LABELS = {"below": "is below", "at_least": "is at least"}
OWNER_OPERATOR_LABELS = {
    "is": "is",
    "is_not": "is not",
    "is_set": "is anybody",
    "is_not_set": "is nobody",
}
TAG_LABELS = {True: "has", False: "does not have"}
ACTIVATION_LABELS: dict[ActivationState, str] = {
    "activated": "activated",
    "on_the_way": "on the way",
    "stuck": "stuck",
}
TIME_OPERATOR_LABELS = {"within_days": "within", "more_than_days_ago": "more than"}
INSIGHT_LABELS = {True: "Has the insight", False: "Does not have the insight"}
TREND_LABELS = {"rising": "is rising", "falling": "is falling", "steady": "is steady"}


def describe_rule(rule: Rule) -> str:
    """The rule as one sentence, without a full stop."""
    if not rule.conditions:
        return "All users" if rule.scope == "user" else "All accounts"
    return _join(rule.match, rule.conditions)


def describe_stored_rule(stored: Mapping[str, Any]) -> str | None:
    """A rule as it was stored at some time, as text. None for one that no longer has a meaning."""
    try:
        conditions = msgspec.convert(stored.get("conditions"), list[Condition])
    except msgspec.ValidationError:
        return None
    return _join(stored.get("match", "all"), conditions) if conditions else None


def _join(match: str, conditions: Sequence[Condition]) -> str:
    first, *others = map(describe_condition, conditions)
    conjunction = " and " if match == "all" else " or "
    return conjunction.join([first, *(other[0].lower() + other[1:] for other in others)])


def describe_condition(condition: Condition) -> str:
    """The condition as a sentence, without a full stop."""
    match condition:
        case MetricCondition():
            label = METRICS[condition.metric].label
            operator = METRIC_OPERATOR_LABELS[condition.operator]
            values = [value for value in (condition.value, condition.upper) if value is not None]
            numbers = " and ".join(_metric_number(condition.metric, value) for value in values)
            return f"{label} {operator} {numbers}"
        case TrendCondition():
            return f"Score {TREND_LABELS[condition.trend]}"
        case AccountTraitCondition():
            return f"Account trait {_trait(condition)}"
        case TraitCondition():
            return f"Trait {_trait(condition)}"
        case EventCondition():
            return _event(condition)
        case FeatureCondition():
            return _feature(condition)
        case LicenseEventCondition():
            label = license_event_label(condition.event)
            operator = LICENSE_EVENT_OPERATOR_LABELS[condition.operator]
            return f"License event “{label}” {operator} {_within(condition.within_days)}"
        case LastActiveCondition():
            return f"Last active {_when(condition)}"
        case FirstSeenCondition():
            return f"First seen {_when(condition)}"
        case CreatedCondition():
            return f"Created {_when(condition)}"
        case ActiveCondition():
            return "Active in the window" if condition.active else "Not active in the window"
        case InsightCondition():
            return f"{INSIGHT_LABELS[condition.has]} “{INSIGHTS[condition.insight].label}”"
        case ActivityCondition():
            return f"Activity: {ACTIVITY_LABELS[condition.state]}"
        case ChanceCondition():
            operator = CHANCE_OPERATOR_LABELS[condition.operator]
            return f"{CHANCE_LABELS[condition.chance]} {operator} {condition.percent}%"
        case OwnerCondition():
            owner = f" “{condition.owner}”" if condition.owner else ""
            return f"Owner {OWNER_OPERATOR_LABELS[condition.operator]}{owner}"
        case TagCondition():
            return f"{TAG_LABELS[condition.has].capitalize()} the tag “{condition.tag}”"
        case ActivationCondition():
            at = f" at “{condition.step}”" if condition.step else ""
            return f"Activation: {ACTIVATION_LABELS[condition.state]}{at}"


def _trait(condition: TraitCondition) -> str:
    operator = f"“{condition.trait}” {TRAIT_OPERATOR_LABELS[condition.operator]}"
    match condition.value:
        case None:
            return operator
        case str() if condition.operator in ("before", "after"):
            return f"{operator} {condition.value}"
        case str():
            return f"{operator} “{condition.value}”"
        case number:
            return f"{operator} {_number(number)}"


def license_event_label(type: str) -> str:
    """What people call the type. One of a newer release is shown as it is stored."""
    return license_events.labels().get(type, type)


def _within(days: int | None) -> str:
    return "ever" if days is None else f"within {_days(days)}"


def _event(condition: EventCondition) -> str:
    within = _within(condition.within_days)
    if condition.operator == "not_done":
        return f"Event “{condition.event}” not done {within}"
    times = "" if condition.times == 1 else f" at least {condition.times:,} times"
    return f"Event “{condition.event}” done{times} {within}"


def _feature(condition: FeatureCondition) -> str:
    feature, days = f"Feature “{condition.feature}”", _days(condition.within_days)
    match condition.operator:
        case "uses":
            return f"{feature} used within {days}"
        case "stopped":
            return f"{feature} used before, but not within {days}"
    return f"{feature} never used"


def _when(condition: LastActiveCondition | FirstSeenCondition | CreatedCondition) -> str:
    days = "the window" if condition.days == "window" else _days(condition.days)
    if condition.operator == "within_days":
        return f"within {days}"
    return f"before {days}" if condition.days == "window" else f"more than {days} ago"


def _days(days: int) -> str:
    return "1 day" if days == 1 else f"{days:,} days"


def _metric_number(metric: MetricName, number: Number) -> str:
    return f"{_number(to_percent(number))}%" if METRICS[metric].is_share else _number(number)


def _number(number: Number) -> str:
    text = f"{number:,}" if isinstance(number, int) else f"{number:,.15g}"
    return text.replace("-", "\N{MINUS SIGN}")
