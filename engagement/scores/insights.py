"""Insights: plain sentences about an account, by rules, each with the numbers behind it."""

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

# An account whose last event is longer ago is not news.
STOPPED_WITHIN_DAYS = 90
# So many of the events that moved a score are named.
MAX_EVENTS_NAMED = 3
# One person carries an account from this share of its points.
TOP_USER_MIN_SHARE = 0.7
# Breadth narrows where at most this share of so many event names or more is still used.
NARROWING_MAX_SHARE = 0.5
NARROWING_MIN_EVENT_NAMES = 4
# Seats are mostly unused below this share.
UNUSED_SEATS_BELOW = 0.3
EVALUATION_ENDS_WITHIN_DAYS = 14
RENEWAL_WITHIN_DAYS = 60


class Insight(NamedTuple):
    """One thing worth knowing: ``kind`` is for programs, ``text`` for people."""

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
    """What the rules look at."""

    metrics: AccountMetrics
    made_of: Sequence[EventPoints]
    traits: Mapping[str, Any]
    top_user: TopUser | None
    today: date
    lookback_days: int
    # Whether only some of the account's users are counted.
    of_audience: bool = False

    @property
    def has_stopped(self) -> bool:
        return self.metrics.raw_score == 0 and self.metrics.last_active_at is not None


def account_insights(
    score_set: ScoreSet,
    row: AccountEngagement,
    known: AccountMetrics,
    made_of: Sequence[EventPoints],
) -> list[Insight]:
    """The insights about an account (whose traits are loaded), from its metrics and what its
    score is made of."""
    assert score_set.scored_day is not None, "A set that readers see has been scored."
    facts = AccountFacts(
        metrics=known,
        made_of=made_of,
        traits=row.account.traits,
        top_user=_carrier(score_set, row),
        today=score_set.scored_day,
        lookback_days=score_set.lookback_days,
        of_audience=bool(score_set.audience),
    )
    return apply_rules(facts)


def apply_rules(facts: AccountFacts) -> list[Insight]:
    """What the rules find, warnings first."""
    found = [insight for rule in INSIGHT_RULES for insight in rule(facts)]
    order: list[Severity] = ["warning", "notice", "good"]
    return sorted(found, key=lambda insight: order.index(insight.severity))


def _carrier(score_set: ScoreSet, row: AccountEngagement) -> TopUser | None:
    for user_id, points in history.points_by_user(score_set, row.account_id, limit=1):
        user = User.objects.only("external_id", "traits").get(
            product_id=score_set.product_id, id=user_id
        )
        return TopUser(user_id, user.external_id, user.name, points)
    return None


# --- The rules ------------------------------------------------------------------------------


def _stopped(facts: AccountFacts) -> Iterator[Insight]:
    last_at = facts.metrics.last_active_at
    if not facts.has_stopped or last_at is None:
        return
    day = last_at.astimezone(UTC).date()
    days = (facts.today - day).days
    if days < STOPPED_WITHIN_DAYS:
        yield Insight(
            "activity_stopped",
            "warning",
            f"Nothing that is scored has happened for {_days(days)}. "
            f"The last scored event was on {day}.",
            {"days": days, "last_active_on": day.isoformat()},
        )


def _trend(facts: AccountFacts) -> Iterator[Insight]:
    scores = facts.metrics.scores
    if scores.trend == "steady" or facts.has_stopped:
        return
    rising = scores.trend == "rising"
    moved = _moved(facts.made_of, 1 if rising else -1)
    verb = "rose" if rising else "fell"
    text = (
        f"The score {verb} by {abs(scores.change)} to {scores.now} "
        f"within {_days(facts.lookback_days)}."
    )
    if moved:
        text += f" What moved it most: {_listed([_change(event) for event in moved])}."
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
                for event in moved
            ],
        },
    )


def _moved(made_of: Sequence[EventPoints], direction: int) -> list[EventPoints]:
    """The events whose points moved most in the direction, most first."""
    with_it = [
        event for event in made_of if direction * (event.points - event.last_period_points) > 0
    ]
    with_it.sort(key=lambda event: -direction * (event.points - event.last_period_points))
    return with_it[:MAX_EVENTS_NAMED]


def _change(event: EventPoints) -> str:
    """In points, as the table of what the score is made of has them."""
    return f"“{event.name}” ({event.last_period_points:,} points before, {event.points:,} now)"


