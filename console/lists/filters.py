"""The filters of a list: what they keep, and what the chips and menus above the table say."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, cast

from django.db.models import Q

from access.pages.subject_urls import SEGMENT_PARAM
from console.lists.state import (
    ACTIVATION_PATTERN,
    ACTIVE_PATTERN,
    CHANCE_PATTERN,
    FEATURE_PATTERN,
    LICENSE_EVENT_PATTERN,
    ME,
    NOBODY,
    TRAIT_FILTER,
    InvalidAddress,
    ListState,
)
from engagement.activity.reading import listed_activity_filter, listed_insight_filter
from engagement.insight_kinds import ACTIVITY_LABELS, INSIGHTS, InsightKind
from engagement.license_traits import LICENSE_STATUS_TRAIT, LICENSE_TYPE_TRAIT
from engagement.models import ScoreSet, Segment
from engagement.models.features import USED_WITHIN
from engagement.money import MRR_LABEL, MRR_TRAIT, format_cents
from engagement.orders.columns import CHANCE_COLUMNS
from engagement.rules import license_events
from engagement.rules.rules import (
    ActivationCondition,
    ActivationState,
    ActivityCondition,
    ChanceCondition,
    ChanceName,
    InsightCondition,
    InvalidRule,
    Rule,
    parse_rule,
)
from engagement.rules.texts import ACTIVATION_LABELS, CHANCE_LABELS, license_event_label
from engagement.scopes import get_kind
from engagement.segments import members
from engagement.segments.activation import listed_activation_filter
from engagement.segments.chances import candidates_filter
from engagement.segments.insight_filters import INSIGHT_KINDS, insight_filter

NO_LICENSE = "none"
# Of a menu. The page of the segments has all of them.
MAX_CHOICES = 40
# What the marketplace reports. The list of a product does not wait for a count of its values.
LICENSE_TYPES = {
    "COMMERCIAL": "Commercial",
    "EVALUATION": "Evaluation",
    "ACADEMIC": "Academic",
    "COMMUNITY": "Community",
    "OPEN_SOURCE": "Open source",
    "STARTER": "Starter",
    "DEMONSTRATION": "Demonstration",
    "FREE": "Free",
    NO_LICENSE: "No license",
}
_ACTIVITIES: dict[str, str] = {
    state: label.capitalize() for state, label in ACTIVITY_LABELS.items()
}
_INSIGHT_LABELS: dict[str, str] = {kind: info.label for kind, info in INSIGHTS.items()}
_CHANCES = ("below-10", "below-30", "below-50", "at_least-50", "at_least-70", "at_least-90")
_FEATURE_USES = {
    "uses": f"Used in the last {USED_WITHIN} days",
    "stopped": "Stopped",
    "never": "Never used",
}
_EVENT_DAYS = (7, 30, 90, 365)
LICENSE_STATUSES = {"active": "Active", "inactive": "Inactive", "cancelled": "Cancelled"}
NO_MRR = "none"
# In cents.
_LEAST_MRR = (100_00, 1_000_00, 10_000_00, 100_000_00)
ACTIVE_CHOICES = (
    "within-1",
    "within-7",
    "within-30",
    "within-90",
    "before-7",
    "before-14",
    "before-30",
    "before-90",
    "never",
)


@dataclass(frozen=True)
class Chip:
    """A filter that is set, and the query of the list without it."""

    name: str
    label: str
    query: str


@dataclass(frozen=True)
class Choice:
    """``value`` is that of the filter's parameter; empty for no filter."""

    value: str
    label: str
    is_chosen: bool = False


@dataclass(frozen=True)
class Menu:
    """A filter with its choices. ``choice`` is the label of the one that is set, or empty."""

    name: str
    label: str
    choices: Sequence[Choice]
    choice: str = ""
    is_cut: bool = False


# --- What the filters keep ------------------------------------------------------------------


def check(state: ListState) -> None:
    """Raise InvalidAddress for a filter that means nothing."""
    list_rule(state)
    if state.filters.get("insight", INSIGHT_KINDS[0]) not in INSIGHT_KINDS:
        raise InvalidAddress


