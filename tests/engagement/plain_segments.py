"""Members of segments in plain Python, from the messages. The SQL must agree with them.

Written from the definition of metrics and conditions, without looking at how they are queried.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import ceil
from typing import Any

from engagement.scores.formula import rounded_score
from tests.engagement import plain
from tests.engagement.plain import Definition, Did

DAY = timedelta(days=1)


@dataclass
class Subject:
    """A user or an account: ``account`` is the user's. ``created`` is what its traits say."""

    name: str
    first_seen: datetime
    traits: dict[str, Any] = field(default_factory=dict)
    created: datetime | None = None
    account: "Subject | None" = None
    events: list[Did] = field(default_factory=list)
    # Of an account: the users whose current account it is.
    members: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class World:
    """Everybody of one scope who is scored, on a day."""

    scope: str
    subjects: list[Subject]
    definition: Definition
    event_names: set[str]
    today: date

    def benchmark(self, day: date) -> float | None:
        return plain.benchmark(plain.raw(one.events, self.definition, day) for one in self.subjects)

    @property
    def scored_event_name_count(self) -> int:
        return sum(1 for name in self.event_names if self.definition.weight(name))


def metrics(one: Subject, world: World) -> dict[str, float | None]:
    """Every metric of the subject by its name."""
    today, definition = world.today, world.definition
    yesterday, before = today - DAY, today - definition.lookback * DAY
    numbers: dict[str, Any] = plain.account_numbers(one.events, definition, today, one.members)
    now = rounded_score(numbers["raw"], world.benchmark(today))
    then = rounded_score(numbers["raw_last_period"], world.benchmark(before))
    ever = [did.event for did in one.events if definition.weight(did.event)]
    names = world.scored_event_name_count
    found = {
        "engagement_score": now,
        "raw_score": numbers["raw"],
        "percentile": percentile(one, world),
        "score_yesterday": rounded_score(numbers["raw_yesterday"], world.benchmark(yesterday)),
        "score_last_period": then,
        "score_change": round(now - then, 1),
        "frequency": numbers["active_days"],
        "adoption": numbers["name_count"] / names if names else None,
        "adoption_all_time": len(set(ever)) / names if names else None,
        "recently_scored_events": numbers["event_count"],
        "overall_scored_events": len(ever),
        "tenure_days": max(0, (today - (one.created or one.first_seen).date()).days),
    }
    return found if world.scope == "user" else found | of_account(one, numbers)


def of_account(one: Subject, numbers: Mapping[str, Any]) -> dict[str, float | None]:
    active, users = numbers["active_users"], numbers["total_users"]
    seats: Any = one.traits.get("am.tier.number")
    usable = type(seats) in (int, float) and 1 <= seats <= 10**9
    return {
        "active_users": active,
        "total_users": users,
        "active_share": active / users if users else None,
        "license_utilization": active / seats if usable else None,
    }


def percentile(one: Subject, world: World) -> float:
    """By a thousand quantiles in the middles of a thousand equal shares."""
    raws = sorted(
        plain.raw(other.events, world.definition, world.today) for other in world.subjects
    )
    scored = [raw for raw in raws if raw > 0]
    if not scored:
        return 0.0
    mine = plain.raw(one.events, world.definition, world.today)
    places = [ceil(Decimal(2 * n + 1) / 2000 * len(scored)) for n in range(1000)]
    return sum(1 for place in places if scored[place - 1] < mine) / 10


# --- Conditions -----------------------------------------------------------------------------


def members(world: World, match: str, conditions: list[dict[str, Any]]) -> set[str]:
    """The names of the subjects that match all or any of the conditions."""
    together = all if match == "all" or not conditions else any
    return {
        one.name
        for one in world.subjects
        if together(met(one, world, condition) for condition in conditions)
    }


def met(one: Subject, world: World, asked: dict[str, Any]) -> bool:
    match asked["kind"]:
        case "metric":
            return compares(metrics(one, world)[asked["metric"]], asked)
        case "trend":
            change = metrics(one, world)["score_change"]
            assert change is not None
            trend = "rising" if change >= 10 else "falling" if change <= -10 else "steady"
            return bool(asked["trend"] == trend)
        case "trait":
            return trait_meets(one.traits, asked)
        case "account_trait":
            return trait_meets(one.account.traits if one.account else {}, asked)
        case "event":
            return event_met(one, world, asked)
        case "active":
            return bool(metrics(one, world)["recently_scored_events"]) is asked["active"]
        case "last_active":
            scored = [did.at for did in one.events if world.definition.weight(did.event)]
            return bool(scored) and time_meets(max(scored), world, asked)
        case "first_seen":
            return time_meets(one.first_seen, world, asked)
        case "created":
            return time_meets(one.created or one.first_seen, world, asked)
    raise AssertionError(asked)


def compares(number: float | None, asked: dict[str, Any]) -> bool:
    if number is None:
        return False
    match asked["operator"]:
        case "at_least":
            return bool(number >= asked["value"])
        case "at_most":
            return bool(number <= asked["value"])
    return bool(asked["value"] <= number <= asked["upper"])


def event_met(one: Subject, world: World, asked: dict[str, Any]) -> bool:
    days = asked["within_days"]
    done = [
        did
        for did in one.events
        if did.event == asked["event"]
        and (days is None or 0 <= (world.today - did.at.date()).days < days)
    ]
    return not done if asked["operator"] == "not_done" else bool(len(done) >= asked["times"])


def time_meets(at: datetime, world: World, asked: dict[str, Any]) -> bool:
    days = world.definition.lookback if asked["days"] == "window" else asked["days"]
    is_within = (world.today - at.date()).days < days
    return bool(is_within) is (asked["operator"] == "within_days")


# --- Traits ---------------------------------------------------------------------------------


def trait_meets(traits: dict[str, Any], asked: dict[str, Any]) -> bool:
    name, value = asked["trait"], asked["value"]
    has, trait = name in traits, traits.get(name)
    match asked["operator"]:
        case "is":
            return has and same(trait, value)
        case "is_not":
            return not (has and same(trait, value))
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
            return number >= than if asked["operator"] == "at_least" else number <= than
    day = day_of(trait)
    if day is None:
        return False
    other = date.fromisoformat(value)
    return day < other if asked["operator"] == "before" else day > other


def same(trait: Any, text: str) -> bool:
    if isinstance(trait, str):
        return trait == text
    if isinstance(trait, bool):
        return text == str(trait).lower()
    if isinstance(trait, int | float):
        written = re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", text, re.ASCII)
        return written is not None and Decimal(text) == Decimal(repr(trait))
    return False


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
    found = DATE.fullmatch(trait) if isinstance(trait, str) else None
    if found is None:
        return None
    zone = (found[6] or "Z").replace("Z", "+00").replace(":", "")
    seconds = (found[4] or ":00")[:3]
    try:
        local = datetime.fromisoformat(f"{found[1]}T{found[3] or '00:00'}{seconds}")
        offset = datetime.strptime((zone + "00")[:5], "%z").utcoffset()
    except ValueError:
        return None
    assert offset is not None
    return (local - offset).replace(tzinfo=UTC).date()
