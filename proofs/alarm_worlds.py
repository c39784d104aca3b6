"""Worlds of accounts whose truth is planted: who is active on which day, and who really changed.

The rich world has what real products have: users with habits, vacations, and successors, accounts
with good and bad weeks, countries with holidays, seasons, late senders, and an outage. The simple
one has users who are active on independent days. Nothing here knows the rules that it tests.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

FIRST_DAY = date(2023, 10, 2)
# A history for the first night, half a year that measures kappa, and a year that is judged.
HISTORY_DAYS, MEASURED_DAYS, JUDGED_DAYS = 168, 182, 366
# Days after a change in which it can be found.
FOLLOWED_DAYS = 91
CHANGES = ("halved", "stopped", "decline", "key user leaves", "40% leave", "doubled")
COUNTRIES = ("DE", "US", "UK", "FR", "BR", "JP")
# Shares of accounts, and the region that the hour of their activity puts them in.
COUNTRY_SHARES, COUNTRY_REGIONS = (0.3, 0.3, 0.12, 0.1, 0.08, 0.1), (1, 2, 1, 1, 2, 0)
STEADY, BURSTY, MONTH_END, RARE = range(4)
HABIT_SHARES = (0.58, 0.24, 0.10, 0.08)
# Users that are simulated at once.
CHUNK = 2_000


@dataclass(frozen=True)
class Kind:
    """What a world is like."""

    name: str
    accounts: int = 2_500
    # Share of accounts that change within the judged year, and what they may do.
    changing: float = 0.15
    changes: tuple[str, ...] = CHANGES
    is_rich: bool = True
    judged_days: int = JUDGED_DAYS

    @property
    def days(self) -> int:
        return HISTORY_DAYS + MEASURED_DAYS + self.judged_days


@dataclass(frozen=True)
class World:
    """Active users of each account (rows) by day (columns), and the truth about each account.

    ``change`` is an index of ``CHANGES`` or -1, ``changed_on`` the first column that is different.
    ``late`` accounts deliver each day two days later. ``outage`` is the first of two columns on
    which nothing arrived, or -1.
    """

    kind: Kind
    users: Array
    sizes: Array
    countries: Array
    regions: Array
    late: Array
    change: Array
    changed_on: Array
    outage: int

    def day(self, column: int) -> date:
        return FIRST_DAY + timedelta(days=column)


def build(kind: Kind, seed: int) -> World:
    chance = np.random.default_rng([seed, len(kind.name), int(1000 * kind.changing), kind.accounts])
    n, days = kind.accounts, kind.days
    sizes = np.clip(np.exp(chance.normal(np.log(3.4), 1.25, n)), 1, 500).astype(int)
    countries = chance.choice(len(COUNTRIES), n, p=COUNTRY_SHARES)
    regions = np.array(COUNTRY_REGIONS)[countries]
    astray = chance.random(n) < 0.1
    regions[astray] = chance.integers(0, 3, astray.sum())
    judged_from = HISTORY_DAYS + MEASURED_DAYS
    change, changed_on = np.full(n, -1), np.full(n, days)
    changing = chance.random(n) < kind.changing
    own = [CHANGES.index(name) for name in kind.changes]
    change[changing] = chance.choice(own, changing.sum())
    # Who is alone cannot be left by some, but changes as others do.
    leave = [CHANGES.index(name) for name in CHANGES[3:5]]
    is_alone = (sizes < 3) & np.isin(change, leave)
    change[is_alone] = chance.choice([kind for kind in own if kind not in leave], is_alone.sum())
    latest = max(days - FOLLOWED_DAYS, judged_from + 1)
    changed_on[changing] = chance.integers(judged_from, latest, changing.sum())
    outage = int(judged_from + kind.judged_days // 3) if kind.is_rich else -1
    late = (chance.random(n) < 0.04) & kind.is_rich

    factors = _accounts_days(kind, chance, countries)
    users = np.zeros((n, days), np.uint16)
    rates = np.exp(chance.normal(np.log(0.22 if kind.is_rich else 0.3), 0.7, n))
    ends = np.cumsum(sizes)
    start = 0
    while start < n:
        stop = int(np.searchsorted(ends, (ends[start - 1] if start else 0) + CHUNK)) + 1
        accounts = slice(start, min(stop, n))
        active = _active(
            kind,
            chance,
            sizes[accounts],
            rates[accounts],
            factors[accounts],
            change[accounts],
            changed_on[accounts],
        )
        users[accounts] = active
        start = stop
    if outage >= 0:
        outage += (7 - FIRST_DAY.weekday() - outage) % 7 + 1
        users[:, outage : outage + 2] = 0
    return World(kind, users, sizes, countries, regions, late, change, changed_on, outage)


def _accounts_days(kind: Kind, chance: np.random.Generator, countries: Array) -> Array:
    """How much more or less active the users of each account are on each day."""
    n, days = kind.accounts, kind.days
    weekday = (np.arange(days) + FIRST_DAY.weekday()) % 7
    factors = np.ones((n, days), np.float32)
    if not kind.is_rich:
        factors[:, weekday >= 5] = 0
        return factors
    weeks = days // 7 + 1
    noise = np.zeros((n, weeks))
    noise[:, 0] = chance.normal(0, 0.12, n)
    for week in range(1, weeks):
        noise[:, week] = 0.7 * noise[:, week - 1] + chance.normal(0, 0.12 * 0.714, n)
    factors *= np.exp(np.repeat(noise, 7, axis=1)[:, :days])
    year = np.arange(days) / 365.25
    factors *= 1 + 0.08 * np.cos(2 * np.pi * (year - 0.1)) + 0.04 * year
    at_weekends = chance.random(n) < 0.07
    factors[np.ix_(~at_weekends, weekday >= 5)] *= 0.04
    for country, name in enumerate(COUNTRIES):
        factors[countries == country] *= _holidays(name, days)
    joins = np.where(chance.random(n) < 0.15, chance.integers(0, days - 60, n), 0)
    factors[np.arange(days) < joins[:, None]] = 0
    return factors


def _holidays(country: str, days: int) -> Array:
    factors = np.ones(days, np.float32)

    def lower(first: date, last: date, factor: float) -> None:
        start, end = (first - FIRST_DAY).days, (last - FIRST_DAY).days + 1
        if end > 0:
            factors[max(start, 0) : end] *= factor

    for year in range(FIRST_DAY.year, FIRST_DAY.year + 4):
        easter = {2023: date(2023, 4, 9), 2024: date(2024, 3, 31), 2025: date(2025, 4, 20)}.get(
            year, date(2026, 4, 5)
        )
        if country == "JP":
            lower(date(year, 12, 29), date(year + 1, 1, 3), 0.1)
            lower(date(year, 4, 29), date(year, 5, 5), 0.2)
            lower(date(year, 8, 11), date(year, 8, 16), 0.35)
        else:
            lower(date(year, 12, 21), date(year, 12, 23), 0.7)
            lower(date(year, 12, 24), date(year + 1, 1, 1), 0.2)
            lower(date(year + 1, 1, 2), date(year + 1, 1, 6), 0.7)
        if country in ("DE", "UK", "FR"):
            lower(easter - timedelta(days=2), easter + timedelta(days=1), 0.15)
            lower(easter - timedelta(days=7), easter + timedelta(days=7), 0.85)
            lower(date(year, 8, 1), date(year, 8, 31), {"FR": 0.55, "DE": 0.8}.get(country, 0.85))
        if country == "BR":
            lower(easter - timedelta(days=50), easter - timedelta(days=46), 0.2)
        if country == "US":
            fourth = 22 + (3 - date(year, 11, 22).weekday()) % 7
            lower(date(year, 11, fourth), date(year, 11, fourth) + timedelta(days=3), 0.15)
    return factors


def _active(
    kind: Kind,
    chance: np.random.Generator,
    sizes: Array,
    rates: Array,
    factors: Array,
    change: Array,
    changed_on: Array,
) -> Array:
    """The number of active users of each account by day."""
    days = kind.days
    account = np.repeat(np.arange(len(sizes)), sizes)
    n = len(account)
    sd = 0.6 if kind.is_rich else 0.4
    usual = np.minimum(rates[account] * np.exp(chance.normal(0, sd, n)), 0.9).astype(np.float32)
    if kind.is_rich:
        p = _habits(chance, usual, days) * factors[account]
        for first, last in _absences(chance, n, days):
            p[(np.arange(days) >= first[:, None]) & (np.arange(days) < last[:, None])] = 0
    else:
        p = usual[:, None] * factors[account]
    _plant(chance, p, usual, account, change[account], changed_on[account])
    active = chance.random((n, days), dtype=np.float32) < p
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return np.add.reduceat(active, starts, axis=0, dtype=np.uint16)


def _habits(chance: np.random.Generator, usual: Array, days: int) -> Array:
    """The chance that each user is active on each working day."""
    n = len(usual)
    p = np.repeat(usual[:, None], days, axis=1)
    habits = chance.choice(4, n, p=HABIT_SHARES)
    rows = np.flatnonzero(habits == BURSTY)
    weeks = days // 7 + 1
    on = np.zeros((len(rows), weeks), bool)
    on[:, 0] = chance.random(len(rows)) < 0.5
    for week in range(1, weeks):
        on[:, week] = on[:, week - 1] ^ (chance.random(len(rows)) < 0.35)
    p[rows] *= np.repeat(np.where(on, 1.8, 0.1), 7, axis=1)[:, :days]
    rows = np.flatnonzero(habits == MONTH_END)
    day_of_month = [(FIRST_DAY + timedelta(days=day)).day for day in range(days)]
    at_end = (np.array(day_of_month) >= 26) | (np.array(day_of_month) <= 2)
    p[rows] *= np.where(at_end, 2.5, 0.02)
    p[habits == RARE] *= 0.2
    return np.asarray(np.minimum(p, 0.95))


def _absences(chance: np.random.Generator, n: int, days: int) -> Iterator[tuple[Array, Array]]:
    """First and last days of vacations, and of the time until somebody follows who left."""
    day_of_year = (np.arange(days) + FIRST_DAY.timetuple().tm_yday) % 365
    weight = np.where((day_of_year > 170) & (day_of_year < 250), 2.5, 1.0)
    for _ in range(round(4 * days / 546)):
        first = chance.choice(days, n, p=weight / weight.sum())
        yield first, first + chance.integers(7, 22, n)
    departure = chance.exponential(600, n)
    for _ in range(3):
        following = departure + chance.exponential(8, n)
        yield departure.astype(int), following.astype(int)
        departure = following + chance.exponential(600, n)


def _plant(
    chance: np.random.Generator,
    p: Array,
    usual: Array,
    account: Array,
    change: Array,
    changed_on: Array,
) -> None:
    """Change the chances of the users whose account changes, from its day on."""
    days = np.arange(p.shape[1])
    for row in np.flatnonzero(change >= 0):
        start, name = changed_on[row], CHANGES[change[row]]
        after = p[row, start:]
        if name == "halved":
            after *= 0.5
        elif name == "stopped":
            after *= 0
        elif name == "doubled":
            np.minimum(after * 2, 0.97, out=after)
        elif name == "decline":
            after *= 0.95 ** np.minimum((days[start:] - start) // 7, 14)
        else:
            own = np.flatnonzero(account == account[row])
            rank = int((usual[own] > usual[row]).sum())
            # The most active user, or 40% of the users whatever they do.
            leaves = rank == 0 if name == "key user leaves" else (row - own[0]) % 5 in (1, 3)
            after *= 0 if leaves else 1
