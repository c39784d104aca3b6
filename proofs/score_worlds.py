"""Worlds for ``proofs.scores``: daily counts of accounts by event name, and renewals whose chances
follow from what was done before.

Accounts have sizes of a long tail, arrive within two years, grow or shrink, have weeks, Augusts,
good and bad months, and habits of their own in what they use. Some stop. Each renews once a year,
or every 30 days to be dormant or not. Nothing here knows the rules that it tests.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

DAYS = 1_200
# Before it, nothing is decided: no account has a history.
FIRST_DECISION = 400
# Decisions fall on the activity of this many days before.
HORIZON = 30
NAMES = 10
USED = (5.0, 3.0, 2.0)


@dataclass(frozen=True)
class World:
    """What a world is like: how many outcomes, which weights (by event name) and which half-life
    the decisions follow, and how strongly (the slope of the log-odds, for one standard deviation
    of the logarithm of decayed activity). ``bad`` is the share of bad outcomes, about.

    From ``drift_from`` on, a share of the outcomes, the weights are the others' way round.
    ``per_account`` outcomes of an account come a year apart; 12 or more every 30 days. ``habits``
    is how much accounts differ in what they use.
    """

    outcomes: int = 200
    weights: tuple[float, ...] = (*USED, *(0.0,) * (NAMES - len(USED)))
    half_life: float = 45.0
    slope: float = 2.0
    bad: float = 0.3
    drift_from: float = 1.0
    per_account: int = 2
    habits: float = 1.5


@dataclass(frozen=True)
class Planted:
    """Daily counts (accounts, days, names), and outcomes in the order of their days: the row of the
    account, the day of the decision, whether it was good, and its true chance to be."""

    counts: Array
    accounts: Array
    days: Array
    is_good: Array
    chances: Array


def build(world: World, seed: int) -> Planted:
    chance = np.random.default_rng([seed, world.outcomes, world.per_account])
    number = math.ceil(world.outcomes / world.per_account)
    arrivals, counts = _activity(chance, number, world.habits)
    step = 365 if world.per_account < 12 else 30
    first = FIRST_DECISION + chance.integers(0, 60 if step == 365 else 300, number)
    first = np.where(step == 365, arrivals + 365, np.maximum(first, arrivals + 60))
    days = (first[:, None] + step * np.arange(world.per_account)).ravel()
    accounts = np.repeat(np.arange(number), world.per_account)
    order = np.argsort(days, kind="stable")
    order = np.sort(order[np.argsort(chance.random(len(order)))][: world.outcomes])
    order = order[np.argsort(days[order], kind="stable")]
    accounts, days = accounts[order], np.minimum(days[order], DAYS - 1)
    habits = decayed(counts, accounts, days - HORIZON, world.half_life)
    weights = np.array(world.weights)
    odds = _odds(habits @ weights, world)
    late = np.arange(len(days)) >= world.drift_from * len(days)
    odds = np.where(late, _odds(habits @ weights[::-1], world), odds)
    chances = 1 / (1 + np.exp(-odds))
    return Planted(counts, accounts, days, chance.random(len(days)) < chances, chances)


def _odds(activity: Array, world: World) -> Array:
    level = np.log1p(activity)
    standard = (level - level.mean()) / max(level.std(), 1e-9)
    odds: Array = math.log(1 / world.bad - 1) * (1 + world.slope / 4) + world.slope * standard
    return odds


def decayed(counts: Array, accounts: Array, days: Array, half_life: float) -> Array:
    """The counts of each name until the day, those before it counting less."""
    ages = np.arange(counts.shape[1])
    sums = np.empty((len(days), counts.shape[2]))
    for row, (account, day) in enumerate(zip(accounts, days, strict=True)):
        sums[row] = (2.0 ** (-ages[day::-1] / half_life)) @ counts[account, : day + 1]
    return sums


def _activity(chance: np.random.Generator, number: int, spread: float) -> tuple[Array, Array]:
    arrivals = chance.integers(0, 2 * 365 - HORIZON, number) - 330
    days = np.arange(DAYS)
    age = days - arrivals[:, None]
    size = np.exp(chance.normal(0.0, 0.7, number))
    # Good and bad months: a level that drifts, and comes back slowly.
    months = DAYS // 30 + 2
    level = np.zeros((number, months))
    for month in range(1, months):
        level[:, month] = 0.85 * level[:, month - 1] + chance.normal(0, 0.35, number)
    growth = chance.normal(0, 0.4, number)[:, None] * np.clip(age, 0, None) / 365
    stops = arrivals + chance.exponential(8000, number)
    rates = np.exp(level[:, days // 30] + growth) * size[:, None]
    rates *= np.where(days % 7 < 5, 1.25, 0.35) * np.where((days % 365) // 30 == 7, 0.7, 1.0)
    rates *= (age >= 0) & (days < stops[:, None])
    # Names have a popularity, and each account its own habits in them, which change by the quarter.
    popularity = np.exp(chance.normal(-1.2, 0.5, NAMES))
    habits = np.exp(chance.normal(0, spread, (number, 1, NAMES)))
    quarters = np.exp(chance.normal(0, 0.5, (number, DAYS // 90 + 1, NAMES)))
    counts = np.empty((number, DAYS, NAMES), np.uint16)
    for name in range(NAMES):
        own = habits[:, :, name] * quarters[:, days // 90, name] * popularity[name]
        counts[:, :, name] = chance.poisson(np.minimum(rates * own, 500))
    return arrivals, counts


def independent(world: World) -> World:
    """The world with outcomes that nothing predicts."""
    return replace(world, slope=0.0)
