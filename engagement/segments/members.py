"""Segments: who their members are, how many, and which segments a subject is in.

Members are a query over the engagement rows of a set of scores, as of its ``scored_day``, so they
agree with the metrics that are shown. Nothing is stored.
"""

from collections.abc import Sequence
from typing import Any

from django.db.models import Case, Count, F, Q, QuerySet, Value, When

from engagement.metric_names import BOTH_SCOPES, Scope
from engagement.models import AccountEngagement, ScoreSet, Segment, UserEngagement
from engagement.rules.filters import (
    QueryContext,
    combine,
    find_event_name_ids,
    is_before_window,
    time_filter,
    unscored_filter,
)
from engagement.rules.rules import (
    ActiveCondition,
    Condition,
    LastActiveCondition,
    MetricCondition,
    Rule,
    TrendCondition,
    parse_rule,
)
from engagement.segments import evaluation, metric_filters


def segment_rule(segment: Segment) -> Rule:
    """The segment's rule. Raises UnusableRule where it is none, which no form lets through."""
    stored = {"match": segment.match, "conditions": segment.conditions}
    return parse_rule(stored, "user" if segment.scope == Segment.Scope.USER else "account")


def engagement_rows(score_set: ScoreSet, scope: Scope) -> QuerySet[Any]:
    """The rows of the set's users or accounts."""
    model = UserEngagement if scope == "user" else AccountEngagement
    return model._default_manager.filter(product_id=score_set.product_id, score_set=score_set)


def members_filter(score_set: ScoreSet, rule: Rule) -> Q:
    """What the rule asks of the set's rows of its scope: filter ``UserEngagement`` or
    ``AccountEngagement`` rows of this set by it.

    One query finds the event names that the rule names, if any.
    """
    return _met(rule, score_set, _place(score_set, rule.scope, rule.conditions))


def count_members(score_set: ScoreSet, rule: Rule) -> int:
    """How many members a rule has."""
    return engagement_rows(score_set, rule.scope).filter(members_filter(score_set, rule)).count()


def count_members_by_segment(score_set: ScoreSet, segments: Sequence[Segment]) -> dict[int, int]:
    """How many members each of the segments has, by its id: one pass over each scope's rows."""
    found: dict[int, int] = {}
    for scope in BOTH_SCOPES:
        asked = [segment for segment in segments if segment.scope == scope]
        if asked:
            met = _met_by_name(score_set, scope, asked)
            of = {name: Count(Case(When(q, then=Value(1)))) for name, q in met.items()}
            totals = engagement_rows(score_set, scope).aggregate(**of)
            found |= {segment.pk: totals[_name(segment)] for segment in asked}
    return found


def segments_containing(
    score_set: ScoreSet, segments: Sequence[Segment], row: UserEngagement | AccountEngagement
) -> list[Segment]:
    """Those of the *segments* of the set's workspace that have the subject of *row* as a member.

    One query, besides one for the event names that the segments name.
    """
    scope: Scope = "user" if isinstance(row, UserEngagement) else "account"
    asked = [segment for segment in segments if segment.scope == scope]
    if not asked:
        return []
    rules = [segment_rule(segment) for segment in asked]
    place = _place(score_set, scope, [one for rule in rules for one in rule.conditions])
    subject_id = getattr(row, f"{scope}_id")
    of_subject = engagement_rows(score_set, scope).filter(**{f"{scope}_id": subject_id})
    met = evaluation.evaluate_rules(of_subject, rules, score_set, place)
    return [segment for segment, is_met in zip(asked, met, strict=True) if is_met]


def _met_by_name(score_set: ScoreSet, scope: Scope, segments: Sequence[Segment]) -> dict[str, Q]:
    rules = {_name(segment): segment_rule(segment) for segment in segments}
    named = [condition for rule in rules.values() for condition in rule.conditions]
    place = _place(score_set, scope, named)
    return {name: _met(rule, score_set, place) for name, rule in rules.items()}


def _name(segment: Segment) -> str:
    return f"segment_{segment.pk}"


def _place(score_set: ScoreSet, scope: Scope, asked: Sequence[Condition]) -> QueryContext:
    assert score_set.scored_day is not None, "A set that readers see has been scored."
    return QueryContext(
        scope=scope,
        product_id=score_set.product_id,
        today=score_set.scored_day,
        lookback_days=score_set.lookback_days,
        path=f"{scope}__",
        id=f"{scope}_id",
        audience=score_set.pk if score_set.audience else None,
        event_names=find_event_name_ids(asked, score_set.product_id),
    )


def _met(rule: Rule, score_set: ScoreSet, place: QueryContext) -> Q:
    met = [_condition_met(condition, score_set, place) for condition in rule.conditions]
    return combine(rule.match, met)


def _condition_met(condition: Condition, score_set: ScoreSet, place: QueryContext) -> Q:
    match condition:
        case MetricCondition():
            return metric_filters.metric_filter(condition, score_set, place)
        case TrendCondition():
            return metric_filters.trend_filter(condition, score_set, place)
        case LastActiveCondition():
            return _last_active(condition, place)
        case ActiveCondition():
            return Q(raw__gt=0) if condition.active else Q(raw=0)
    return unscored_filter(condition, place)


def _last_active(condition: LastActiveCondition, place: QueryContext) -> Q:
    met = time_filter(condition, F("last_active_at"), place)
    if is_before_window(condition, place):
        # Whoever was last active before the window has no points in it. Said for the planner: the
        # indexes user_idle and account_idle hold those without points.
        met &= Q(raw=0)
    return met