def list_filter(state: ListState, score_set: ScoreSet, segment: Segment | None) -> Q:
    """The filter on engagement rows, without the search."""
    rule = list_rule(state)
    listed = ActivityCondition | ActivationCondition
    others = [each for each in rule.conditions if not isinstance(each, listed)]
    matches = members.members_filter(score_set, Rule(rule.scope, rule.match, tuple(others)))
    for condition in rule.conditions:
        match condition:
            case ActivityCondition():
                matches &= listed_activity_filter(score_set, condition.state)
            case ChanceCondition():
                matches &= candidates_filter(condition, score_set)
            case ActivationCondition():
                kind_of_list, today = get_kind(rule.scope), score_set.scored_day or date.min
                matches &= listed_activation_filter(condition, score_set, kind_of_list, today)
    if segment is not None:
        matches &= members.members_filter(score_set, members.segment_rule(segment))
    if kind := state.filters.get("insight"):
        matches &= insight_filter(cast(InsightKind, kind), score_set)
        matches &= listed_insight_filter(score_set, kind)
    if state.filters.get("active") == "never":
        matches &= Q(last_active_at__isnull=True)
    return matches


def list_rule(state: ListState) -> Rule:
    """The conditions that all filters but those of the segment and the insight stand for."""
    try:
        return parse_rule({"conditions": list(_conditions(state))}, state.scope)
    except InvalidRule as error:
        raise InvalidAddress from error


def _conditions(state: ListState) -> Iterator[dict[str, Any]]:
    for name, value in state.filters.items():
        if name == "license_type" and value == NO_LICENSE:
            yield {"kind": "trait", "trait": LICENSE_TYPE_TRAIT, "operator": "is_not_set"}
        elif name == "license_type":
            yield _trait_is(LICENSE_TYPE_TRAIT, value)
        elif name == "activity":
            yield {"kind": "activity", "state": value}
        elif name == "owner" and value == NOBODY:
            yield {"kind": "owner", "operator": "is_not_set"}
        elif name == "owner":
            yield {"kind": "owner", "operator": "is", "owner": value}
        elif name == "tag":
            yield {"kind": "tag", "tag": value}
        elif name == "license_status":
            yield _trait_is(LICENSE_STATUS_TRAIT, value)
        elif name == "license_event":
            event, days = _license_event(value)
            yield {"kind": name, "event": event, "operator": "happened", "within_days": days}
        elif name in CHANCE_COLUMNS:
            operator, percent = _chance(value)
            chance = CHANCE_COLUMNS[name]
            yield {"kind": "chance", "chance": chance, "operator": operator, "percent": percent}
        elif name == "feature":
            operator, feature = _feature(value)
            yield {"kind": name, "feature": feature, "operator": operator}
        elif name == "activation":
            activation, step = _activation(value)
            yield {"kind": name, "state": activation, "step": step}
        elif name == "mrr" and value == NO_MRR:
            yield {"kind": "trait", "trait": MRR_TRAIT, "operator": "is_not_set"}
        elif name == "mrr":
            yield {
                "kind": "trait",
                "trait": MRR_TRAIT,
                "operator": "at_least",
                "value": _least_mrr(value),
            }
        elif name.startswith(TRAIT_FILTER):
            yield _trait_is(name.removeprefix(TRAIT_FILTER), value)
        elif name == "active" and (match := ACTIVE_PATTERN.fullmatch(value)) and match[1]:
            operator = "within_days" if match[1] == "within" else "more_than_days_ago"
            yield {"kind": "last_active", "operator": operator, "days": int(match[2])}


def _license_event(value: str) -> tuple[str, int | None]:
    """The type of the event and the number of days that the filter's value says."""
    match = LICENSE_EVENT_PATTERN.fullmatch(value)
    if match is None:
        raise InvalidAddress
    return match[1], int(match[2]) if match[2] else None


def _feature(value: str) -> tuple[str, str]:
    """Whether it is used, and the name of the feature, that the filter's value says."""
    match = FEATURE_PATTERN.fullmatch(value)
    if match is None:
        raise InvalidAddress
    return match[1], match[2]


def _activation(value: str) -> tuple[ActivationState, str | None]:
    """The state, and the step that the filter's value names."""
    match = ACTIVATION_PATTERN.fullmatch(value)
    if match is None:
        raise InvalidAddress
    return cast(ActivationState, match[1]), match[2]


def _chance(value: str) -> tuple[str, int]:
    """The comparison, and the percentage that the filter's value says."""
    match = CHANCE_PATTERN.fullmatch(value)
    if match is None:
        raise InvalidAddress
    return match[1], int(match[2])


