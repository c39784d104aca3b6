"""Insights: sentences about an account, derived by rules, each with its numbers.

Which rules apply is decided by the account's engagement row, its traits, and its score set alone,
so that ``engagement.segments.insight_filters`` decides the same for all accounts in one query.
Both use the thresholds below.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from engagement.insight_kinds import INSIGHTS, InsightKind, Severity
from engagement.license_traits import (
    EVALUATION_END_TRAIT,
    LICENSE_TYPE_TRAIT,
    MAINTENANCE_END_TRAIT,
)
from engagement.models import AccountEngagement, ScoreSet, User
from engagement.money import MRR_LABEL, MRR_TRAIT, format_cents, mrr_of
from engagement.scores import history
from engagement.scores.history import EventPoints
from engagement.scores.insight_texts import (
    format_day,
    format_days,
    format_days_ago,
    format_in_days,
    format_number,
    format_percent,
    join_texts,
)
from engagement.scores.metrics import AccountMetrics, Scores, compute_scores, licensed_seats
from engagement.tenure import tenure_days
from engagement.trait_days import parse_trait_day

# An account is new until it is this many periods old. Until then there is no full period to compare
# with.
NEW_FOR_PERIODS = 2
# An account that stopped earlier is no news.
STOPPED_WITHIN_DAYS = 90
MAX_EVENTS_NAMED = 3
# The percentage of an account's points that makes it depend on one user.
TOP_USER_MIN_PERCENT = 70
# Breadth narrows when at most this percentage of at least this many event names is still in use.
NARROWING_MAX_PERCENT = 50
NARROWING_MIN_EVENT_NAMES = 4
# The seat utilization below which seats are unused. That is news where at most this percentage of
# the users of the period before is still active, or where the renewal is near.
UNUSED_SEATS_BELOW = 0.3
FEWER_USERS_MAX_PERCENT = 75
EVALUATION_ENDS_WITHIN_DAYS = 14
RENEWAL_WITHIN_DAYS = 60

EVALUATION = "evaluation"
# Insights about what a customer may stop paying say what that is.
_AT_STAKE: frozenset[InsightKind] = frozenset(
    {"renewal_at_risk", "activity_stopped", "trend_down", "seats_exceeded", "seats_unused"}
)


class Insight(NamedTuple):
    """``kind`` is for programs, ``text`` for people."""

    kind: InsightKind
    text: str
    numbers: dict[str, Any]

    @property
    def severity(self) -> Severity:
        return INSIGHTS[self.kind].severity


class TopUser(NamedTuple):
    """The user who adds most to an account's raw score."""

    id: int
    tracking_id: str
    name: str | None


@dataclass(frozen=True)
class AccountFacts:
    """What decides which insights an account has. ``created_at`` is from a trait, if that says."""

    scores: Scores
    raw_score: int
    last_active_at: datetime | None
    active_users: int
    active_users_last_period: int
    total_users: int
    top_user_points: int
    event_names: int
    event_names_last_period: int
    traits: Mapping[str, Any]
    first_seen_at: datetime
    created_at: datetime | None
    today: date
    lookback_days: int
    # Whether only the users in an audience count.
    has_audience: bool = False

    @property
    def inactive_days(self) -> int | None:
        """How long ago the last activity was, if it is over; None for an account without any."""
        if self.raw_score or self.last_active_at is None:
            return None
        days = (self.today - self.last_active_at.astimezone(UTC).date()).days
        # Later than the scores. They follow.
        return days if days > 0 else None

    @property
    def depends_on_one(self) -> bool:
        """Whether one of several users adds most of the points."""
        points = TOP_USER_MIN_PERCENT * self.raw_score
        return bool(points) and self.total_users > 1 and 100 * self.top_user_points >= points

    @property
    def is_falling(self) -> bool:
        return self.scores.trend == "falling" and not self.is_new

    @property
    def tenure_days(self) -> int:
        return tenure_days(self.created_at or self.first_seen_at, self.today)

    @property
    def is_new(self) -> bool:
        return self.tenure_days < NEW_FOR_PERIODS * self.lookback_days


@dataclass(frozen=True)
class Details:
    """What texts add, read for one account. Without them the texts are shorter."""

    event_points: Sequence[EventPoints] = ()
    top_user: TopUser | None = None


