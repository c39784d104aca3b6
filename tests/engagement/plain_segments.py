"""Members of segments in plain Python, from the messages. The SQL must agree with them.

Written from the definition of metrics and conditions, without looking at how they are queried.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import ceil
from typing import Any

from engagement.rules.steps import Step
from engagement.scores.formula import rounded_score
from tests.engagement import plain
from tests.engagement.plain import Definition, Did

DAY = timedelta(days=1)
# The features of the product, and their events.
FEATURES = {"Sharing": ("shared", "paid")}


@dataclass
class Subject:
    """A user or an account: ``account`` is the user's. ``created`` is what its traits say."""

    name: str
    first_seen: datetime
    traits: dict[str, Any] = field(default_factory=dict)
    created: datetime | None = None
    account: "Subject | None" = None
    events: list[Did] = field(default_factory=list)
    # Of an account: the users whose current account it is, and what happened to its licenses:
    # the type, how many days ago, and whether it was withdrawn.
    members: list[str] = field(default_factory=list)
    license_events: list[tuple[str, int, bool]] = field(default_factory=list)
    # Its chances: the kind of outcome, the chance, and whether it is only the share of all.
    chances: list[tuple[str, float, bool]] = field(default_factory=list)
    owner: str = ""
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class World:
    """Everybody of one scope who is scored, on a day."""

    scope: str
    subjects: list[Subject]
    definition: Definition
    event_names: set[str]
    today: date
    has_audience: bool = False
    steps: Sequence[Step] = ()

    def benchmark(self, day: date) -> float | None:
        events = {subject.name: subject.events for subject in self.subjects}
        return plain.benchmark_on(events, self.definition, day)

    @property
    def scored_event_name_count(self) -> int:
        return sum(1 for name in self.event_names if self.definition.weight(name))


def metrics(subject: Subject, world: World) -> dict[str, float | None]:
    """Every metric of the subject by its name."""
    today, definition = world.today, world.definition
    yesterday, before = today - DAY, today - definition.lookback * DAY
    numbers: dict[str, Any] = plain.account_numbers(
        subject.events, definition, today, subject.members
    )
    now = rounded_score(numbers["raw"], world.benchmark(today))
    then = rounded_score(numbers["raw_last_period"], world.benchmark(before))
    latest = rounded_score(numbers["raw_yesterday"], world.benchmark(yesterday))
    earliest = rounded_score(numbers["raw_yesterday_last_period"], world.benchmark(before - DAY))
    ever = [did.event for did in subject.events if definition.weight(did.event)]
    names = world.scored_event_name_count
    values = {
        "engagement_score": now,
        "raw_score": plain.shown_points(subject.events, definition, today),
        "percentile": percentile(subject, world),
        "score_yesterday": latest,
        "score_last_period": then,
        "score_change": round(now - then, 1),
        "score_change_complete_days": round(latest - earliest, 1),
        "frequency": numbers["active_days"],
        "adoption": numbers["name_count"] / names if names else None,
        "adoption_all_time": len(set(ever)) / names if names else None,
        "recently_scored_events": numbers["event_count"],
        "overall_scored_events": len(ever),
        "tenure_days": max(0, (today - (subject.created or subject.first_seen).date()).days),
    }
    return values if world.scope == "user" else values | of_account(subject, numbers, world)


def of_account(
    subject: Subject, numbers: Mapping[str, Any], world: World
) -> dict[str, float | None]:
    active, users = numbers["active_users"], numbers["total_users"]
    seats: Any = subject.traits.get("am.tier.number")
    usable = type(seats) in (int, float) and 1 <= seats <= 10**9
    # A license covers all users, not only an audience.
    usable = usable and not world.has_audience
    return {
        "active_users": active,
        "total_users": users,
        "active_share": active / users if users else None,
        "license_utilization": active / seats if usable else None,
    }


def percentile(subject: Subject, world: World) -> float:
    """By a thousand quantiles in the middles of a thousand equal shares."""
    scored = sorted(
        plain.raw(other.events, world.definition, world.today)
        for other in world.subjects
        if plain.is_active(other.events, world.definition, world.today)
    )
    if not scored:
        return 0.0
    mine = plain.raw(subject.events, world.definition, world.today)
    places = [ceil(Decimal(2 * n + 1) / 2000 * len(scored)) for n in range(1000)]
    return sum(1 for place in places if scored[place - 1] < mine) / 10


