"""Worlds of renewals with known hazards, month by month, as the forecast sees them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

from outcomes.forecasts.results import PastCount, Term, month_after
from outcomes.statistics.normal import Z

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class World:
    """``terms`` a month, each with a chance of ``mean`` in the middle, which differs by ``spread``
    in log-odds between accounts.

    Months differ by ``shift`` in log-odds. An account has ``per_account`` terms a month, all of
    which renew or none. One has the share ``largest`` of all seats. With ``learned_from``
    outcomes, chances are estimates: the rate of all and each account's log-odds have errors, which
    the intervals tell.
    """

    terms: int = 300
    mean: float = 0.85
    spread: float = 0.8
    shift: float = 0.0
    per_account: int = 1
    largest: float = 0.0
    learned_from: int | None = None


@dataclass(frozen=True)
class Month:
    """What a forecast knows of a month, and what became of each term."""

    terms: Sequence[Term]
    renews: Array

    @property
    def renewed(self) -> int:
        return sum(
            t.seats or 0 for t, renews in zip(self.terms, self.renews, strict=True) if renews
        )

    @property
    def count(self) -> PastCount:
        chances = np.array([term.chance for term in self.terms])
        accounts = np.array([term.account for term in self.terms])
        deviations = np.bincount(accounts, np.sqrt(chances * (1 - chances)))
        return PastCount(
            float(self.renews.sum()), float(chances.sum()), float(deviations @ deviations)
        )


def months(world: World, number: int, seed: int) -> Iterator[Month]:
    """So many months, one after the other. The error of the learned rate stays for twelve."""
    chance = np.random.default_rng(seed)
    error = 0.0
    for place in range(number):
        if place % 12 == 0 and world.learned_from:
            error = float(chance.normal(0, _rate_error(world)))
        yield _month(world, place, error, chance)


def _rate_error(world: World) -> float:
    rate = world.mean
    return 1 / float(np.sqrt((world.learned_from or 1) * rate * (1 - rate)))


def _month(world: World, place: int, error: float, chance: np.random.Generator) -> Month:
    size = world.terms
    account = np.arange(size) // world.per_account
    accounts = int(account.max()) + 1
    middle = np.log(world.mean / (1 - world.mean))
    odds = middle + chance.normal(0, world.spread, accounts)
    deviation = np.full(accounts, 2 * _rate_error(world) if world.learned_from else 0.0)
    own = np.sqrt(np.maximum(deviation**2 - _rate_error(world) ** 2, 0)) if error else 0
    truth = odds + error + chance.normal(0, 1, accounts) * own + chance.normal(0, world.shift)
    renews = (chance.random(accounts) < 1 / (1 + np.exp(-truth)))[account]
    seats = np.ceil(np.exp(chance.normal(3, 1.2, size))).astype(int)
    if world.largest:
        seats[0] = max(1, round(seats[1:].sum() * world.largest / (1 - world.largest)))
    day = month_after(date(2020, 1, 1), place)
    sides = (1 / (1 + np.exp(-(odds + side * Z * deviation)))[account] for side in (0, -1, 1))
    rows = zip(account, seats, *sides, strict=True)
    terms = [
        Term(
            license=f"{place} {number}",
            account=int(of),
            day=day,
            month=0,
            seats=int(own_seats),
            cents=None,
            chance=float(middle_chance),
            low=float(low),
            high=float(high),
            outcomes=world.learned_from or 1_000_000,
            score=None,
        )
        for number, (of, own_seats, middle_chance, low, high) in enumerate(rows)
    ]
    return Month(terms, renews)
