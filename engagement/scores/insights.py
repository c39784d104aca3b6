"""Insights: sentences about an account, each with its numbers.

Those about changes of its activity and its users say what an alarm concluded
(``engagement.activity``). The others are facts, and follow from the account's engagement row, its
traits, and its score set, so that ``engagement.segments.insight_filters`` decides the same for all
accounts in one query. Both use the thresholds below.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from engagement.activity import sentences
from engagement.activity.reading import NO_ALARMS, AccountAlarms, Activity, Signal
from engagement.insight_kinds import INSIGHTS, InsightKind, Severity
from engagement.license_traits import (
    EVALUATION_END_TRAIT,
    LATEST_START_TRAIT,
    LICENSE_STATUS_TRAIT,
    LICENSE_TYPE_TRAIT,
    MAINTENANCE_END_TRAIT,
    MAINTENANCE_START_TRAIT,
)
from engagement.models import AccountEngagement, ScoreSet, User
from engagement.money import MRR_LABEL, MRR_TRAIT, format_cents, mrr_of
from engagement.scores import history
from engagement.scores.insight_texts import (
    format_day,
    format_days_ago,
    format_in_days,
    format_number,
    format_percent,
    join_texts,
)
from engagement.scores.metrics import (
    AccountMetrics,
    Scores,
    compute_scores,
    licensed_seats,
    points_in_window,
)
from engagement.tenure import tenure_days
from engagement.trait_days import parse_trait_day

# An account is new until it is this many periods old. Until then there is no full period to compare
# with.
NEW_FOR_PERIODS = 2
MAX_EVENTS_NAMED = 3
# The percentage of an account's points that makes it depend on one user.
TOP_USER_MIN_PERCENT = 70
# The seat utilization below which seats are unused. That is news where users are leaving, or where
# the renewal is near.
UNUSED_SEATS_BELOW = 0.3
EVALUATION_ENDS_WITHIN_DAYS = 14
RENEWAL_WITHIN_DAYS = 60
# A shorter term is a month, which ends all the time and says nothing.
RENEWAL_TERM_DAYS = 40

# Types of licenses: this one, and those that end with it, but for a paid license of which another
# edition is tried.
EVALUATION, EVALUATION_ENDING, EDITION_TRIAL = "evaluation", "_evaluation", "upgrade_evaluation"
CANCELLED = "cancelled"
# Insights about what a customer may stop paying say what that is.
_AT_STAKE: frozenset[InsightKind] = frozenset(
    {
        "license_ending",
        "renewal_at_risk",
        "activity_stopped",
        "users_leaving",
        "trend_down",
        "seats_exceeded",
        "seats_unused",
    }
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
    """A user who does most in an account."""

    id: int
    tracking_id: str
    name: str | None

    @property
    def label(self) -> str:
        return self.name or self.tracking_id


@dataclass(frozen=True)
class AccountFacts:
    """What decides which insights an account has. ``created_at`` is from a trait, if that says."""

    scores: Scores
    # As ``top_user_points``, of the window alone.
    points: int
    last_active_at: datetime | None
    active_users: int
    total_users: int
    top_user_points: int
    traits: Mapping[str, Any]
    first_seen_at: datetime
    created_at: datetime | None
    today: date
    lookback_days: int
    # Whether only the users in an audience count.
    has_audience: bool = False
    compares_seats: bool = True
    alarms: AccountAlarms = NO_ALARMS

    @property
    def activity(self) -> Activity:
        return self.alarms.activity(None)

    @property
    def inactive_days(self) -> int | None:
        """How long ago the last activity was, if it is over; None for an account without any."""
        if self.last_active_at is None:
            return None
        days = (self.today - self.last_active_at.astimezone(UTC).date()).days
        # Later than the scores. They follow.
        return days if days > 0 else None

    @property
    def depends_on_one(self) -> bool:
        """Whether one of several users adds most of the points."""
        points = TOP_USER_MIN_PERCENT * self.points
        return bool(points) and self.total_users > 1 and 100 * self.top_user_points >= points

    @property
    def tenure_days(self) -> int:
        return tenure_days(self.created_at or self.first_seen_at, self.today)

    @property
    def is_new(self) -> bool:
        return self.tenure_days < NEW_FOR_PERIODS * self.lookback_days


@dataclass(frozen=True)
class People:
    """The users that texts name. Without them the texts name nobody."""

    top_user: TopUser | None = None
    key_user: TopUser | None = None


def account_insights(
    score_set: ScoreSet,
    row: AccountEngagement,
    metrics: AccountMetrics,
    alarms: AccountAlarms,
    *,
    names_users: bool = True,
) -> list[Insight]:
    """The insights about the account of *row*, whose traits are loaded."""
    facts = account_facts(score_set, row, metrics.scores, alarms)
    return apply_rules(facts, _people(score_set, row, facts) if names_users else People())


def account_facts(
    score_set: ScoreSet,
    row: AccountEngagement,
    scores: Scores | None = None,
    alarms: AccountAlarms = NO_ALARMS,
) -> AccountFacts:
    """The facts about the account of *row*, whose traits are loaded."""
    assert score_set.scored_day is not None, "A set that readers see has been scored."
    return AccountFacts(
        scores=scores or compute_scores(row, score_set),
        points=points_in_window(score_set, row),
        last_active_at=row.last_active_at,
        active_users=row.active_users,
        total_users=row.total_users,
        top_user_points=row.top_user_points,
        traits=row.account.traits,
        first_seen_at=row.account.first_seen_at,
        created_at=row.account.created_at,
        today=score_set.scored_day,
        lookback_days=score_set.lookback_days,
        has_audience=bool(score_set.audience),
        compares_seats=score_set.compares_seats,
        alarms=alarms,
    )


def apply_rules(facts: AccountFacts, people: People = People()) -> list[Insight]:
    """The insights from all rules, in the order of ``INSIGHTS``: warnings first."""
    insights = [
        _with_worth(insight, facts) for rule in INSIGHT_RULES for insight in rule(facts, people)
    ]
    order = list(INSIGHTS)
    return sorted(insights, key=lambda insight: order.index(insight.kind))


def _with_worth(insight: Insight, facts: AccountFacts) -> Insight:
    """The insight with what the account pays, if that is at stake and its trait says so."""
    if insight.kind not in _AT_STAKE or (cents := mrr_of(facts.traits)) is None:
        return insight
    text = f"{insight.text} {MRR_LABEL}: {format_cents(cents)}." if cents else insight.text
    return insight._replace(text=text, numbers={**insight.numbers, MRR_TRAIT: cents})


def _people(score_set: ScoreSet, row: AccountEngagement, facts: AccountFacts) -> People:
    top_id = key_id = None
    if facts.depends_on_one:
        # Finding the user reads all counts of the account.
        points = history.points_by_user(score_set, row.account_id, limit=1)
        top_id = next((user_id for user_id, _ in points), None)
    if alarm := facts.alarms.open.get(Signal.KEY_USER):
        key_id = next(iter(alarm.details.get("users", ())), None)
    return People(_user(score_set, top_id), _user(score_set, key_id))


def _user(score_set: ScoreSet, user_id: int | None) -> TopUser | None:
    if user_id is None:
        return None
    users = User.objects.filter(product_id=score_set.product_id, id=user_id)
    user = users.only("external_id", "traits").first()
    return TopUser(user.pk, user.external_id, user.name) if user else None


# --- Rules ----------------------------------------------------------------------------------


def _activity(facts: AccountFacts, people: People) -> Iterator[Insight]:
    """Whether the account's activity fell, stopped, or rose."""
    kind = _KINDS_BY_STATE.get(facts.activity.state)
    if kind is None:
        return
    alarm = facts.alarms.open[Signal.RISE if kind == "trend_up" else Signal.FALL]
    days, scores = facts.inactive_days, facts.scores
    has_stopped = kind == "activity_stopped" and days is not None
    numbers = sentences.alarm_numbers(alarm) | {"users": facts.total_users}
    if has_stopped and days and facts.last_active_at:
        last_day = facts.last_active_at.astimezone(UTC).date()
        numbers |= {"days": days, "last_active_on": last_day.isoformat()}
    else:
        numbers |= {
            "score": scores.now,
            "score_last_period": scores.last_period,
            "score_change": scores.change,
        }
    text = (
        sentences.describe_stop(alarm, days)
        if has_stopped and days
        else sentences.describe_change(alarm)
    )
    yield Insight(kind, text, numbers)


