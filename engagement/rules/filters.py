"""Turns rules into filters on subjects. This is the only place that does.

``rule_filter()`` handles every condition that needs no scores. A caller whose rules compare scores
passes a function that handles those (``engagement.segments.metric_filters``).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, TypeAlias

from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Subquery, Sum, Value, When
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce
from django.db.models.lookups import GreaterThanOrEqual, LessThan

from engagement.metric_names import Scope
from engagement.models import AccountWork, DailyCount, EventName, UserEngagement
from engagement.rules import license_events, trait_filters
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
from engagement.rules.trait_filters import start_of_day
from engagement.scopes import get_kind

TimeCondition: TypeAlias = LastActiveCondition | FirstSeenCondition | CreatedCondition
ScoreCondition: TypeAlias = (
    MetricCondition
    | TrendCondition
    | InsightCondition
    | ActivityCondition
    | ChanceCondition
    | ActivationCondition
)
ScoreFilter: TypeAlias = Callable[[ScoreCondition], Q]


@dataclass(frozen=True)
class QueryContext:
    """What a filter needs to know about the query that it is part of.

    ``subject_path`` leads from the query's rows to the subject, and ``subject_id_column`` is the
    subject's id in them. ``audience_set_id`` is the score set whose users alone count for an
    account; None counts all identified users. With ``has_half_life``, subjects may have points of
    events before the window, so points do not tell who is active.
    """

    scope: Scope
    product_id: int
    today: date
    lookback_days: int
    subject_path: str
    subject_id_column: str
    audience_set_id: int | None
    has_half_life: bool = False

    @property
    def active_column(self) -> str:
        """The column of engagement rows that is above zero for active subjects."""
        return "event_count" if self.has_half_life else "raw"


# By an event's name, or by a feature: what their conditions name.
EventNameIds: TypeAlias = dict[EventCondition | FeatureCondition, tuple[int, ...]]


def audience_filter(rule: Rule, product_id: int, today: date) -> Q:
    """The filter on ``User`` rows for the rule of an audience. It is never NULL."""
    context = QueryContext("user", product_id, today, 0, "", "id", None)
    event_name_ids = find_event_name_ids(rule.conditions, product_id)
    matches = rule_filter(rule, context, event_name_ids)
    return Q(Case(When(matches, then=Value(True)), default=Value(False)))


def find_event_name_ids(conditions: Iterable[Condition], product_id: int) -> EventNameIds:
    """By condition, the ids of the event that it names, or of the events of its feature, as far as
    the product has seen them."""
    own = [each for each in conditions if isinstance(each, EventCondition | FeatureCondition)]
    if not own:
        return {}
    events = {each.event for each in own if isinstance(each, EventCondition)}
    features = {each.feature for each in own if isinstance(each, FeatureCondition)}
    rows = EventName.objects.filter(product_id=product_id).order_by("pk")
    named = rows.filter(name__in=events).values_list("name", "pk") if events else ()
    of_features = (
        rows.filter(feature__name__in=features).values_list("feature__name", "pk")
        if features
        else ()
    )
    return {
        each: tuple(pk for name, pk in named if name == each.event)
        if isinstance(each, EventCondition)
        else tuple(pk for name, pk in of_features if name == each.feature)
        for each in own
    }


def _no_scores(condition: ScoreCondition) -> Q:
    raise TypeError(f"{condition} needs scores.")


def rule_filter(
    rule: Rule,
    context: QueryContext,
    event_name_ids: EventNameIds,
    score_filter: ScoreFilter = _no_scores,
) -> Q:
    """The filter for the rule. It may be NULL for subjects that do not match."""
    if not rule.conditions:
        return Q(Value(True))
    filters = [
        _condition_filter(condition, context, event_name_ids, score_filter)
        for condition in rule.conditions
    ]
    return Q(*filters, _connector=Q.AND if rule.match == "all" else Q.OR)


def _condition_filter(
    condition: Condition,
    context: QueryContext,
    event_name_ids: EventNameIds,
    score_filter: ScoreFilter,
) -> Q:
    if isinstance(condition, ScoreCondition):
        return score_filter(condition)
    match condition:
        case TraitCondition():
            return subject_trait_filter(condition, context.subject_path)
        case EventCondition():
            return event_filter(condition, event_name_ids[condition], context)
        case FeatureCondition():
            return feature_filter(condition, event_name_ids[condition], context)
        case LicenseEventCondition():
            return license_event_filter(condition, context)
        case OwnerCondition() | TagCondition():
            return work_filter(condition, context)
        case FirstSeenCondition():
            return _time_filter(condition, F(f"{context.subject_path}first_seen_at"), context)
        case CreatedCondition():
            return _time_filter(condition, creation_time(context), context)
        case LastActiveCondition():
            return _last_active_filter(condition, context)
        case ActiveCondition():
            lookup = "__gt" if condition.active else ""
            return Q(**{f"{context.active_column}{lookup}": 0})


def subject_trait_filter(condition: TraitCondition, subject_path: str) -> Q:
    """The filter on a trait of the subject, or of its account."""
    owner = "account__" if isinstance(condition, AccountTraitCondition) else ""
    return trait_filters.trait_filter(condition, f"{subject_path}{owner}traits")


# --- Times ----------------------------------------------------------------------------------


def creation_time(context: QueryContext) -> Coalesce:
    """When the subject was created according to its traits, or else first seen."""
    return Coalesce(f"{context.subject_path}created_at", f"{context.subject_path}first_seen_at")


def period_start(condition: TimeCondition, context: QueryContext) -> datetime:
    """When the condition's days began."""
    return start_of_day(context.today, 1 - _days(condition, context))


