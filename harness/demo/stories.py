"""Customers of the demo whose licenses have a story: evaluations that were bought where many people
worked in them, and a quarter in which a higher price drove customers away.

The simulated marketplace prints their licenses, and the generator of the demo's data what their
people did. Both draw the same customers from the same seed and day.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from math import log
from random import Random
from typing import NamedTuple

from harness.demo.population import WEEKDAY_ACTIVITY, Customer, DemoUser, EventUse
from harness.demo.truths import UNCHANGED, Truth
from harness.demo.vocabulary import FAMILY_NAMES, GIVEN_NAMES, Company, Feature
from harness.marketplace.lives import Life, add_months
from harness.marketplace.records import create_site

DAY = timedelta(days=1)

# --- Evaluations ----------------------------------------------------------------------------

# Sites that have no other license, and no other data.
FIRST_SITE = 400
EVALUATION_DAYS = 30
# Past evaluations began between so many days ago.
BEGAN = (45, 345)
# The chance that an evaluation is bought in which many people work, and in which hardly anybody
# does; and the share of days on which a person works in it, and afterwards if it was bought.
BOUGHT = {True: 0.88, False: 0.12}
WORKS = {True: 0.6, False: 0.12}
WORKS_LATER = 0.3
TEAMS = {True: range(4, 10), False: range(1, 3)}
SEATS = (50, 75, 100, 150, 200, 300)
# The running ones: likely to be bought, and not.
RUNNING = ((True, 16), (False, 17))


class Trial(NamedTuple):
    """An evaluation that began on a day; ``is_bought`` is None while it goes on."""

    site: int
    began_on: date
    is_used: bool
    is_bought: bool | None
    seats: int


def trials(seed: int, today: date, past: int) -> Iterator[Trial]:
    """The running evaluations, and so many past ones."""
    chance = Random(f"trials {seed}")
    site = FIRST_SITE
    for is_used, ago in RUNNING:
        yield Trial(site, today - ago * DAY, is_used, None, SEATS[-1])
        site += 1
    for number in range(past):
        ago = BEGAN[0] + number * (BEGAN[1] - BEGAN[0]) // past
        is_used = chance.random() < 0.5
        is_bought = chance.random() < BOUGHT[is_used]
        yield Trial(site, today - ago * DAY, is_used, is_bought, chance.choice(SEATS))
        site += 1


def lives_of_trials(seed: int, own: Iterable[Trial]) -> Iterator[Life]:
    for trial in own:
        site = create_site(seed, trial.site)
        life = Life(trial.site, (site, site), seats=trial.seats)
        life.evaluate(trial.began_on, EVALUATION_DAYS)
        if trial.is_bought:
            life.buy()
        elif trial.is_bought is not None:
            life.expire()
        yield life


def customers_of_trials(
    own: Iterable[Trial],
    features: Iterable[Feature],
    now: datetime,
    company: Callable[[int], Company],
    first_user: int,
    event_days: int,
) -> Iterator[Customer]:
    """What people did in the evaluations, and later if these were bought. The last days have single
    events."""
    today, features = now.astimezone(UTC).date(), tuple(features)[:4]
    for trial in own:
        chance, where = Random(f"trial {trial.site}"), company(trial.site)
        people = []
        for number in range(chance.choice(TEAMS[trial.is_used])):
            joined = trial.began_on + DAY * (chance.randrange(4) if number else 0)
            uses = [
                use
                for day in _active_days(trial, joined, today, chance, is_first=not number)
                for use in _uses(day, features, chance, (today - day).days < event_days)
            ]
            people.append(_person(where, first_user, joined, uses, chance))
            first_user += 1
        seen_at = datetime.combine(trial.began_on, time(7), UTC)
        traits = {
            "name": where.name,
            "domain": where.domain,
            "country": where.country,
            "createdAt": seen_at.isoformat(),
        }
        start = Truth(UNCHANGED, 0)
        yield Customer(where.external_id, traits, seen_at, people, start)


def _active_days(
    trial: Trial, joined: date, today: date, chance: Random, *, is_first: bool
) -> Iterator[date]:
    """The days before today on which somebody worked. Somebody opens it on the first one."""
    ends = trial.began_on + EVALUATION_DAYS * DAY
    until = today if trial.is_bought else min(ends, today)
    for number in range((until - joined).days):
        day = joined + number * DAY
        share = WORKS[trial.is_used] if day < ends else WORKS_LATER
        if chance.random() < share * WEEKDAY_ACTIVITY[day.weekday()] or (is_first and not number):
            yield day


def _uses(
    day: date, features: tuple[Feature, ...], chance: Random, is_single: bool
) -> Iterator[EventUse]:
    for place, feature in enumerate(features):
        if place and chance.random() > feature.share / 2:
            continue
        number = 1 + int(-log(1 - chance.random()) * feature.daily_uses)
        start = datetime.combine(day, time(8), UTC)
        times = sorted(start + timedelta(seconds=chance.randrange(8 * 3600)) for _ in range(number))
        yield EventUse(feature.event, times[-1], number, times if is_single else ())


def _person(
    where: Company, number: int, joined: date, uses: list[EventUse], chance: Random
) -> DemoUser:
    first, first_plain = chance.choice(GIVEN_NAMES)
    family, family_plain = chance.choice(FAMILY_NAMES)
    seen_at = datetime.combine(joined, time(7), UTC)
    traits = {
        "name": f"{first} {family}",
        "email": f"{first_plain}.{family_plain}{number}@{where.domain}",
        "createdAt": seen_at.isoformat(),
    }
    return DemoUser(f"u-{number + 1:07d}", traits, seen_at, uses)


# --- A higher price -------------------------------------------------------------------------

# Customers whose terms end in the last quarter, in the two before it, and in the one after it.
# Until the price went up, nearly all renewed; then most left, a large one among them. A single one
# would be within the interval.
QUARTERS = (-2, -1, 0, 1)
OF_A_QUARTER = 12
PRICE_SITES = range(15, 15 + 2 * OF_A_QUARTER * len(QUARTERS), 2)
PRICE_SEATS = (250, 200, 300, 150)
LARGE, LARGE_SEATS = 4, 600
# Of a quarter, those who stay after the price went up, and those who left before.
STAYING, LEFT = (3, 9), (7,)
PRICE_REASON = "cost"
# On which day of the month terms end, and how many days before that customers say that they leave.
FIRST_END, BETWEEN_ENDS, SAID_BEFORE = 10, 5, 4


def last_quarter(today: date) -> date:
    """The first day of the last calendar quarter that is over."""
    return add_months(today.replace(day=1), -3 - (today.month - 1) % 3)


def lives_with_a_higher_price(seed: int, today: date) -> Iterator[Life]:
    """Customers who renewed each year, until the price went up."""
    for place, site_number in enumerate(PRICE_SITES):
        quarter, number = divmod(place, OF_A_QUARTER)
        month, of_month = divmod(number, 4)
        first_day = add_months(last_quarter(today), 3 * QUARTERS[quarter] + month)
        ends = first_day + DAY * (FIRST_END + of_month * BETWEEN_ENDS - 1)
        site = create_site(seed, site_number)
        seats = LARGE_SEATS if number == LARGE else PRICE_SEATS[number % len(PRICE_SEATS)]
        life = Life(site_number, (site, site), seats=seats)
        life.purchase(add_months(ends, -24))
        life.renew()
        leaves = number not in STAYING if QUARTERS[quarter] == 0 else number in LEFT
        if ends <= today and not leaves:
            life.renew()
        elif ends <= today:
            life.cancel(ends - SAID_BEFORE * DAY, PRICE_REASON)
            life.lapse()
        yield life
