"""Conditions as parts of queries over subjects: those that need no scores.

Conditions on metrics are in ``engagement.segments.metric_filters``; ``engagement.segments.members``
puts all of them together.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Subquery, Sum, Value, When
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce
from django.db.models.lookups import GreaterThanOrEqual, LessThan

from engagement.metric_names import Scope
from engagement.models import DailyCount, EventName, UserEngagement
from engagement.rules import trait_filters
from engagement.rules.rules import (
    AccountTraitCondition,
    Condition,
    CreatedCondition,
    EventCondition,
    FirstSeenCondition,
    LastActiveCondition,
    Match,
    Rule,
    TraitCondition,
)
from engagement.rules.trait_filters import start_of_day


@dataclass(frozen=True)
class QueryContext:
    """Where a query has its subjects: ``path`` leads from its rows to their columns.

    ``audience`` is the set of scores whose users alone count for an account; None counts all users
    that are known. ``find_event_name_ids`` are the product's that the conditions ask for, by name.
    """

    scope: Scope
    product_id: int
    today: date
    lookback_days: int
    path: str
    id: str
    audience: int | None
    event_names: dict[str, int]


def audience_filter(rule: Rule, product_id: int, today: date) -> Q:
    """What the rule of an audience asks of rows of ``User``. It is never NULL."""
    names = find_event_name_ids(rule.conditions, product_id)
    place = QueryContext("user", product_id, today, 0, "", "id", None, names)
    met = combine(rule.match, [unscored_filter(one, place) for one in rule.conditions])
    return Q(Case(When(met, then=Value(True)), default=Value(False)))


def combine(match: Match, conditions: Iterable[Q]) -> Q:
    """All or any of the conditions; everybody where there are none."""
    found = list(conditions)
    if not found:
        return Q(Value(True))
    return Q(*found, _connector=Q.AND if match == "all" else Q.OR)


def find_event_name_ids(conditions: Iterable[Condition], product_id: int) -> dict[str, int]:
    """The ids of the event names that the conditions name, as far as they have been seen."""
    asked = {one.event for one in conditions if isinstance(one, EventCondition)}
    if not asked:
        return {}
    known = EventName.objects.filter(product_id=product_id, name__in=asked)
    return dict(known.values_list("name", "pk"))


def unscored_filter(condition: Condition, place: QueryContext) -> Q:
    """What the condition asks of the subject; it may be NULL where the condition is not met."""
    match condition:
        case TraitCondition():
            return trait_condition_filter(condition, place.path)
        case EventCondition():
            return _event(condition, place)
        case FirstSeenCondition():
            return time_filter(condition, F(f"{place.path}first_seen_at"), place)
        case CreatedCondition():
            return time_filter(condition, creation_time(place), place)
    raise TypeError(f"{condition} needs scores.")


def trait_condition_filter(condition: TraitCondition, path: str) -> Q:
    """What the condition asks of the traits of the subject, or of its account, that *path* leads
    to."""
    owner = "account__" if isinstance(condition, AccountTraitCondition) else ""
    return trait_filters.trait_filter(condition, f"{path}{owner}traits")


def creation_time(place: QueryContext) -> Coalesce:
    """When the subject was created: as its traits say, else when it was first seen."""
    return Coalesce(f"{place.path}created_at", f"{place.path}first_seen_at")


def period_start(condition: Any, place: QueryContext) -> datetime:
    """When the condition's days began."""
    days = place.lookback_days if condition.days == "window" else condition.days
    return start_of_day(place.today, 1 - days)


def is_before_window(condition: LastActiveCondition, place: QueryContext) -> bool:
    """Whether whoever meets the condition has done nothing that is scored in the window."""
    days = place.lookback_days if condition.days == "window" else condition.days
    return condition.operator == "more_than_days_ago" and days >= place.lookback_days


def time_filter(condition: Any, column: Any, place: QueryContext) -> Q:
    """Whether the time in *column* is within the condition's days, or before them."""
    began = period_start(condition, place)
    if condition.operator == "within_days":
        return Q(GreaterThanOrEqual(column, began))
    return Q(LessThan(column, began))


# --- Events ---------------------------------------------------------------------------------

# Sums over events are taken for each subject that is looked at, never for all of them at once and
# then joined: of a product that its statistics do not know yet, the planner expects one row, and
# would go through what it joins again and again.


def _event(condition: EventCondition, place: QueryContext) -> Q:
    name = place.event_names.get(condition.event)
    if name is None:
        # Nobody has done what has never been seen.
        return Q(Value(condition.operator == "not_done"))
    counts = subject_daily_counts(place).filter(event_name_id=name)
    if condition.within_days is not None:
        first_day = start_of_day(place.today, 1 - condition.within_days).date()
        counts = counts.filter(day__range=(first_day, place.today))
    if condition.operator == "not_done":
        return Q(~Exists(counts))
    if condition.times == 1:
        return Q(Exists(counts))
    return Q(GreaterThanOrEqual(aggregate_subquery(counts, Sum("count")), condition.times))


def subject_daily_counts(place: QueryContext) -> QuerySet[DailyCount]:
    """The daily counts that count for the subject of the outer query's row."""
    own = {f"{place.scope}_id": OuterRef(place.id)}
    counts = DailyCount.objects.filter(product_id=_hidden(place.product_id), **own)
    if place.scope == "user":
        return counts
    if place.audience is None:
        return counts.filter(user__is_identified=True)
    users = UserEngagement.objects.filter(
        product_id=_hidden(place.product_id),
        score_set_id=_hidden(place.audience),
        user_id=OuterRef("user_id"),
    )
    return counts.filter(Exists(users))


def aggregate_subquery(counts: QuerySet[DailyCount], of: Any) -> Subquery:
    """An aggregate over the counts of one subject; NULL where there are none."""
    return Subquery(counts.order_by().values("product_id").annotate(of=of).values("of"))


def _hidden(id: int) -> RawSQL:
    """An id that the planner does not see, for the reason that ``sql.PRODUCT`` gives."""
    return RawSQL("(SELECT %s::bigint)", (id,))
