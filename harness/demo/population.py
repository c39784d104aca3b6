"""Synthetic customers, their people, and what these do each day.

The same seed, size, and time make the same population. Each customer has a planted truth
(``harness.demo.truths``): most never change; some halve, stop, double, lose users, or drop a
feature on some day. What makes that hard to see is planted, too: people with habits and vacations,
holidays by country, and weeks that differ by chance. A few customers are very large and most are
small. A few people do most of the work, and hardly any of it on weekends.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from math import log
from random import Random
from typing import Any, NamedTuple

from harness.demo import truths, vocabulary
from harness.demo.calendar import holiday_activity
from harness.demo.truths import Truth
from harness.demo.vocabulary import Catalog, Company, Feature

# Relative activity by weekday, Monday first.
WEEKDAY_ACTIVITY = (1.0, 1.05, 1.05, 1.0, 0.85, 0.14, 0.1)
# The share of customers that work as much on weekends.
WEEKEND_WORKERS = 0.07
# A customer's week differs by chance from the week before: the standard deviation, and the share of
# it that stays for a week.
WEEK_NOISE, WEEK_MEMORY = 0.12, 0.5
# Vacations of one to three weeks, a person and day.
VACATIONS_PER_DAY = 4 / 546
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
    truth: Truth


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
        self._month_ends = [
            2.5 if midnight.day <= 2 or (midnight + timedelta(days=5)).day <= 5 else 0.1
            for midnight in self._midnights
        ]

    def customer(self, company: Company, first_user: int, users: int) -> Customer:
        chance = self._chance
        truth = truths.plant(self._size.days, users, self._features, chance)
        curve = self._activity(truth, company.country)
        created_at = self._creation_time(truth.start)
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
            **truth.traits(self._midnights[0].date()),
        }
        opens = min(max(8 - company.hours, 0), 14) * 3600
        addresses: set[str] = set()
        people = [
            self._person(company, first_user + n, truth, curve, opens, addresses, n == 0)
            for n in range(users)
        ]
        return Customer(company.external_id, traits, seen_at, people, truth)

    def _activity(self, truth: Truth, country: str) -> list[float]:
        """The customer's activity on each day."""
        chance = self._chance
        level = truth.level * chance.lognormvariate(0.0, 0.35)
        week = [1.0] * len(self._week) if chance.random() < WEEKEND_WORKERS else self._week
        noise, curve = 0.0, []
        step = WEEK_NOISE * (1 - WEEK_MEMORY**2) ** 0.5
        for day, midnight in enumerate(self._midnights):
            if day % 7 == 0:
                noise = WEEK_MEMORY * noise + chance.gauss(0.0, step)
            change = truth.factor if truth.day is not None and day >= truth.day else 1.0
            holiday = holiday_activity(country, midnight.month, midnight.day)
            curve.append(level * change * holiday * max(0.0, 1 + noise) * week[day])
        curve[-1] *= self._elapsed / _DAY_SECONDS
        return curve

    def _creation_time(self, day: int) -> datetime:
        """A random time on the day with this number, but not in the future."""
        seconds = self._chance.randrange(_DAY_SECONDS)
        created_at = self._midnights[0] + timedelta(days=day, seconds=seconds)
        return min(created_at, self._now - timedelta(minutes=1))

    def _person(
        self,
        company: Company,
        number: int,
        truth: Truth,
        curve: list[float],
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
        joins = truth.start if is_first else truth.start + int(chance.expovariate(1 / 60))
        created_at = self._creation_time(min(joins, self._size.days - 1))
        traits = {
            "name": f"{given_name} {family}",
            "email": f"{address}@{company.domain}",
            "role": "admin" if is_first else chance.choice(vocabulary.ROLES),
            "language": chance.choice(vocabulary.LANGUAGES),
            "createdAt": created_at.isoformat(),
        }
        seen_at = max(created_at, self._midnights[0])
        event_uses = self._event_uses(seen_at, curve, opens, truth)
        return DemoUser(f"u-{number + 1:07d}", traits, seen_at, event_uses)

    def _repertoire(self, truth: Truth) -> list[tuple[Feature, int]]:
        """The features that a person uses, and the day on which that ends; the first one always."""
        random, ends = self._chance.random, self._size.days
        dropped_on = ends if truth.day is None else truth.day
        return [
            (feature, dropped_on if feature.event == truth.event else ends)
            for feature in self._features
            if random() < feature.share
        ]

    def _presence(self, truth: Truth) -> list[float]:
        """The person's own factor on each day: a habit, vacations, and a day of leaving."""
        chance, days = self._chance, self._size.days
        habit = chance.random()
        if habit < 0.58:
            factors = [1.0] * days
        elif habit < 0.82:
            weeks = [1.6 if chance.random() < 0.6 else 0.1 for _ in range(days // 7 + 1)]
            factors = [weeks[day // 7] for day in range(days)]
        elif habit < 0.92:
            factors = list(self._month_ends)
        else:
            factors = [0.2] * days
        for _ in range(int(days * VACATIONS_PER_DAY + chance.random())):
            start, length = chance.randrange(days), 7 * chance.randint(1, 3)
            factors[start : start + length] = [0.0] * len(factors[start : start + length])
        if truth.day is not None and chance.random() < truth.leaving:
            factors[truth.day :] = [0.0] * (days - truth.day)
        return factors

    def _event_uses(
        self, seen_at: datetime, curve: list[float], opens: int, truth: Truth
    ) -> list[EventUse]:
        """What a person did on all days since the first one."""
        random = self._chance.random
        rate = self._size.activity * self._chance.lognormvariate(0.0, 0.7)
        repertoire, presence = self._repertoire(truth), self._presence(truth)
        single_from = self._size.days - self._size.event_days
        first, last = (seen_at - self._midnights[0]).days, self._size.days - 1
        uses: list[EventUse] = []
        for day in range(first, last + 1):
            if random() >= min(rate * presence[day], 0.97) * curve[day]:
                continue
            start, seconds = (opens, WORKDAY_SECONDS) if day < last else (0, self._elapsed)
            midnight = self._midnights[day]
            earliest = seen_at if day == first else midnight
            for position, (feature, ends) in enumerate(repertoire):
                if day >= ends or (position and random() >= DAILY_FEATURE_CHANCE):
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
