"""Filters on the engagement rows of accounts, equal to ``engagement.scores.insights``.

For each kind, a filter that keeps the accounts about which ``apply_rules()`` has that insight. So
accounts with an insight are a query, like the members of segments, and nothing is stored.
"""

from collections.abc import Callable
from datetime import date
from typing import Any, NamedTuple

from django.db.models import Case, F, FloatField, Q, Value, When
from django.db.models.functions import Coalesce
from django.db.models.lookups import (
    Exact,
    GreaterThan,
    GreaterThanOrEqual,
    LessThan,
    LessThanOrEqual,
)

from engagement.insight_kinds import INSIGHTS, InsightKind
from engagement.license_traits import (
    EVALUATION_END_TRAIT,
    LICENSE_TYPE_TRAIT,
    MAINTENANCE_END_TRAIT,
)
from engagement.models import ScoreSet
from engagement.rules.trait_filters import (
    DayWithin,
    TraitDay,
    TraitKeyword,
    null_safe_not,
    start_of_day,
)
from engagement.scopes import ACCOUNTS
from engagement.scores import insights
from engagement.segments import metric_filters

INSIGHT_KINDS: tuple[InsightKind, ...] = tuple(INSIGHTS)
_NOBODY = Q(Value(False))


class _Rows(NamedTuple):
    """The rows that are filtered: those of one set."""

    score_set: ScoreSet
    today: date

    @property
    def lookback_days(self) -> int:
        return self.score_set.lookback_days


def insight_filter(kind: InsightKind, score_set: ScoreSet) -> Q:
    """The filter on ``AccountEngagement`` rows of the set that keeps accounts with the insight.

    It may be NULL for rows that do not match. In a set of formula 1, which lacks some numbers, no
    account has an insight that needs them, on pages neither.
    """
    assert score_set.scored_day is not None, "A set that readers see has been scored."
    if score_set.audience and kind in _ABOUT_LICENSES:
        return _NOBODY
    return _FILTERS[kind](_Rows(score_set, score_set.scored_day))


def compared_change(score_set: ScoreSet) -> Any:
    """The change of an ``AccountEngagement`` row's displayed score, in tenths.

    NULL for new accounts, which have no full period to compare with.
    """
    change = metric_filters.change_in_tenths(score_set, ACCOUNTS)
    return Case(When(~insight_filter("new_account", score_set), then=change))


# --- Kinds ----------------------------------------------------------------------------------


def _renewal_at_risk(rows: _Rows) -> Q:
    falling = metric_filters.trend_filter("falling", rows.score_set, ACCOUNTS) & _is_old(rows)
    return (falling | _is_inactive(rows)) & _renews_soon(rows)


def _activity_stopped(rows: _Rows) -> Q:
    earliest = start_of_day(rows.today, 1 - insights.STOPPED_WITHIN_DAYS)
    return _is_inactive(rows) & Q(last_active_at__gte=earliest)


def _trend_down(rows: _Rows) -> Q:
    falling = metric_filters.trend_filter("falling", rows.score_set, ACCOUNTS)
    return falling & null_safe_not(_is_inactive(rows)) & _is_old(rows)


def _trend_up(rows: _Rows) -> Q:
    # A score that rises is above zero.
    return metric_filters.trend_filter("rising", rows.score_set, ACCOUNTS) & _is_old(rows)


def _evaluation_ending(rows: _Rows) -> Q:
    ends = Coalesce(_day(EVALUATION_END_TRAIT), _day(MAINTENANCE_END_TRAIT))
    return _is_evaluation() & Q(DayWithin(ends, rows.today, insights.EVALUATION_ENDS_WITHIN_DAYS))


def _seats_exceeded(rows: _Rows) -> Q:
    return Q(GreaterThan(metric_filters.seat_utilization(ACCOUNTS.path), _float(1)))


def _seats_unused(rows: _Rows) -> Q:
    is_low = LessThan(
        metric_filters.seat_utilization(ACCOUNTS.path), _float(insights.UNUSED_SEATS_BELOW)
    )
    fewer = F("active_users_last_period") * insights.FEWER_USERS_MAX_PERCENT
    has_fewer = Q(
        LessThanOrEqual(F("active_users") * 100, fewer), active_users_last_period__gt=0
    ) & _is_old(rows)
    return Q(is_low) & (has_fewer | _renews_soon(rows))


def _one_person(rows: _Rows) -> Q:
    points = F("raw") * insights.TOP_USER_MIN_PERCENT
    return Q(GreaterThanOrEqual(F("top_user_points") * 100, points), raw__gt=0, total_users__gte=2)


def _breadth_narrowing(rows: _Rows) -> Q:
    most = F("name_count_last_period") * insights.NARROWING_MAX_PERCENT
    return Q(
        LessThanOrEqual(F("name_count") * 100, most),
        name_count__gt=0,
        name_count_last_period__gte=insights.NARROWING_MIN_EVENT_NAMES,
    ) & _is_old(rows)


def _new_account(rows: _Rows) -> Q:
    return Q(GreaterThanOrEqual(_created(), _new_from(rows)))


_FILTERS: dict[InsightKind, Callable[[_Rows], Q]] = {
    "renewal_at_risk": _renewal_at_risk,
    "activity_stopped": _activity_stopped,
    "trend_down": _trend_down,
    "evaluation_ending": _evaluation_ending,
    "seats_exceeded": _seats_exceeded,
    "seats_unused": _seats_unused,
    "one_person": _one_person,
    "breadth_narrowing": _breadth_narrowing,
    "new_account": _new_account,
    "trend_up": _trend_up,
}
# A license covers all users, not only an audience.
_ABOUT_LICENSES: frozenset[InsightKind] = frozenset(
    {
        "renewal_at_risk",
        "evaluation_ending",
        "seats_exceeded",
        "seats_unused",
    }
)


# --- Conditions -----------------------------------------------------------------------------


def _is_inactive(rows: _Rows) -> Q:
    """As ``AccountFacts.inactive_days``. The index account_idle has these rows."""
    return Q(raw=0, last_active_at__lt=start_of_day(rows.today))


def _is_old(rows: _Rows) -> Q:
    return Q(LessThan(_created(), _new_from(rows)))


def _new_from(rows: _Rows) -> Any:
    return start_of_day(rows.today, 1 - insights.NEW_FOR_PERIODS * rows.lookback_days)


def _created() -> Any:
    return Coalesce(f"{ACCOUNTS.path}created_at", f"{ACCOUNTS.path}first_seen_at")


def _renews_soon(rows: _Rows) -> Q:
    ends = _day(MAINTENANCE_END_TRAIT)
    return ~_is_evaluation() & Q(DayWithin(ends, rows.today, insights.RENEWAL_WITHIN_DAYS))


def _is_evaluation() -> Q:
    """Never NULL."""
    keyword = TraitKeyword(_TRAITS, LICENSE_TYPE_TRAIT)
    return Q(Exact(keyword, Value(insights.EVALUATION)))


def _day(trait: str) -> TraitDay:
    return TraitDay(_TRAITS, trait)


_TRAITS = f"{ACCOUNTS.path}traits"


def _float(number: float) -> Value:
    return Value(number, FloatField())
