"""Insights: sentences about an account, derived by rules, each with its numbers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date
from typing import Any, Literal, NamedTuple, TypeAlias

from engagement.models import AccountEngagement, ScoreSet, User
from engagement.scores import history
from engagement.scores.history import EventPoints
from engagement.scores.metrics import AccountMetrics, licensed_seats
from engagement.tenure import parse_time

Severity: TypeAlias = Literal["good", "notice", "warning"]

# An account that stopped earlier is no news.
STOPPED_WITHIN_DAYS = 90
MAX_EVENTS_NAMED = 3
# The share of an account's points that makes it depend on one user.
TOP_USER_MIN_SHARE = 0.7
# Breadth narrows when at most this share of at least this many event names is still in use.
NARROWING_MAX_SHARE = 0.5
NARROWING_MIN_EVENT_NAMES = 4
# The seat utilization below which seats are unused.
UNUSED_SEATS_BELOW = 0.3
EVALUATION_ENDS_WITHIN_DAYS = 14
RENEWAL_WITHIN_DAYS = 60


class Insight(NamedTuple):
    """``kind`` is for programs, ``text`` for people."""

    kind: str
    severity: Severity
    text: str
    numbers: dict[str, Any]


class TopUser(NamedTuple):
    """The user who adds most to an account's raw score."""

    id: int
    tracking_id: str
    name: str | None
    points: int


@dataclass(frozen=True)
class AccountFacts:
    """The input of the rules."""

    metrics: AccountMetrics
    event_points: Sequence[EventPoints]
    traits: Mapping[str, Any]
    top_user: TopUser | None
    today: date
    lookback_days: int
    # Whether only the users in an audience count.
    has_audience: bool = False

    @property
    def has_stopped(self) -> bool:
        return self.metrics.raw_score == 0 and self.metrics.last_active_at is not None


def account_insights(
    score_set: ScoreSet,
    row: AccountEngagement,
    metrics: AccountMetrics,
    event_points: Sequence[EventPoints],
) -> list[Insight]:
    """The insights about the account of *row*, whose traits are loaded."""
    assert score_set.scored_day is not None, "A set that readers see has been scored."
    facts = AccountFacts(
        metrics=metrics,
        event_points=event_points,
        traits=row.account.traits,
        top_user=_top_user(score_set, row),
        today=score_set.scored_day,
        lookback_days=score_set.lookback_days,
        has_audience=bool(score_set.audience),
    )
    return apply_rules(facts)


def apply_rules(facts: AccountFacts) -> list[Insight]:
    """The insights from all rules, warnings first."""
    insights = [insight for rule in INSIGHT_RULES for insight in rule(facts)]
    order: list[Severity] = ["warning", "notice", "good"]
    return sorted(insights, key=lambda insight: order.index(insight.severity))


def _top_user(score_set: ScoreSet, row: AccountEngagement) -> TopUser | None:
    for user_id, points in history.points_by_user(score_set, row.account_id, limit=1):
        user = User.objects.only("external_id", "traits").get(
            product_id=score_set.product_id, id=user_id
        )
        return TopUser(user_id, user.external_id, user.name, points)
    return None


# --- Rules ----------------------------------------------------------------------------------


def _activity_stopped(facts: AccountFacts) -> Iterator[Insight]:
    last_at = facts.metrics.last_active_at
    if not facts.has_stopped or last_at is None:
        return
    day = last_at.astimezone(UTC).date()
    days = (facts.today - day).days
    if days < STOPPED_WITHIN_DAYS:
        yield Insight(
            "activity_stopped",
            "warning",
            f"No scored activity for {_days(days)} (last: {_date(day)}).",
            {"days": days, "last_active_on": day.isoformat()},
        )


def _trend(facts: AccountFacts) -> Iterator[Insight]:
    scores = facts.metrics.scores
    if scores.trend == "steady" or facts.has_stopped:
        return
    rising = scores.trend == "rising"
    events = _top_changes(facts.event_points, 1 if rising else -1)
    text = (
        f"The score {'rose' if rising else 'fell'} by {abs(scores.change)} to {scores.now} "
        f"in {_days(facts.lookback_days)}."
    )
    if events:
        text += f" Mainly because of {_join([_change(event) for event in events])}."
    yield Insight(
        "trend_up" if rising else "trend_down",
        "good" if rising else "warning",
        text,
        {
            "score": scores.now,
            "score_last_period": scores.last_period,
            "score_change": scores.change,
            "events": [
                {
                    "name": event.name,
                    "count": event.count,
                    "last_period_count": event.last_period_count,
                    "points": event.points,
                    "last_period_points": event.last_period_points,
                    "points_change": event.points - event.last_period_points,
                }
                for event in events
            ],
        },
    )


def _top_changes(event_points: Sequence[EventPoints], direction: int) -> list[EventPoints]:
    """The events whose points changed most in the direction, largest change first."""

    def change(event: EventPoints) -> int:
        return direction * (event.points - event.last_period_points)

    changed = [event for event in event_points if change(event) > 0]
    return sorted(changed, key=change, reverse=True)[:MAX_EVENTS_NAMED]