# --- Conditions -----------------------------------------------------------------------------


def members(world: World, match: str, conditions: list[dict[str, Any]]) -> set[str]:
    """The names of the subjects that match all or any of the conditions."""
    combine = all if match == "all" or not conditions else any
    return {
        subject.name
        for subject in world.subjects
        if combine(matches(subject, world, condition) for condition in conditions)
    }


def matches(subject: Subject, world: World, condition: dict[str, Any]) -> bool:
    match condition["kind"]:
        case "metric":
            return compares(metrics(subject, world)[condition["metric"]], condition)
        case "trend":
            change = metrics(subject, world)["score_change"]
            assert change is not None
            trend = "rising" if change >= 10 else "falling" if change <= -10 else "steady"
            return bool(condition["trend"] == trend)
        case "trait":
            return trait_matches(subject.traits, condition)
        case "account_trait":
            return trait_matches(subject.account.traits if subject.account else {}, condition)
        case "event":
            return event_matches(subject, world, condition)
        case "feature":
            return feature_matches(subject, world, condition)
        case "activation":
            return activation_matches(subject, world, condition)
        case "license_event":
            days = condition["within_days"]
            is_known = any(
                type == condition["event"] and not is_withdrawn and 0 <= ago < (days or ago + 1)
                for type, ago, is_withdrawn in subject.license_events
            )
            return is_known is (condition["operator"] == "happened")
        case "chance":
            percent = lowest_percent(subject, condition["chance"])
            if percent is None:
                return False
            return (percent < condition["percent"]) is (condition["operator"] == "below")
        case "owner":
            is_meant = subject.owner == condition["owner"] if condition["owner"] else subject.owner
            return bool(is_meant) is (condition["operator"] in ("is", "is_set"))
        case "tag":
            return (condition["tag"] in subject.tags) is condition["has"]
        case "active":
            return bool(metrics(subject, world)["recently_scored_events"]) is condition["active"]
        case "last_active":
            scored = [did.at for did in subject.events if world.definition.weight(did.event)]
            return bool(scored) and time_matches(max(scored), world, condition)
        case "first_seen":
            return time_matches(subject.first_seen, world, condition)
        case "created":
            return time_matches(subject.created or subject.first_seen, world, condition)
    raise AssertionError(condition)


CHANCE_KINDS = {
    "buy": {"evaluation"},
    "renew": {"renewal"},
    "stay": {"monthly_stay", "trait", "dormancy"},
}


def lowest_percent(subject: Subject, name: str) -> int | None:
    """Rounded, and a half up."""
    own = [
        chance
        for kind, chance, is_share in subject.chances
        if kind in CHANCE_KINDS[name] and not is_share
    ]
    return int(Decimal(str(min(own))) * 100 + Decimal("0.5")) if own else None


def compares(number: float | None, condition: dict[str, Any]) -> bool:
    if number is None:
        return False
    match condition["operator"]:
        case "at_least":
            return bool(number >= condition["value"])
        case "at_most":
            return bool(number <= condition["value"])
    return bool(condition["value"] <= number <= condition["upper"])


def event_matches(subject: Subject, world: World, condition: dict[str, Any]) -> bool:
    days = condition["within_days"]
    times = [
        did
        for did in subject.events
        if did.event == condition["event"]
        and (days is None or 0 <= (world.today - did.at.date()).days < days)
    ]
    return (
        not times if condition["operator"] == "not_done" else bool(len(times) >= condition["times"])
    )


def feature_matches(subject: Subject, world: World, condition: dict[str, Any]) -> bool:
    events = FEATURES.get(condition["feature"], ())
    ages = [(world.today - did.at.date()).days for did in subject.events if did.event in events]
    uses = any(0 <= age < condition["within_days"] for age in ages)
    match condition["operator"]:
        case "uses":
            return uses
        case "stopped":
            return not uses and any(age >= condition["within_days"] for age in ages)
    return not ages