_KINDS_BY_STATE: dict[str, InsightKind] = {
    "stopped": "activity_stopped",
    "falling": "trend_down",
    "rising": "trend_up",
}


def _one_person(facts: AccountFacts, people: People) -> Iterator[Insight]:
    if not facts.depends_on_one:
        return
    top_user = people.top_user
    share, users = facts.top_user_points / facts.points, facts.total_users
    yield Insight(
        "one_person",
        f"{top_user.label if top_user else 'One user'} accounts for "
        f"{format_percent(share)} of this account’s activity ({users:,} users in total).",
        {"user": top_user._asdict() if top_user else None, "share": share, "total_users": users},
    )


def _breadth_narrowing(facts: AccountFacts, people: People) -> Iterator[Insight]:
    alarm = facts.alarms.open.get(Signal.FEATURE)
    events = alarm.details.get("events", ()) if alarm else ()
    if alarm is None or not events:
        return
    names = [f"“{event.get('name', '')}”" for event in events]
    if more := names[MAX_EVENTS_NAMED:]:
        names[MAX_EVENTS_NAMED:] = [f"{len(more):,} more"]
    first = events[0]
    yield Insight(
        "breadth_narrowing",
        f"No longer used: {join_texts(names)}. Of {first['comparable']:,} habits comparable to "
        f"the first, {first['ended']:,} ended like this.",
        {
            "events": [{name: event.get(name) for name in _EVENT_NUMBERS} for event in events],
            "since": alarm.since.isoformat(),
        },
    )