def _change(event: EventPoints) -> str:
    """The change in points, as in the score breakdown."""
    return f"“{event.name}” ({event.last_period_points:,} → {event.points:,} points)"


def _one_person(facts: AccountFacts) -> Iterator[Insight]:
    user, points, users = facts.top_user, facts.metrics.raw_score, facts.metrics.total_users
    if user is None or not points or users < 2 or user.points < TOP_USER_MIN_SHARE * points:
        return
    share = user.points / points
    yield Insight(
        "one_person",
        "notice",
        f"{user.name or user.tracking_id} accounts for {format_percent(share)} of this account’s "
        f"activity ({users:,} users in total).",
        {
            "user": {"id": user.id, "tracking_id": user.tracking_id, "name": user.name},
            "share": share,
            "total_users": users,
        },
    )


def _breadth_narrowing(facts: AccountFacts) -> Iterator[Insight]:
    now = sum(1 for event in facts.event_points if event.count)
    before = sum(1 for event in facts.event_points if event.last_period_count)
    if not now or before < NARROWING_MIN_EVENT_NAMES or now > NARROWING_MAX_SHARE * before:
        return
    unused = [
        f"“{event.name}”"
        for event in facts.event_points
        if event.last_period_count and not event.count
    ]
    if more := unused[MAX_EVENTS_NAMED:]:
        unused[MAX_EVENTS_NAMED:] = [f"{len(more):,} more"]
    yield Insight(
        "breadth_narrowing",
        "notice",
        f"Only {now:,} of {before:,} events are still in use. No longer used: {_join(unused)}.",
        {"event_names": now, "event_names_last_period": before},
    )


def _seats(facts: AccountFacts) -> Iterator[Insight]:
    seats, active = licensed_seats(facts.traits), facts.metrics.active_users
    # A license covers all users, not only an audience.
    if seats is None or facts.has_audience:
        return
    share = active / seats
    numbers = {"active_users": active, "seats": seats, "license_utilization": share}
    if share > 1:
        yield Insight(
            "seats_exceeded",
            "notice",
            f"More users are active ({active:,}) than seats are licensed ({_number(seats)}).",
            numbers,
        )
    elif share < UNUSED_SEATS_BELOW:
        yield Insight(
            "seats_unused",
            "warning",
            f"Only {active:,} of {_number(seats)} licensed seats "
            f"{'is' if active == 1 else 'are'} active ({format_percent(share)}).",
            numbers,
        )


def _evaluation_ending(facts: AccountFacts) -> Iterator[Insight]:
    if facts.has_audience or not _is_evaluation(facts.traits):
        return
    ends = _day(facts.traits, "am.evaluationEndDate") or _day(facts.traits, "am.maintenanceEndDate")
    if ends and 0 <= (days := (ends - facts.today).days) <= EVALUATION_ENDS_WITHIN_DAYS:
        yield Insight(
            "evaluation_ending",
            "notice",
            f"The evaluation ends {_in_days(days)} ({_date(ends)}).",
            {"days": days, "ends_on": ends.isoformat(), "score": facts.metrics.scores.now},
        )


def _renewal_at_risk(facts: AccountFacts) -> Iterator[Insight]:
    if facts.has_audience or _is_evaluation(facts.traits):
        return
    scores = facts.metrics.scores
    if scores.trend != "falling":
        return
    ends = _day(facts.traits, "am.maintenanceEndDate")
    if ends and 0 <= (days := (ends - facts.today).days) <= RENEWAL_WITHIN_DAYS:
        yield Insight(
            "renewal_at_risk",
            "warning",
            f"The license is up for renewal {_in_days(days)} ({_date(ends)}), and the score fell "
            f"by {abs(scores.change)} to {scores.now}.",
            {"days": days, "ends_on": ends.isoformat(), "score_change": scores.change},
        )


INSIGHT_RULES: tuple[Callable[[AccountFacts], Iterator[Insight]], ...] = (
    _activity_stopped,
    _renewal_at_risk,
    _trend,
    _seats,
    _evaluation_ending,
    _one_person,
    _breadth_narrowing,
)


# --- Traits and texts -----------------------------------------------------------------------


def _is_evaluation(traits: Mapping[str, Any]) -> bool:
    return str(traits.get("am.licenseType", "")).upper() == "EVALUATION"


def _day(traits: Mapping[str, Any], name: str) -> date | None:
    """The UTC day of a trait that is a date or a time."""
    time = parse_time(traits.get(name))
    return time.date() if time else None


def _date(day: date) -> str:
    return f"{day.day} {day:%b %Y}"


def _days(number: int) -> str:
    return "1 day" if number == 1 else f"{number:,} days"


def _in_days(number: int) -> str:
    return {0: "today", 1: "tomorrow"}.get(number, f"in {number:,} days")


def _number(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:,}"


def format_percent(share: float) -> str:
    """The share in percent. A part is never shown as 0% or 100%."""
    if 0 < share < 0.01:
        return "less than 1%"
    if 0.99 < share < 1:
        return "more than 99%"
    return f"{100 * share:.0f}%"


def _join(items: Sequence[str]) -> str:
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"
