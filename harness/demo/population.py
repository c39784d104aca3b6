"""Synthetic customers, their people, and what these do each day.

The same seed, size, and time make the same population. Each customer follows a story: most are
steady; some rise, fall, go quiet, have just started, or have never really started. A few are very
large and most are small. A few people do most of the work, and hardly any of it on weekends.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from math import log
from random import Random
from typing import Any, NamedTuple, TypeAlias

from harness.demo import vocabulary
from harness.demo.vocabulary import Catalog, Company, Feature

# Relative activity by weekday, Monday first.
WEEKDAY_ACTIVITY = (1.0, 1.05, 1.05, 1.0, 0.85, 0.14, 0.1)
# A smaller number gives a few customers more of the people.
CONCENTRATION = 1.4
# The chance that an active person uses one of their features on a day.
DAILY_FEATURE_CHANCE = 0.4
WORKDAY_SECONDS = 9 * 3600
_DAY_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Size:
    """The number of customers, of people in total, and of days until today.

    The last ``event_days`` days get single events, the others daily counts. ``activity`` is the
    share of days on which an average person uses the product.
    """

    accounts: int
    users: int
    days: int = 90
    event_days: int = 0
    activity: float = 0.25


class EventUse(NamedTuple):
    """One person's uses of one event on one day; ``times`` has the single events, if any."""

    event: str
    last_at: datetime
    event_count: int
    times: Sequence[datetime]


class DemoUser(NamedTuple):
    """A person who works for a customer."""

    external_id: str
    traits: dict[str, Any]
    seen_at: datetime
    event_uses: list[EventUse]


class Customer(NamedTuple):
    """An account and its people."""

    external_id: str
    traits: dict[str, Any]
    seen_at: datetime
    people: list[DemoUser]


# The activity of a customer on each day.
ActivityCurve: TypeAlias = list[float]


def generate(
    catalog: Catalog,
    size: Size,
    now: datetime,
    seed: int,
    company: Callable[[int], Company] = vocabulary.company,
) -> Iterator[Customer]:
    """Yields the customers of the population; *company* names them by number."""
    chance = Random(seed)
    world = _World(catalog, size, now, chance)
    first_user = 0
    for number, users in enumerate(_team_sizes(size, chance)):
        yield world.customer(company(number), first_user, users)
        first_user += users


def _team_sizes(size: Size, chance: Random) -> Iterator[int]:
    """The number of people of each customer. The sum is ``size.users``.

    Each customer has at least one person if there are enough.
    """
    shares = array("d", (chance.paretovariate(CONCENTRATION) for _ in range(size.accounts)))
    each = 1 if size.users >= size.accounts else 0
    total, remaining, cumulated, assigned = sum(shares), size.users - each * size.accounts, 0.0, 0
    for share in shares:
        cumulated += share
        until = min(remaining, round(remaining * cumulated / total))
        yield each + until - assigned
        assigned = until