_EVENT_NUMBERS = ("name", "since", "window_days", "expected", "comparable", "ended")


def _users_leaving(facts: AccountFacts, people: People) -> Iterator[Insight]:
    alarm = facts.alarms.open.get(Signal.LEAVING)
    if alarm is None:
        return
    numbers = {name: alarm.details.get(name) for name in ("quiet", "regular", "usual_share")}
    yield Insight(
        "users_leaving",
        f"{numbers['quiet']:,} of {numbers['regular']:,} regular users have not been seen for "
        f"{alarm.window_days} days. Of comparable users, {format_percent(numbers['usual_share'])} "
        "have not.",
        {**numbers, "p": alarm.p, "since": alarm.since.isoformat()},
    )


def _key_user_quiet(facts: AccountFacts, people: People) -> Iterator[Insight]:
    alarm = facts.alarms.open.get(Signal.KEY_USER)
    if alarm is None:
        return
    user, share = people.key_user, alarm.details["share"]
    last_day = date.fromisoformat(alarm.details["last_day"])
    days = (facts.today - last_day).days
    yield Insight(
        "key_user_quiet",
        f"{user.label if user else 'The most active user'} has not been seen for {days:,} days. "
        f"Before, {format_percent(share)} of this account’s active user-days were theirs.",
        {
            "user": user._asdict() if user else None,
            "share": share,
            "days": days,
            "last_active_on": last_day.isoformat(),
            "since": alarm.since.isoformat(),
        },
    )


def _seats(facts: AccountFacts, people: People) -> Iterator[Insight]:
    seats, active = licensed_seats(facts.traits), facts.active_users
    if seats is None or facts.has_audience or not facts.compares_seats:
        return
    share = active / seats
    numbers = {"active_users": active, "seats": seats, "license_utilization": share}
    if share > 1:
        yield Insight(
            "seats_exceeded",
            f"More users are active ({active:,}) than seats are licensed ({format_number(seats)}).",
            numbers,
        )
    elif share < UNUSED_SEATS_BELOW and (Signal.LEAVING in facts.alarms.open or _renewal(facts)):
        yield Insight(
            "seats_unused",
            f"Only {active:,} of {format_number(seats)} licensed seats "
            f"{'is' if active == 1 else 'are'} active ({format_percent(share)}).",
            numbers,
        )