def is_before_window(condition: LastActiveCondition, context: QueryContext) -> bool:
    """Whether the condition matches only subjects without a scored event in the window."""
    is_before = condition.operator == "more_than_days_ago"
    return is_before and _days(condition, context) >= context.lookback_days


def _days(condition: TimeCondition, context: QueryContext) -> int:
    return context.lookback_days if condition.days == "window" else condition.days


def _time_filter(condition: TimeCondition, column: Any, context: QueryContext) -> Q:
    start = period_start(condition, context)
    if condition.operator == "within_days":
        return Q(GreaterThanOrEqual(column, start))
    return Q(LessThan(column, start))


def _last_active_filter(condition: LastActiveCondition, context: QueryContext) -> Q:
    matches = _time_filter(condition, F("last_active_at"), context)
    if is_before_window(condition, context):
        # Redundant, but it lets the planner use the partial indexes user_idle and account_idle.
        matches &= Q(**{context.active_column: 0})
    return matches


# --- Events ---------------------------------------------------------------------------------

# Events are summed in a subquery for each subject, never for all subjects at once in a join. For a
# product without statistics the planner expects one row, and would repeat the joined part for each.


def event_filter(condition: EventCondition, ids: Sequence[int], context: QueryContext) -> Q:
    """The filter on daily counts of an event; *ids* has its own, or none for one never seen."""
    if not ids:
        return Q(Value(condition.operator == "not_done"))
    counts = subject_daily_counts(context).filter(event_name_id=ids[0])
    if condition.within_days is not None:
        first_day = start_of_day(context.today, 1 - condition.within_days).date()
        counts = counts.filter(day__range=(first_day, context.today))
    if condition.operator == "not_done":
        return Q(~Exists(counts))
    if condition.times == 1:
        return Q(Exists(counts))
    return Q(GreaterThanOrEqual(aggregate_subquery(counts, Sum("count")), condition.times))


def feature_filter(condition: FeatureCondition, ids: Sequence[int], context: QueryContext) -> Q:
    """The filter on daily counts of the events of a feature, which have these *ids*."""
    if not ids:
        return Q(Value(condition.operator == "never"))
    counts = subject_daily_counts(context).filter(event_name_id__in=ids)
    if condition.operator == "never":
        return Q(~Exists(counts))
    first_day = start_of_day(context.today, 1 - condition.within_days).date()
    uses = Exists(counts.filter(day__range=(first_day, context.today)))
    if condition.operator == "uses":
        return Q(uses)
    return Q(~uses) & Q(Exists(counts.filter(day__lt=first_day)))


def license_event_filter(condition: LicenseEventCondition, context: QueryContext) -> Q:
    """The filter on what happened to the licenses of the account."""
    events = license_events.events_of(context.product_id).filter(
        cloud_id=OuterRef(f"{context.subject_path}external_id"),
        type=condition.event,
        date__lte=context.today,
        withdrawn_at=None,
    )
    if condition.within_days is not None:
        first_day = start_of_day(context.today, 1 - condition.within_days).date()
        events = events.filter(date__gte=first_day)
    return Q(Exists(events)) if condition.operator == "happened" else Q(~Exists(events))


def work_filter(condition: OwnerCondition | TagCondition, context: QueryContext) -> Q:
    """The filter on who looks after the account, or on its tags."""
    rows = AccountWork.objects.filter(product_id=context.product_id)
    if isinstance(condition, TagCondition):
        rows, has = rows.filter(tags__contains=[condition.tag]), condition.has
    else:
        rows = rows.filter(owner=condition.owner) if condition.owner else rows.exclude(owner="")
        has = condition.operator in ("is", "is_set")
    if has:
        return Q(**{f"{context.subject_id_column}__in": rows.values("account_id")})
    return ~Q(Exists(rows.filter(account_id=OuterRef(context.subject_id_column))))


def subject_daily_counts(context: QueryContext) -> QuerySet[DailyCount]:
    """The daily counts that count for the subject of the outer query's row."""
    subject = {get_kind(context.scope).id_column: OuterRef(context.subject_id_column)}
    counts = DailyCount.objects.filter(product_id=context.product_id, **subject)
    if context.scope == "user":
        return counts
    if context.audience_set_id is None:
        return counts.filter(user__is_identified=True)
    members = UserEngagement.objects.filter(
        product_id=context.product_id,
        score_set_id=_hidden_score_set(context.audience_set_id),
        user_id=OuterRef("user_id"),
    )
    return counts.filter(Exists(members))


def aggregate_subquery(counts: QuerySet[DailyCount], aggregate: Any) -> Subquery:
    """An aggregate over the counts of one subject; NULL where it has none."""
    groups = counts.order_by().values("product_id").annotate(aggregate=aggregate)
    return Subquery(groups.values("aggregate"))


def _hidden_score_set(id: int) -> RawSQL:
    """A score set that the planner does not see, for the reason given at ``sql.SCORE_SET``."""
    return RawSQL("(SELECT %s::bigint)", (id,))
