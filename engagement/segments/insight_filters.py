"""Filters on the engagement rows of accounts, equal to ``engagement.scores.insights``.

For each kind, a filter that keeps the accounts about which ``apply_rules()`` has that insight: by
their open alarms, or by their row and traits. So accounts with an insight are a query, like the
members of segments.
"""

from collections.abc import Callable
from datetime import date
from typing import Any, NamedTuple

from django.db.models import Case, F, FloatField, Q, Value, When
from django.db.models.functions import Coalesce
from django.db.models.lookups import EndsWith, Exact, GreaterThan, GreaterThanOrEqual, LessThan

from engagement.activity.reading import Signal, activity_filter, open_alarm_filter
from engagement.insight_kinds import ABOUT_SEATS, INSIGHTS, InsightKind
from engagement.license_traits import (
    EVALUATION_END_TRAIT,
    LATEST_START_TRAIT,
    LICENSE_STATUS_TRAIT,
    LICENSE_TYPE_TRAIT,
    MAINTENANCE_END_TRAIT,
    MAINTENANCE_START_TRAIT,
)
from engagement.models import ScoreSet
from engagement.rules.trait_filters import (
    DaysBelow,
    DayWithin,
    TraitDay,
    TraitKeyword,
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

    def have_open(self, signal: Signal) -> Q:
        return open_alarm_filter(self.score_set, signal)


def insight_filter(kind: InsightKind, score_set: ScoreSet) -> Q:
    """The filter on ``AccountEngagement`` rows of the set that keeps accounts with the insight.

    It may be NULL for rows that do not match.
    """
    assert score_set.scored_day is not None, "A set that readers see has been scored."
    if score_set.audience and kind in _ABOUT_LICENSES:
        return _NOBODY
    if kind in ABOUT_SEATS and not score_set.compares_seats:
        return _NOBODY
    return _FILTERS[kind](_Rows(score_set, score_set.scored_day))


def unless_new(score_set: ScoreSet, change: Any) -> Any:
    """The change of an ``AccountEngagement`` row's score, an expression; NULL for new accounts,
    which have no full period to compare with."""
    return Case(When(~insight_filter("new_account", score_set), then=change))


# --- Kinds ----------------------------------------------------------------------------------


def _license_ending(rows: _Rows) -> Q:
    return _is_cancelled() & _ends_soon(rows)


def _renewal_at_risk(rows: _Rows) -> Q:
    falls, leaving = (rows.have_open(signal) for signal in (Signal.FALL, Signal.LEAVING))
    return (falls | leaving) & _renews_soon(rows)


def _evaluation_ending(rows: _Rows) -> Q:
    ends = Coalesce(_day(EVALUATION_END_TRAIT), _day(MAINTENANCE_END_TRAIT))
    return _is_evaluation() & Q(DayWithin(ends, rows.today, insights.EVALUATION_ENDS_WITHIN_DAYS))


def _seats_exceeded(rows: _Rows) -> Q:
    return Q(GreaterThan(metric_filters.seat_utilization(ACCOUNTS.path), _float(1)))


def _seats_unused(rows: _Rows) -> Q:
    is_low = LessThan(
        metric_filters.seat_utilization(ACCOUNTS.path), _float(insights.UNUSED_SEATS_BELOW)
    )
    return Q(is_low) & (rows.have_open(Signal.LEAVING) | _renews_soon(rows))


def _one_person(rows: _Rows) -> Q:
    # As metrics.points_in_window().
    points = F("raw") - F("raw_last_period") if rows.score_set.half_life_days else F("raw")
    is_top = GreaterThanOrEqual(F("top_user_points") * 100, points * insights.TOP_USER_MIN_PERCENT)
    return Q(is_top, GreaterThan(points, 0), total_users__gte=2)


def _new_account(rows: _Rows) -> Q:
    return Q(GreaterThanOrEqual(_created(), _new_from(rows)))


_FILTERS: dict[InsightKind, Callable[[_Rows], Q]] = {
    "license_ending": _license_ending,
    "renewal_at_risk": _renewal_at_risk,
    "activity_stopped": lambda rows: activity_filter(rows.score_set, "stopped"),
    "users_leaving": lambda rows: rows.have_open(Signal.LEAVING),
    "trend_down": lambda rows: activity_filter(rows.score_set, "falling"),
    "evaluation_ending": _evaluation_ending,
    "seats_exceeded": _seats_exceeded,
    "seats_unused": _seats_unused,
    "key_user_quiet": lambda rows: rows.have_open(Signal.KEY_USER),
    "one_person": _one_person,
    "breadth_narrowing": lambda rows: rows.have_open(Signal.FEATURE),
    "new_account": _new_account,
    "trend_up": lambda rows: activity_filter(rows.score_set, "rising"),
}
# A license covers all users, not only an audience.
_ABOUT_LICENSES: frozenset[InsightKind] = frozenset(
    {"license_ending", "renewal_at_risk", "evaluation_ending"}
)


# --- Conditions -----------------------------------------------------------------------------


def _new_from(rows: _Rows) -> Any:
    return start_of_day(rows.today, 1 - insights.NEW_FOR_PERIODS * rows.score_set.lookback_days)


def _created() -> Any:
    return Coalesce(f"{ACCOUNTS.path}created_at", f"{ACCOUNTS.path}first_seen_at")


def _renews_soon(rows: _Rows) -> Q:
    starts = Coalesce(_day(LATEST_START_TRAIT), _day(MAINTENANCE_START_TRAIT))
    is_short = DaysBelow(_day(MAINTENANCE_END_TRAIT), starts, insights.RENEWAL_TERM_DAYS)
    return _ends_soon(rows) & ~_is_cancelled() & ~Q(is_short)


def _ends_soon(rows: _Rows) -> Q:
    ends = _day(MAINTENANCE_END_TRAIT)
    return ~_is_evaluation() & Q(DayWithin(ends, rows.today, insights.RENEWAL_WITHIN_DAYS))


def _is_evaluation() -> Q:
    """Never NULL."""
    keyword = TraitKeyword(_TRAITS, LICENSE_TYPE_TRAIT)
    is_of_kind = Q(EndsWith(keyword, insights.EVALUATION_ENDING))
    is_edition_trial = Q(Exact(keyword, Value(insights.EDITION_TRIAL)))
    return Q(Exact(keyword, Value(insights.EVALUATION))) | (is_of_kind & ~is_edition_trial)


def _is_cancelled() -> Q:
    """Never NULL."""
    return Q(Exact(TraitKeyword(_TRAITS, LICENSE_STATUS_TRAIT), Value(insights.CANCELLED)))


def _day(trait: str) -> TraitDay:
    return TraitDay(_TRAITS, trait)


_TRAITS = f"{ACCOUNTS.path}traits"


def _float(number: float) -> Value:
    return Value(number, FloatField())