def _evaluation_ending(facts: AccountFacts, people: People) -> Iterator[Insight]:
    if facts.has_audience or not _is_evaluation(facts.traits):
        return
    ends = _day(facts.traits, EVALUATION_END_TRAIT) or _day(facts.traits, MAINTENANCE_END_TRAIT)
    if ends and 0 <= (days := (ends - facts.today).days) <= EVALUATION_ENDS_WITHIN_DAYS:
        yield Insight(
            "evaluation_ending",
            f"The evaluation ends {format_in_days(days)} ({format_day(ends)}).",
            {"days": days, "ends_on": ends.isoformat(), "score": facts.scores.now},
        )


def _license_ending(facts: AccountFacts, people: People) -> Iterator[Insight]:
    ends = _near_end(facts)
    if ends is None or facts.has_audience or not _is_cancelled(facts.traits):
        return
    days = (ends - facts.today).days
    yield Insight(
        "license_ending",
        f"The subscription is cancelled and ends {format_in_days(days)} ({format_day(ends)}).",
        {"days": days, "ends_on": ends.isoformat(), "score": facts.scores.now},
    )


def _renewal_at_risk(facts: AccountFacts, people: People) -> Iterator[Insight]:
    ends, state = _renewal(facts), facts.activity.state
    reasons = [_AT_RISK[state]] if state in _AT_RISK else []
    reasons += ["users are leaving"] if Signal.LEAVING in facts.alarms.open else []
    if ends is None or facts.has_audience or not reasons:
        return
    days = (ends - facts.today).days
    yield Insight(
        "renewal_at_risk",
        f"The license is up for renewal {format_in_days(days)} ({format_day(ends)}), and "
        f"{' and '.join(reasons)}.",
        {
            "days": days,
            "ends_on": ends.isoformat(),
            "score_change": facts.scores.change,
            "inactive_days": facts.inactive_days,
        },
    )


_AT_RISK = {"falling": "activity is falling", "stopped": "activity has stopped"}


def _new_account(facts: AccountFacts, people: People) -> Iterator[Insight]:
    if facts.is_new:
        days, created_at = facts.tenure_days, facts.created_at
        yield Insight(
            "new_account",
            f"New: {'created' if created_at else 'first seen'} {format_days_ago(days)}. "
            f"The score is {facts.scores.now}.",
            {"days": days, "score": facts.scores.now},
        )


INSIGHT_RULES: tuple[Callable[[AccountFacts, People], Iterator[Insight]], ...] = (
    _license_ending,
    _renewal_at_risk,
    _activity,
    _evaluation_ending,
    _seats,
    _one_person,
    _breadth_narrowing,
    _users_leaving,
    _key_user_quiet,
    _new_account,
)


# --- Traits ---------------------------------------------------------------------------------


def _is_evaluation(traits: Mapping[str, Any]) -> bool:
    name = _keyword(traits, LICENSE_TYPE_TRAIT)
    return name == EVALUATION or (name.endswith(EVALUATION_ENDING) and name != EDITION_TRIAL)


def _is_cancelled(traits: Mapping[str, Any]) -> bool:
    return _keyword(traits, LICENSE_STATUS_TRAIT) == CANCELLED


def _keyword(traits: Mapping[str, Any], name: str) -> str:
    value = traits.get(name)
    return value.lower() if isinstance(value, str) else ""


def _near_end(facts: AccountFacts) -> date | None:
    """The day on which a license that is no evaluation ends or renews, if that is near."""
    ends = _day(facts.traits, MAINTENANCE_END_TRAIT)
    if ends is None or _is_evaluation(facts.traits):
        return None
    return ends if 0 <= (ends - facts.today).days <= RENEWAL_WITHIN_DAYS else None


def _renewal(facts: AccountFacts) -> date | None:
    """The day on which a license is up for renewal, if that is near. A monthly term and a cancelled
    license have none."""
    ends, traits = _near_end(facts), facts.traits
    starts = _day(traits, LATEST_START_TRAIT) or _day(traits, MAINTENANCE_START_TRAIT)
    is_short = ends is not None and starts is not None and (ends - starts).days < RENEWAL_TERM_DAYS
    return None if is_short or _is_cancelled(traits) else ends


def _day(traits: Mapping[str, Any], name: str) -> date | None:
    return parse_trait_day(traits.get(name))