def activation_matches(subject: Subject, world: World, condition: dict[str, Any]) -> bool:
    first = subject.first_seen.date()
    for step in world.steps:
        if not has_done(subject, step, first):
            is_late = world.today >= first + step.within_days * DAY
            state = "stuck" if is_late else "on_the_way"
            return state == condition["state"] and condition["step"] in (None, step.name)
    return bool(world.steps) and condition["state"] == "activated"


def has_done(subject: Subject, step: Step, first: date) -> bool:
    if step.kind == "trait":
        condition = {"trait": step.of, "operator": step.operator, "value": step.value}
        return trait_matches(subject.traits, condition)
    days = [did.at.date() for did in subject.events if did.event == step.of]
    days = [day for day in days if day < first + step.within_days * DAY]
    return len(set(days) if step.unit == "days" else days) >= step.at_least


def time_matches(at: datetime, world: World, condition: dict[str, Any]) -> bool:
    days = world.definition.lookback if condition["days"] == "window" else condition["days"]
    is_within = (world.today - at.date()).days < days
    return bool(is_within) is (condition["operator"] == "within_days")


# --- Traits ---------------------------------------------------------------------------------


def trait_matches(traits: dict[str, Any], condition: dict[str, Any]) -> bool:
    name, value = condition["trait"], condition["value"]
    has, trait = name in traits, traits.get(name)
    match condition["operator"]:
        case "is":
            return has and same(trait, value)
        case "is_not":
            return not (has and same(trait, value))
        case "is_ignoring_case":
            return has and same_ignoring_case(trait, value)
        case "is_not_ignoring_case":
            return not (has and same_ignoring_case(trait, value))
        case "contains":
            return contains(trait, value)
        case "is_set":
            return has
        case "is_not_set":
            return not has
        case "at_least" | "at_most":
            number, than = number_of(trait), Decimal(str(value))
            if number is None:
                return False
            return number >= than if condition["operator"] == "at_least" else number <= than
    day = day_of(trait)
    if day is None:
        return False
    other = date.fromisoformat(value)
    return day < other if condition["operator"] == "before" else day > other


def same(trait: Any, text: str) -> bool:
    if isinstance(trait, str):
        return trait == text
    if isinstance(trait, bool):
        return text == str(trait).lower()
    if isinstance(trait, int | float):
        number = re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", text, re.ASCII)
        return number is not None and Decimal(text) == Decimal(repr(trait))
    return False


def same_ignoring_case(trait: Any, text: str) -> bool:
    if isinstance(trait, str):
        return trait.lower() == text.lower()
    return same(trait, text.lower())


def contains(trait: Any, text: str) -> bool:
    if isinstance(trait, str):
        return text.lower() in trait.lower()
    entries = trait if isinstance(trait, list) else []
    numbers = {
        format(Decimal(repr(entry)), "f")
        for entry in entries
        if isinstance(entry, int | float) and not isinstance(entry, bool)
    }
    texts = {entry.lower() for entry in entries if isinstance(entry, str)}
    return text.lower() in texts | numbers


def number_of(trait: Any) -> Decimal | None:
    if isinstance(trait, int | float) and not isinstance(trait, bool):
        return Decimal(repr(trait))
    if isinstance(trait, str) and re.fullmatch(r"[-+]?\d+(\.\d+)?", trait, re.ASCII):
        return Decimal(trait)
    return None


DATE = re.compile(
    r"(\d{4}-\d\d-\d\d)([T ](\d\d:\d\d)(:\d\d([.,]\d{1,9})?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII
)


def day_of(trait: Any) -> date | None:
    """The UTC day of an ISO 8601 date or time."""
    parts = DATE.fullmatch(trait) if isinstance(trait, str) else None
    if parts is None:
        return None
    zone = (parts[6] or "Z").replace("Z", "+00").replace(":", "")
    seconds = (parts[4] or ":00")[:3]
    try:
        local = datetime.fromisoformat(f"{parts[1]}T{parts[3] or '00:00'}{seconds}")
        offset = datetime.strptime((zone + "00")[:5], "%z").utcoffset()
    except ValueError:
        return None
    assert offset is not None
    return (local - offset).replace(tzinfo=UTC).date()