def _describe_chance(value: str) -> str:
    operator, percent = _chance(value)
    return f"{'Below' if operator == 'below' else 'At least'} {percent}%"


def _least_mrr(value: str) -> int:
    """The amount in cents that the filter's value says."""
    if not re.fullmatch("[0-9]{1,15}", value, re.ASCII):
        raise InvalidAddress
    return int(value)


def _trait_is(trait: str, value: str) -> dict[str, Any]:
    return {"kind": "trait", "trait": trait, "operator": "is", "value": value}


def segment_rule_of(state: ListState, segment: Segment | None) -> Rule | None:
    """The rule of a segment with the list's rows; None if a rule cannot say what the list keeps.

    A rule has no search and no "never active", and it cannot add conditions to any of several.
    """
    if state.search or not state.filters or state.filters.get("active") == "never":
        return None
    conditions = list(list_rule(state).conditions)
    if kind := state.filters.get("insight"):
        conditions.append(InsightCondition(insight=cast(InsightKind, kind), has=True))
    if segment is None:
        return Rule(state.scope, "all", tuple(conditions))
    rule = members.segment_rule(segment)
    if not conditions:
        return rule
    is_joined = rule.match == "all" or len(rule.conditions) < 2
    return Rule(state.scope, "all", (*rule.conditions, *conditions)) if is_joined else None


# --- What the page says ---------------------------------------------------------------------


def chips(state: ListState, segment: Segment | None) -> list[Chip]:
    """The filters that are set."""
    texts = {name: _describe(name, value, segment) for name, value in state.filters.items()}
    return [Chip(name, text, state.without_filter(name)) for name, text in texts.items()]


def _describe(name: str, value: str, segment: Segment | None) -> str:
    if name == SEGMENT_PARAM:
        return f"Segment: {segment}"
    if name == "insight":
        return f"Insight: {_INSIGHT_LABELS[value]}"
    if name == "owner":
        return f"Owner: {'nobody' if value == NOBODY else value}"
    if name == "tag":
        return f"Tag: {value}"
    if name == "activity":
        return f"Activity: {_ACTIVITIES[value].lower()}"
    if name == "license_type":
        return f"License: {LICENSE_TYPES.get(value, value)}"
    if name == "license_status":
        return f"License status: {LICENSE_STATUSES.get(value, value)}"
    if name == "license_event":
        event, days = _license_event(value)
        label = license_event_label(event)
        return f"License event: {label}" + (f", {_in_days(days).lower()}" if days else "")
    if name in CHANCE_COLUMNS:
        return f"{CHANCE_LABELS[CHANCE_COLUMNS[name]]}: {_describe_chance(value).lower()}"
    if name == "feature":
        operator, feature = _feature(value)
        return f"Feature: {feature}, {_FEATURE_USES[operator].lower()}"
    if name == "activation":
        return f"Activation: {_describe_activation(value).lower()}"
    if name == "mrr":
        return f"{MRR_LABEL}: {_describe_mrr(value).lower()}"
    if name == "active":
        return f"Last active: {describe_active(value).lower()}"
    return f"{name.removeprefix(TRAIT_FILTER)}: {value}"


def _describe_mrr(value: str) -> str:
    return "None" if value == NO_MRR else f"At least {format_cents(int(value))}"


def _describe_activation(value: str) -> str:
    state, step = _activation(value)
    return ACTIVATION_LABELS[state].capitalize() + (f" at “{step}”" if step else "")


def insight_label(state: ListState) -> str:
    """The insight that the list is filtered by; empty without one."""
    return _INSIGHT_LABELS.get(state.filters.get("insight", ""), "")


def describe_active(value: str) -> str:
    match = ACTIVE_PATTERN.fullmatch(value)
    if match is None or match[1] is None:
        return "Never"
    if match[1] == "within":
        return _in_days(int(match[2]))
    return f"More than {'day' if match[2] == '1' else f'{match[2]} days'} ago"


def _in_days(days: int) -> str:
    return "In the last day" if days == 1 else f"In the last {days} days"