class _World:
    """What all customers of a population share."""

    def __init__(self, catalog: Catalog, size: Size, now: datetime, chance: Random) -> None:
        self._features = catalog.features
        self._size = size
        self._now = now.astimezone(UTC)
        self._chance = chance
        today = self._now.date()
        first = today - timedelta(days=size.days - 1)
        self._midnights = [
            datetime.combine(first + timedelta(days=n), time(), UTC) for n in range(size.days)
        ]
        self._week = [WEEKDAY_ACTIVITY[midnight.weekday()] for midnight in self._midnights]
        self._elapsed = int((self._now - self._midnights[-1]).total_seconds())
        self._week[-1] *= self._elapsed / _DAY_SECONDS

    def customer(self, company: Company, first_user: int, users: int) -> Customer:
        chance = self._chance
        start, curve = self._activity()
        created_at = self._creation_time(start)
        seen_at = max(created_at, self._midnights[0])
        plan = next(plan for least, plan in vocabulary.PLANS if users >= least)
        traits = {
            "name": company.name,
            "domain": company.domain,
            "country": company.country,
            "industry": chance.choice(vocabulary.INDUSTRIES),
            "plan": plan,
            "status": "paying" if vocabulary.PRICES[plan] else "free",
            "mrr": vocabulary.PRICES[plan] * users,
            "createdAt": created_at.isoformat(),
        }
        opens = min(max(8 - company.hours, 0), 14) * 3600
        addresses: set[str] = set()
        people = [
            self._person(company, first_user + n, start, curve, opens, addresses, n == 0)
            for n in range(users)
        ]
        return Customer(company.external_id, traits, seen_at, people)

    def _activity(self) -> tuple[int, ActivityCurve]:
        """The day on which the customer starts (negative: before the first day), and its curve."""
        days, chance = self._size.days, self._chance
        story = chance.choices(_STORIES, _WEIGHTS)[0]
        start, levels = story(days, chance)
        return start, [level * week for level, week in zip(levels, self._week, strict=True)]

    def _creation_time(self, day: int) -> datetime:
        """A random time on the day with this number, but not in the future."""
        seconds = self._chance.randrange(_DAY_SECONDS)
        created_at = self._midnights[0] + timedelta(days=day, seconds=seconds)
        return min(created_at, self._now - timedelta(minutes=1))

    def _person(
        self,
        company: Company,
        number: int,
        start: int,
        curve: ActivityCurve,
        opens: int,
        addresses: set[str],
        is_first: bool,
    ) -> DemoUser:
        chance = self._chance
        given_name, given_plain = chance.choice(vocabulary.GIVEN_NAMES)
        family, family_plain = chance.choice(vocabulary.FAMILY_NAMES)
        address = f"{given_plain}.{family_plain}"
        if address in addresses:
            address = f"{address}{len(addresses)}"
        addresses.add(address)
        # Colleagues join one by one after the customer has started.
        joins = start if is_first else start + int(chance.expovariate(1 / 60))
        created_at = self._creation_time(min(joins, self._size.days - 1))
        traits = {
            "name": f"{given_name} {family}",
            "email": f"{address}@{company.domain}",
            "role": "admin" if is_first else chance.choice(vocabulary.ROLES),
            "language": chance.choice(vocabulary.LANGUAGES),
            "createdAt": created_at.isoformat(),
        }
        seen_at = max(created_at, self._midnights[0])
        event_uses = self._event_uses(seen_at, curve, opens)
        return DemoUser(f"u-{number + 1:07d}", traits, seen_at, event_uses)

    def _repertoire(self) -> list[Feature]:
        """The features that a person uses; the first one always."""
        random = self._chance.random
        return [feature for feature in self._features if random() < feature.share]

    def _event_uses(self, seen_at: datetime, curve: ActivityCurve, opens: int) -> list[EventUse]:
        """What a person did on all days since the first one."""
        random = self._chance.random
        rate = self._size.activity * self._chance.lognormvariate(0.0, 0.8)
        repertoire = self._repertoire()
        single_from = self._size.days - self._size.event_days
        first, last = (seen_at - self._midnights[0]).days, self._size.days - 1
        uses: list[EventUse] = []
        for day in range(first, last + 1):
            if random() >= min(rate, 0.97) * curve[day]:
                continue
            start, seconds = (opens, WORKDAY_SECONDS) if day < last else (0, self._elapsed)
            midnight = self._midnights[day]
            earliest = seen_at if day == first else midnight
            for position, feature in enumerate(repertoire):
                if position and random() >= DAILY_FEATURE_CHANCE:
                    continue
                count = 1 + int(-log(1.0 - random()) * feature.daily_uses)
                if day < single_from:
                    at = midnight + timedelta(0, start + random() * seconds)
                    uses.append(EventUse(feature.event, max(earliest, at), count, ()))
                    continue
                times = sorted(
                    max(earliest, midnight + timedelta(0, start + random() * seconds))
                    for _ in range(count)
                )
                uses.append(EventUse(feature.event, times[-1], count, times))
        return uses


# --- Stories --------------------------------------------------------------------------------

# The largest age in days of a customer on the first day.
_LONGEST_AGO = 900


def _long_ago(chance: Random) -> int:
    return -chance.randrange(1, _LONGEST_AGO)


def _steady(days: int, chance: Random) -> tuple[int, ActivityCurve]:
    level = chance.uniform(0.6, 1.2)
    return _long_ago(chance), [level] * days


def _rising(days: int, chance: Random) -> tuple[int, ActivityCurve]:
    return _long_ago(chance), _slope(days, chance.uniform(0.15, 0.5), chance.uniform(1.2, 2.0))


def _falling(days: int, chance: Random) -> tuple[int, ActivityCurve]:
    return _long_ago(chance), _slope(days, chance.uniform(1.0, 1.8), chance.uniform(0.05, 0.4))


def _sleeping(days: int, chance: Random) -> tuple[int, ActivityCurve]:
    """Active until some day, and then no more."""
    ends = chance.randrange(days // 4, days * 4 // 5 + 1)
    level = chance.uniform(0.6, 1.4)
    return _long_ago(chance), [level if day < ends else 0.0 for day in range(days)]


def _joining(days: int, chance: Random) -> tuple[int, ActivityCurve]:
    start = chance.randrange(days * 3 // 4, days)
    return start, _slope(days, 0.4, 1.5)


def _dabbling(days: int, chance: Random) -> tuple[int, ActivityCurve]:
    return _long_ago(chance), [0.06] * days


def _slope(days: int, start: float, end: float) -> ActivityCurve:
    step = (end - start) / max(1, days - 1)
    return [start + step * day for day in range(days)]


_STORIES = (_steady, _rising, _falling, _sleeping, _joining, _dabbling)
_WEIGHTS = (50, 12, 12, 10, 8, 8)