def account_insights(
    score_set: ScoreSet,
    row: AccountEngagement,
    metrics: AccountMetrics,
    event_points: Sequence[EventPoints],
    *,
    names_users: bool = True,
) -> list[Insight]:
    """The insights about the account of *row*, whose traits are loaded."""
    facts = account_facts(score_set, row, metrics.scores)
    # Finding the user reads all counts of the account.
    shows_user = names_users and facts.depends_on_one
    top_user = _top_user(score_set, row) if shows_user else None
    return apply_rules(facts, Details(event_points, top_user))


def account_facts(
    score_set: ScoreSet, row: AccountEngagement, scores: Scores | None = None
) -> AccountFacts:
    """The facts about the account of *row*, whose traits are loaded."""
    assert score_set.scored_day is not None, "A set that readers see has been scored."
    return AccountFacts(
        scores=scores or compute_scores(row, score_set),
        raw_score=row.raw,
        last_active_at=row.last_active_at,
        active_users=row.active_users,
        active_users_last_period=row.active_users_last_period,
        total_users=row.total_users,
        top_user_points=row.top_user_points,
        event_names=row.name_count,
        event_names_last_period=row.name_count_last_period,
        traits=row.account.traits,
        first_seen_at=row.account.first_seen_at,
        created_at=row.account.created_at,
        today=score_set.scored_day,
        lookback_days=score_set.lookback_days,
        has_audience=bool(score_set.audience),
    )


def apply_rules(facts: AccountFacts, details: Details = Details()) -> list[Insight]:
    """The insights from all rules, in the order of ``INSIGHTS``: warnings first."""
    insights = [
        _with_worth(insight, facts) for rule in INSIGHT_RULES for insight in rule(facts, details)
    ]
    order = list(INSIGHTS)
    return sorted(insights, key=lambda insight: order.index(insight.kind))


def _with_worth(insight: Insight, facts: AccountFacts) -> Insight:
    """The insight with what the account pays, if that is at stake and its trait says so."""
    if insight.kind not in _AT_STAKE or (cents := mrr_of(facts.traits)) is None:
        return insight
    text = f"{insight.text} {MRR_LABEL}: {format_cents(cents)}."
    return insight._replace(text=text, numbers={**insight.numbers, MRR_TRAIT: cents})


def _top_user(score_set: ScoreSet, row: AccountEngagement) -> TopUser | None:
    for user_id, _ in history.points_by_user(score_set, row.account_id, limit=1):
        user = User.objects.only("external_id", "traits").get(
            product_id=score_set.product_id, id=user_id
        )
        return TopUser(user_id, user.external_id, user.name)
    return None


# --- Rules ----------------------------------------------------------------------------------


def _activity_stopped(facts: AccountFacts, details: Details) -> Iterator[Insight]:
    days = facts.inactive_days
    if days is None or days >= STOPPED_WITHIN_DAYS or facts.last_active_at is None:
        return
    day = facts.last_active_at.astimezone(UTC).date()
    yield Insight(
        "activity_stopped",
        f"No scored activity for {format_days(days)} (last: {format_day(day)}).",
        {"days": days, "last_active_on": day.isoformat()},
    )