def menus(
    state: ListState,
    segments: Sequence[Segment],
    chances: Sequence[ChanceName] = (),
    features: Sequence[str] = (),
    owners: Mapping[str, str] = {},
    tags: Sequence[str] = (),
    steps: Sequence[str] = (),
) -> list[Menu]:
    """The filters that are chosen from a menu; of *chances*, those that accounts have, the
    *features*, *owners*, and *tags* of the product, and the *steps* of the workspace."""
    offers = [_menu(state, SEGMENT_PARAM, "Segment", [(str(s.pk), s.name) for s in segments])]
    if state.scope == "account":
        of_nobody = [(ME, "Me"), (NOBODY, "Nobody")]
        offers.append(_menu(state, "owner", "Owner", [*of_nobody, *owners.items()]))
        if tags:
            offers.append(_menu(state, "tag", "Tag", [(tag, tag) for tag in tags]))
        offers.append(_menu(state, "insight", "Insight", list(_INSIGHT_LABELS.items())))
        offers.append(_menu(state, "activity", "Activity", list(_ACTIVITIES.items())))
        offers.append(_menu(state, "license_type", "License", list(LICENSE_TYPES.items())))
        statuses = list(LICENSE_STATUSES.items())
        offers.append(_menu(state, "license_status", "License status", statuses))
        offers += _license_event_menus(state)
        offers += [
            _menu(state, column, CHANCE_LABELS[name], _chance_options(state.filters.get(column)))
            for column, name in CHANCE_COLUMNS.items()
            if name in chances or column in state.filters
        ]
        amounts = [(value, _describe_mrr(value)) for value in (*map(str, _LEAST_MRR), NO_MRR)]
        offers.append(_menu(state, "mrr", MRR_LABEL, amounts))
    offers += _feature_menus(state, features)
    offers += _activation_menus(state, steps)
    times = [(value, describe_active(value)) for value in ACTIVE_CHOICES]
    offers.append(_menu(state, "active", "Last active", times))
    return offers


def _chance_options(current: str | None) -> list[tuple[str, str]]:
    values = dict.fromkeys([*_CHANCES, current or _CHANCES[0]])
    return [(value, _describe_chance(value)) for value in values]


def _feature_menus(state: ListState, features: Sequence[str]) -> Iterator[Menu]:
    """The feature, and once that is chosen, whether it is used."""
    name = "feature"
    operator, current = _feature(state.filters[name]) if name in state.filters else ("uses", "")
    if features or current:
        names = dict.fromkeys([*features, *filter(None, [current])])
        yield _menu(state, name, "Feature", [(f"{operator}-{each}", each) for each in names])
    if current:
        uses = [(f"{each}-{current}", text) for each, text in _FEATURE_USES.items()]
        menu = _menu(state, name, "Use", uses)
        yield replace(menu, choices=menu.choices[1:])


def _activation_menus(state: ListState, steps: Sequence[str]) -> Iterator[Menu]:
    current = state.filters.get("activation")
    values = ["activated", "on_the_way", "stuck", *(f"stuck-{step}" for step in steps)]
    if steps or current:
        values = list(dict.fromkeys([*values, current or "stuck"]))
        options = [(value, _describe_activation(value)) for value in values]
        yield _menu(state, "activation", "Activation", options)


def _license_event_menus(state: ListState) -> Iterator[Menu]:
    """What happened, and once that is chosen, within how many days."""
    name = "license_event"
    event, days = _license_event(state.filters[name]) if name in state.filters else ("", None)
    suffix = f"-{days}" if days else ""
    types = license_events.labels().items()
    yield _menu(state, name, "License event", [(f"{type}{suffix}", text) for type, text in types])
    if event:
        times = [(f"{event}-{number}", _in_days(number)) for number in _EVENT_DAYS]
        ever = Choice(event, "Ever", is_chosen=days is None)
        menu = _menu(state, name, "Happened", times)
        choice = _in_days(days) if days else "Ever"
        yield replace(menu, choices=[ever, *menu.choices[1:]], choice=choice)


def _menu(state: ListState, name: str, label: str, options: Sequence[tuple[str, str]]) -> Menu:
    current = state.filters.get(name, "")
    choices = [Choice("", "All", not current)]
    choices += [Choice(value, text, value == current) for value, text in options[:MAX_CHOICES]]
    chosen_label = dict(options).get(current, current)
    return Menu(
        name,
        label,
        choices,
        describe_active(current) if name == "active" and current else chosen_label,
        is_cut=name == SEGMENT_PARAM and len(options) > MAX_CHOICES,
    )
