"""Segments: their members, how many there are, and which segments contain a subject.

Members are a query over the engagement rows of a score set, as of its ``scored_day``. So they
always agree with the metrics that people see. Nothing is stored.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from django.db.models import Case, Count, Q, QuerySet, Value, When

from engagement.activity.reading import activity_filter
from engagement.metric_names import BOTH_SCOPES, MetricName, Scope
from engagement.models import AccountEngagement, ScoreSet, Segment, UserEngagement, Workspace
from engagement.rules.filters import (
    QueryContext,
    ScoreCondition,
    find_event_name_ids,
    rule_filter,
)
from engagement.rules.rules import (
    ActivationCondition,
    ActivityCondition,
    ChanceCondition,
    Condition,
    InsightCondition,
    InvalidRule,
    MetricCondition,
    Rule,
    parse_rule,
)
from engagement.rules.trait_filters import null_safe_not
from engagement.scopes import SubjectKind, get_kind, kind_of
from engagement.segments import evaluation, metric_filters
from engagement.segments.activation import activation_filter
from engagement.segments.chances import chance_filter
from engagement.segments.insight_filters import insight_filter


def segment_rule(segment: Segment) -> Rule:
    """The segment's rule. Raises InvalidRule, but no form saves an invalid rule."""
    stored = {"match": segment.match, "conditions": segment.conditions}
    return parse_rule(stored, get_kind(segment.scope).scope)


def engagement_rows(score_set: ScoreSet, scope: Scope) -> QuerySet[Any]:
    """The set's engagement rows of users or accounts."""
    return get_kind(scope).engagement_rows(score_set)


def members_filter(score_set: ScoreSet, rule: Rule) -> Q:
    """The filter that selects the rule's members among the set's engagement rows.

    One query looks up the event names in the rule, if there are any.
    """
    (filter_,) = _filters(score_set, get_kind(rule.scope), [rule])
    return filter_


def count_members(score_set: ScoreSet, rule: Rule) -> int:
    rows = get_kind(rule.scope).engagement_rows(score_set)
    return rows.filter(members_filter(score_set, rule)).count()


def count_members_by_rule(score_set: ScoreSet, rules: Sequence[Rule]) -> list[int]:
    """The number of members of each of the rules, which have one scope. One pass over the rows."""
    kind = get_kind(rules[0].scope)
    filters = _filters(score_set, kind, rules)
    totals = kind.engagement_rows(score_set).aggregate(
        **{
            f"rule_{number}": Count(Case(When(filter_, then=Value(1))))
            for number, filter_ in enumerate(filters)
        }
    )
    return [totals[f"rule_{number}"] for number in range(len(rules))]


def count_members_by_segment(score_set: ScoreSet, segments: Iterable[Segment]) -> dict[int, int]:
    """The number of members of each segment, by its id. One pass over the rows of each scope."""
    segments, counts = list(segments), dict[int, int]()
    for scope in BOTH_SCOPES:
        own = [segment for segment in segments if segment.scope == scope]
        if own:
            totals = count_members_by_rule(score_set, [segment_rule(segment) for segment in own])
            counts |= {segment.pk: total for segment, total in zip(own, totals, strict=True)}
    return counts


def segments_containing(
    score_set: ScoreSet, segments: Sequence[Segment], row: UserEngagement | AccountEngagement
) -> list[Segment]:
    """The *segments* of the set's workspace whose members include the subject of *row*.

    Takes one query, and another one for the event names in the rules.
    """
    kind = kind_of(row)
    own = [segment for segment in segments if segment.scope == kind.scope]
    if not own:
        return []
    rules = [segment_rule(segment) for segment in own]
    event_name_ids = find_event_name_ids(_conditions(rules), score_set.product_id)
    subject_row = kind.engagement_rows(score_set).filter(**{kind.id_column: kind.subject_id(row)})
    matches = evaluation.evaluate_rules(
        subject_row, rules, score_set, _context(score_set, kind), event_name_ids
    )
    return [segment for segment, is_member in zip(own, matches, strict=True) if is_member]


def moved_values(rule: Rule, before: ScoreSet, after: ScoreSet) -> list[tuple[MetricName, range]]:
    """The metrics that compare subjects with others, with the values that meet a condition of the
    rule by the numbers of one of two states of a set only."""
    context = _context(after, get_kind(rule.scope))
    return [
        (condition.metric, values)
        for condition in rule.conditions
        if isinstance(condition, MetricCondition)
        for values in metric_filters.moved_values(condition, before, after, context)
    ]


def metric_within(score_set: ScoreSet, scope: Scope, metric: MetricName, values: range) -> Q:
    """Keeps the engagement rows whose metric is among the values, before it is rounded."""
    return metric_filters.within(metric, values, score_set, _context(score_set, get_kind(scope)))


def _filters(score_set: ScoreSet, kind: SubjectKind, rules: Sequence[Rule]) -> list[Q]:
    context = _context(score_set, kind)
    event_name_ids = find_event_name_ids(_conditions(rules), score_set.product_id)
    score_filter = partial(_score_filter, score_set=score_set, context=context)
    return [rule_filter(rule, context, event_name_ids, score_filter) for rule in rules]


def _score_filter(condition: ScoreCondition, score_set: ScoreSet, context: QueryContext) -> Q:
    if isinstance(condition, InsightCondition):
        matches = insight_filter(condition.insight, score_set)
        return matches if condition.has else null_safe_not(matches)
    if isinstance(condition, ActivityCondition):
        return activity_filter(score_set, condition.state)
    if isinstance(condition, ChanceCondition):
        return chance_filter(condition, score_set)
    if isinstance(condition, ActivationCondition):
        return activation_filter(condition, score_set, get_kind(context.scope), context.today)
    return metric_filters.score_filter(condition, score_set, context)


def _conditions(rules: Sequence[Rule]) -> list[Condition]:
    return [condition for rule in rules for condition in rule.conditions]


def _context(score_set: ScoreSet, kind: SubjectKind) -> QueryContext:
    assert score_set.scored_day is not None, "A set that readers see has been scored."
    return QueryContext(
        scope=kind.scope,
        product_id=score_set.product_id,
        today=score_set.scored_day,
        lookback_days=score_set.lookback_days,
        subject_path=kind.path,
        subject_id_column=kind.id_column,
        audience_set_id=score_set.pk if score_set.audience else None,
        has_half_life=score_set.half_life_days is not None,
    )


def usable_segments(workspace: Workspace, scope: Scope) -> list[Segment]:
    """The workspace's segments that have a valid rule. Others have no members."""
    rows = Segment.objects.filter(workspace=workspace, scope=scope)
    return [segment for segment in rows if _is_usable(segment)]


def _is_usable(segment: Segment) -> bool:
    try:
        segment_rule(segment)
    except InvalidRule:
        return False
    return True
