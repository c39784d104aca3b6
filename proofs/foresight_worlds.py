"""Worlds for ``proofs.foresight``: evaluations whose chances to be bought follow from what was done
in them. Nothing here knows the rules that it tests.

Customers have sizes of a long tail. Their users come one by one, use more or less, have weekends,
and stop at times. What decides differs by world: how many take part, how much of the last week they
work with it, how much of what they asked for they use, or nothing at all.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

NAMES, DAYS = 12, 30
FIRST = date(2022, 1, 3)
# Over which evaluations begin.
SPAN_DAYS = 900
DECISIONS = ("team", "week", "seats", "nothing")


@dataclass(frozen=True)
class Evaluations:
    """Evaluations in the order of their first days: the features of an account at the end of a day
    of the evaluation (a row each, in the order of ``Feature``), the first days, the days on which
    the outcome was known, whether it was bought, and the true chance."""

    features: Array
    began_on: list[date]
    known_on: list[date]
    is_good: Array
    chances: Array


def evaluations(number: int, decision: str, age: int, seed: int, bought: float) -> Evaluations:
    """So many evaluations of which about the share *bought* (0 to 1) was, looked at on the day
    *age* of each."""
    chance = np.random.default_rng([seed, number, age, DECISIONS.index(decision)])
    starts = np.sort(chance.integers(0, SPAN_DAYS, number))
    began_on = [FIRST + timedelta(days=int(start)) for start in starts]
    rows = np.array([_activity(chance, start, age) for start in starts])
    odds = _odds(rows, decision)
    odds += np.log(bought / (1 - bought)) - odds.mean()
    chances = 1 / (1 + np.exp(-odds))
    is_good = chance.random(number) < chances
    # Some buy before the end, all others are known after it.
    days = np.where(is_good, chance.integers(age + 1, DAYS + 5, number), DAYS + 1)
    known_on = [day + timedelta(days=int(more)) for day, more in zip(began_on, days, strict=True)]
    return Evaluations(rows, began_on, known_on, is_good, chances)


def _activity(chance: np.random.Generator, start: int, age: int) -> tuple[float, ...]:
    size = int(min(2_000, np.ceil(np.exp(chance.normal(1.6, 1.3)))))
    seats = float(np.ceil(size * np.exp(chance.normal(0.6, 0.8))))
    interest = np.exp(chance.normal(0, 0.7))
    days = np.arange(age + 1)
    joined = chance.integers(0, DAYS, size) * (chance.random(size) < 0.6)
    stops = joined + chance.exponential(25 * interest, size)
    rate = np.clip(0.35 * interest * chance.gamma(2, 0.5, size), 0, 0.95)
    rates = rate[:, None] * np.where((start + days) % 7 < 5, 1.0, 0.25)
    rates = rates * (days >= joined[:, None]) * (days < stops[:, None])
    active = chance.random((size, age + 1)) < rates
    # Somebody opens it on the first day.
    active[0, 0] = True
    user_days = int(active.sum())
    breadth = np.exp(chance.normal(0, 0.5)) * 1.5
    names = min(NAMES, 1 + int(chance.poisson(breadth * np.log1p(user_days))))
    last = int(np.flatnonzero(active.any(axis=0))[-1])
    tenure = age + (int(chance.exponential(200)) if chance.random() < 0.2 else 0)
    users = int(active.any(axis=1).sum())
    known_seats = seats if chance.random() < 0.9 else float("nan")
    share = float(np.minimum(users / known_seats, 1.0))
    week = int(active[:, -7:].sum())
    return (week, user_days, users, names, age - last, tenure, known_seats, share)


def _odds(rows: Array, decision: str) -> Array:
    """The log-odds, without what all share."""
    week, total, users, names, idle, _, seats, _ = rows.T
    odds: Array
    if decision == "team":
        odds = 0.9 * np.log(users + 0.5) + 0.25 * (names - 4)
    elif decision == "week":
        # Steps, and no line: daily use, some use, none.
        odds = np.select([idle > 5, week >= 10, week >= 3], [-2.0, 1.6, 0.6], -0.6)
    elif decision == "seats":
        share = np.minimum(users / np.nan_to_num(seats, nan=20.0), 1.0)
        odds = 4.0 * share + 0.4 * np.log1p(total) - 0.1 * idle
    else:
        odds = np.zeros(len(rows))
    return odds