def _trend(facts: AccountFacts, details: Details) -> Iterator[Insight]:
    scores = facts.scores
    if scores.trend == "steady" or facts.is_new or facts.inactive_days is not None:
        return
    rising = scores.trend == "rising"
    events = _top_changes(details.event_points, 1 if rising else -1)
    text = (
        f"The score {'rose' if rising else 'fell'} by {abs(scores.change)} to {scores.now} "
        f"in {format_days(facts.lookback_days)}."
    )
    if events:
        text += f" Mainly because of {join_texts([_change(event) for event in events])}."
    yield Insight(
        "trend_up" if rising else "trend_down",
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


def _one_person(facts: AccountFacts, details: Details) -> Iterator[Insight]:
    if not facts.depends_on_one:
        return
    share, users = facts.top_user_points / facts.raw_score, facts.total_users
    user = details.top_user
    yield Insight(
        "one_person",
        f"{(user.name or user.tracking_id) if user else 'One user'} accounts for "
        f"{format_percent(share)} of this account’s activity ({users:,} users in total).",
        {"user": user._asdict() if user else None, "share": share, "total_users": users},
    )


def _breadth_narrowing(facts: AccountFacts, details: Details) -> Iterator[Insight]:
    now, before = facts.event_names, facts.event_names_last_period
    if not now or before < NARROWING_MIN_EVENT_NAMES or facts.is_new:
        return
    if 100 * now > NARROWING_MAX_PERCENT * before:
        return
    unused_names = [
        f"“{event.name}”"
        for event in details.event_points
        if event.last_period_count and not event.count
    ]
    if more := unused_names[MAX_EVENTS_NAMED:]:
        unused_names[MAX_EVENTS_NAMED:] = [f"{len(more):,} more"]
    yield Insight(
        "breadth_narrowing",
        f"Only {now:,} of {before:,} events are still in use."
        + (f" No longer used: {join_texts(unused_names)}." if unused_names else ""),
        {"event_names": now, "event_names_last_period": before},
    )


def _seats(facts: AccountFacts, details: Details) -> Iterator[Insight]:
    seats, active = licensed_seats(facts.traits), facts.active_users
    # A license covers all users, not only an audience.
    if seats is None or facts.has_audience:
        return
    share = active / seats
    numbers = {"active_users": active, "seats": seats, "license_utilization": share}
    if share > 1:
        yield Insight(
            "seats_exceeded",
            f"More users are active ({active:,}) than seats are licensed ({format_number(seats)}).",
            numbers,
        )
    elif share < UNUSED_SEATS_BELOW and (_has_fewer_users(facts) or _renewal(facts)):
        yield Insight(
            "seats_unused",
            f"Only {active:,} of {format_number(seats)} licensed seats "
            f"{'is' if active == 1 else 'are'} active ({format_percent(share)}).",
            numbers,
        )


def _has_fewer_users(facts: AccountFacts) -> bool:
    before = facts.active_users_last_period
    has_fewer = 100 * facts.active_users <= FEWER_USERS_MAX_PERCENT * before
    return before > 0 and has_fewer and not facts.is_new


def _evaluation_ending(facts: AccountFacts, details: Details) -> Iterator[Insight]:
    if facts.has_audience or not _is_evaluation(facts.traits):
        return
    ends = _day(facts.traits, EVALUATION_END_TRAIT) or _day(facts.traits, MAINTENANCE_END_TRAIT)
    if ends and 0 <= (days := (ends - facts.today).days) <= EVALUATION_ENDS_WITHIN_DAYS:
        yield Insight(
            "evaluation_ending",
            f"The evaluation ends {format_in_days(days)} ({format_day(ends)}).",
            {"days": days, "ends_on": ends.isoformat(), "score": facts.scores.now},
        )


def _renewal_at_risk(facts: AccountFacts, details: Details) -> Iterator[Insight]:
    ends, inactive_days = _renewal(facts), facts.inactive_days
    if ends is None or facts.has_audience or not (facts.is_falling or inactive_days):
        return
    days, scores = (ends - facts.today).days, facts.scores
    reason = (
        f"the score fell by {abs(scores.change)} to {scores.now}"
        if facts.is_falling
        else f"there has been no scored activity for {format_days(inactive_days or 0)}"
    )
    yield Insight(
        "renewal_at_risk",
        f"The license is up for renewal {format_in_days(days)} ({format_day(ends)}), and {reason}.",
        {
            "days": days,
            "ends_on": ends.isoformat(),
            "score_change": scores.change,
            "inactive_days": inactive_days,
        },
    )


def _new_account(facts: AccountFacts, details: Details) -> Iterator[Insight]:
    if facts.is_new:
        days, created_at = facts.tenure_days, facts.created_at
        yield Insight(
            "new_account",
            f"New: {'created' if created_at else 'first seen'} {format_days_ago(days)}. "
            f"The score is {facts.scores.now}.",
            {"days": days, "score": facts.scores.now},
        )


INSIGHT_RULES: tuple[Callable[[AccountFacts, Details], Iterator[Insight]], ...] = (
    _renewal_at_risk,
    _activity_stopped,
    _trend,
    _evaluation_ending,
    _seats,
    _one_person,
    _breadth_narrowing,
    _new_account,
)


# --- Traits ---------------------------------------------------------------------------------


def _is_evaluation(traits: Mapping[str, Any]) -> bool:
    license_type = traits.get(LICENSE_TYPE_TRAIT)
    return isinstance(license_type, str) and license_type.lower() == EVALUATION


def _renewal(facts: AccountFacts) -> date | None:
    """The day on which a license is up for renewal, if that is near."""
    ends = _day(facts.traits, MAINTENANCE_END_TRAIT)
    if ends is None or _is_evaluation(facts.traits):
        return None
    return ends if 0 <= (ends - facts.today).days <= RENEWAL_WITHIN_DAYS else None


def _day(traits: Mapping[str, Any], name: str) -> date | None:
    return parse_trait_day(traits.get(name))
