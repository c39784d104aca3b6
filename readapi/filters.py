"""The filters of lists: parameters become conditions on ranked rows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

from django.db.models import QuerySet

from engagement.activity.reading import listed_activity_filter, listed_insight_filter
from engagement.insight_kinds import ACTIVITY_LABELS, ActivityState, InsightKind
from engagement.metric_names import Scope
from engagement.models import Segment, Workspace
from engagement.rules import license_events
from engagement.rules.rules import (
    MAX_DAYS,
    MAX_TEXT_LENGTH,
    MAX_TRAIT_NAME_LENGTH,
    Condition,
    LicenseEventCondition,
    MetricCondition,
    OwnerCondition,
    Rule,
    TagCondition,
    TraitCondition,
)
from engagement.segments.insight_filters import INSIGHT_KINDS, insight_filter
from engagement.segments.members import members_filter
from readapi import parameters, queries
from readapi.errors import InvalidRequest
from readapi.parameters import Lookup, Parameters

# Instead of a login, for accounts that nobody owns.
NOBODY = ":nobody"
# Each finds all subjects with this value.
LOOKUPS: dict[Scope, tuple[str, ...]] = {
    "account": ("tracking_id", "name", "domain"),
    "user": ("tracking_id", "name", "email"),
}


@dataclass(frozen=True)
class ListFilter:
    """What a request narrows a list of users or accounts to."""

    scope: Scope
    lookups: tuple[Lookup, ...] = ()
    conditions: tuple[Condition, ...] = ()
    activity: ActivityState | None = None
    insight: InsightKind | None = None
    segment: Segment | None = None

    @property
    def is_segment_only(self) -> bool:
        return self.segment is not None and not replace(self, segment=None)

    def __bool__(self) -> bool:
        return self != ListFilter(self.scope)

    def within(self, segment: Segment | None) -> "ListFilter":
        """The same filter, for members of the segment. Raises InvalidRequest for another scope."""
        if segment is not None and segment.scope != self.scope:
            raise InvalidRequest(
                "invalid_parameter",
                f"This is a segment of {segment.scope}s. Name one of {self.scope}s here, or read "
                f"/v2/{segment.scope}s.",
                "segment_id",
            )
        return replace(self, segment=segment)

    def apply(self, rows: QuerySet[Any], workspace: Workspace) -> QuerySet[Any]:
        """Those of *rows*, ranked rows of the workspace, that match."""
        if self.segment is not None:
            rows = queries.members(rows, workspace, self.segment)
        for lookup in self.lookups:
            rows = queries.matches(rows, workspace, self.scope, lookup)
        if self.insight is not None and workspace.scores is not None:
            rows = rows.filter(insight_filter(self.insight, workspace.scores))
            rows = rows.filter(listed_insight_filter(workspace.scores, self.insight))
        if self.activity is not None and workspace.scores is not None:
            rows = rows.filter(listed_activity_filter(workspace.scores, self.activity))
        if self.conditions and workspace.scores is not None:
            rule = Rule(self.scope, "all", self.conditions)
            rows = rows.filter(members_filter(workspace.scores, rule))
        return rows


def parse(query: Parameters, scope: Scope) -> ListFilter:
    """The filter that the parameters ask for, without the segment."""
    lookups = tuple(
        Lookup(name, value) for name in LOOKUPS[scope] if (value := parameters.text(query, name))
    )
    conditions: list[Condition] = []
    if min_score := parameters.score(query, "min_score"):
        conditions.append(MetricCondition("engagement_score", "at_least", min_score))
    conditions += [_trait_condition(*pair) for pair in parameters.traits_equal(query)]
    conditions += _license_event_conditions(query)
    conditions += _work_conditions(query)
    activity = parameters.choice(query, "activity", tuple(ACTIVITY_LABELS))
    insight = parameters.choice(query, "insight", INSIGHT_KINDS)
    return ListFilter(
        scope,
        lookups,
        tuple(conditions),
        cast(ActivityState | None, activity),
        cast(InsightKind | None, insight),
    )


def _work_conditions(query: Parameters) -> Iterator[OwnerCondition | TagCondition]:
    conditions: list[OwnerCondition | TagCondition] = []
    if owner := parameters.text(query, "owner"):
        is_nobody = owner == NOBODY
        conditions += [OwnerCondition("is_not_set") if is_nobody else OwnerCondition("is", owner)]
    if tag := parameters.text(query, "tag"):
        conditions += [TagCondition(tag)]
    for condition in conditions:
        for field, message in condition.problems("account"):
            raise InvalidRequest("invalid_parameter", message, field)
        yield condition


def _license_event_conditions(query: Parameters) -> Iterator[LicenseEventCondition]:
    if query.keys().isdisjoint(("license_event", "license_event_days")):
        return
    event = parameters.choice(query, "license_event", tuple(license_events.labels()))
    days = parameters.id_number(query, "license_event_days")
    if event is not None and (days is None or days <= MAX_DAYS):
        yield LicenseEventCondition(event, "happened", days)
    elif days is not None:
        raise InvalidRequest(
            "invalid_parameter",
            f"license_event_days goes with license_event, and is at most {MAX_DAYS:,}.",
            "license_event_days",
        )


def _trait_condition(name: str, value: str) -> TraitCondition:
    if len(name) > MAX_TRAIT_NAME_LENGTH or len(value) > MAX_TEXT_LENGTH:
        raise InvalidRequest(
            "invalid_parameter",
            f"trait takes a name of at most {MAX_TRAIT_NAME_LENGTH} characters and a value of at "
            f"most {MAX_TEXT_LENGTH}.",
            "trait",
        )
    return TraitCondition(name, "is", value)