def _carried(facts: AccountFacts) -> Iterator[Insight]:
    carrier, points, users = facts.top_user, facts.metrics.raw_score, facts.metrics.total_users
    if carrier is None or not points or users < 2 or carrier.points < TOP_USER_MIN_SHARE * points:
        return
    share = carrier.points / points
    yield Insight(
        "one_person",
        "notice",
        f"One person carries the account: {format_percent(share)} of its points come from "
        f"{carrier.name or carrier.tracking_id}, one of {users:,} users.",
        {
            "user": {"id": carrier.id, "tracking_id": carrier.tracking_id, "name": carrier.name},
            "share": share,
            "total_users": users,
        },
    )


def _narrowed(facts: AccountFacts) -> Iterator[Insight]:
    now = sum(1 for event in facts.made_of if event.count)
    before = sum(1 for event in facts.made_of if event.last_period_count)
    if not now or before < NARROWING_MIN_EVENT_NAMES or now > NARROWING_MAX_SHARE * before:
        return
    left = [event.name for event in facts.made_of if event.last_period_count and not event.count]
    yield Insight(
        "breadth_narrowing",
        "notice",
        f"Fewer features are used: {now:,} of {before:,} kinds of events are left. "
        f"Gone are {_listed([f'“{name}”' for name in left[:MAX_EVENTS_NAMED]])}"
        f"{' and others' if len(left) > MAX_EVENTS_NAMED else ''}.",
        {"event_names": now, "event_names_last_period": before},
    )


def _seats(facts: AccountFacts) -> Iterator[Insight]:
    licensed, active = licensed_seats(facts.traits), facts.metrics.active_users
    # A license is for everybody, and an audience is not.
    if licensed is None or facts.of_audience:
        return
    share = active / licensed
    numbers = {"active_users": active, "seats": licensed, "license_utilization": share}
    if share > 1:
        yield Insight(
            "seats_exceeded",
            "notice",
            f"{_people(active)} active on a license for {_number(licensed)}.",
            numbers,
        )
    elif share < UNUSED_SEATS_BELOW:
        yield Insight(
            "seats_unused",
            "warning",
            f"Most of the license is unused: {_people(active)} active, and it is for "
            f"{_number(licensed)} ({format_percent(share)}).",
            numbers,
        )


def _evaluation(facts: AccountFacts) -> Iterator[Insight]:
    if facts.of_audience or not _is_evaluation(facts.traits):
        return
    ends = _day(facts.traits, "am.evaluationEndDate") or _day(facts.traits, "am.maintenanceEndDate")
    if ends and 0 <= (days := (ends - facts.today).days) <= EVALUATION_ENDS_WITHIN_DAYS:
        yield Insight(
            "evaluation_ending",
            "notice",
            f"The evaluation ends {_in_days(days)}, on {ends}.",
            {"days": days, "ends_on": ends.isoformat(), "score": facts.metrics.scores.now},
        )


def _renewal(facts: AccountFacts) -> Iterator[Insight]:
    if facts.of_audience or _is_evaluation(facts.traits):
        return
    if facts.metrics.scores.trend != "falling":
        return
    ends = _day(facts.traits, "am.maintenanceEndDate")
    if ends and 0 <= (days := (ends - facts.today).days) <= RENEWAL_WITHIN_DAYS:
        scores = facts.metrics.scores
        yield Insight(
            "renewal_at_risk",
            "warning",
            f"The license is up for renewal {_in_days(days)}, on {ends}, and the score fell by "
            f"{abs(scores.change)} to {scores.now}.",
            {"days": days, "ends_on": ends.isoformat(), "score_change": scores.change},
        )


INSIGHT_RULES: tuple[Callable[[AccountFacts], Iterator[Insight]], ...] = (
    _stopped,
    _renewal,
    _trend,
    _seats,
    _evaluation,
    _carried,
    _narrowed,
)


# --- Words ----------------------------------------------------------------------------------


def _is_evaluation(traits: Mapping[str, Any]) -> bool:
    return str(traits.get("am.licenseType", "")).upper() == "EVALUATION"


def _day(traits: Mapping[str, Any], name: str) -> date | None:
    """The UTC day that the trait names."""
    found = parse_time(traits.get(name))
    return found.date() if found else None


def _days(number: int) -> str:
    return "a day" if number == 1 else f"{number:,} days"


def _in_days(number: int) -> str:
    return {0: "today", 1: "tomorrow"}.get(number, f"in {number:,} days")


def _people(number: int) -> str:
    return "1 person is" if number == 1 else f"{number:,} people are"


def _number(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:,}"


def format_percent(share: float) -> str:
    """The share in percent; a part is never shown as nothing, nor as all."""
    if 0 < share < 0.01:
        return "less than 1%"
    if 0.99 < share < 1:
        return "more than 99%"
    return f"{100 * share:.0f}%"


def _listed(items: Sequence[str]) -> str:
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"
