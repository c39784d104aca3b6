"""Chooses a window, and weights, from outcomes that are known; nothing else is looked at."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from outcomes.suggestions.fit import Fit, fit, likelihood_of

Array: TypeAlias = npt.NDArray[Any]

MOST_WEIGHT = 10
# Strengths of the penalty.
PENALTIES = (0.1, 1.0, 10.0)
# The penalty with which windows are compared.
_MIDDLE = 1.0
# Each part is predicted from what was known before it: the ends of the parts, in shares.
_ENDS = (0.4, 0.6, 0.8, 1.0)
# Chance explains this much of the log-likelihood 1 time in 20. A weight that explains less is 0.
LEAD = 1.92
# The least number of good and of bad outcomes to learn from.
LEAST_OF_EACH = 8


class Window(NamedTuple):
    """How a score counts: the last days, or all days with a half-life."""

    lookback_days: int
    half_life_days: int | None = None


HALF_LIVES = (7, 15, 30, 60, 120, 180)
# What is tried. The lookback of a half-life says only what is compared with what.
WINDOWS = (Window(7), Window(30), *(Window(30, days) for days in HALF_LIVES))


@dataclass(frozen=True)
class Definition:
    """A window, and the weights of the columns: integers from 0 to 10."""

    window: Window
    weights: Array


@dataclass(frozen=True)
class Examples:
    """Outcomes in the order of the days of their predictions, with what was known then.

    ``counts`` has, for each window, a row for each outcome and a column for each event name. Days
    are numbers. An outcome became known on ``known_on``.
    """

    counts: Mapping[Window, Array]
    is_good: Array
    accounts: Array
    predicted_on: Array
    known_on: Array
    present: Definition

    def known_before(self, day: int) -> Array:
        """The rows that may be learned from to predict on the day."""
        return np.flatnonzero((self.known_on < day) & (self.predicted_on < day))


def can_learn(examples: Examples, rows: Array) -> bool:
    good = int(examples.is_good[rows].sum())
    return min(good, len(rows) - good) >= LEAST_OF_EACH


def choose(examples: Examples, rows: Array) -> Definition:
    """The definition that these outcomes suggest.

    The window is the one with the greatest likelihood, because all have as many weights; a lookback
    must explain more than half-lives do, because there is always one that is nearly as good. The
    penalty is the one whose weights, learned from what was known before, predict best.
    """
    is_good, present = examples.is_good[rows], examples.present
    fits = {
        window: fit(counts[rows], is_good, present.weights, _MIDDLE)
        for window, counts in examples.counts.items()
    }
    window = max(
        fits,
        key=lambda window: fits[window].likelihood - LEAD * (window.half_life_days is None),
    )
    counts = examples.counts[window]
    penalty = max(PENALTIES, key=lambda penalty: _predicted(examples, rows, counts, penalty))
    result = fit(counts[rows], is_good, present.weights, penalty)
    if result.slope <= 0:
        return Definition(window, present.weights)
    return Definition(
        window, _to_integers(_without_idle(counts[rows], is_good, result, present, penalty))
    )


def _predicted(examples: Examples, rows: Array, counts: Array, penalty: float) -> float:
    """The likelihood of later outcomes under weights from earlier ones, for parts of the rows."""
    total = 0.0
    ends = [int(len(rows) * end) for end in _ENDS]
    for start, end in pairwise(ends):
        part = rows[start:end]
        if not len(part):
            continue
        before = np.intersect1d(rows, examples.known_before(examples.predicted_on[part[0]]))
        if not can_learn(examples, before):
            continue
        result = fit(counts[before], examples.is_good[before], examples.present.weights, penalty)
        total += likelihood_of(result, counts[part], examples.is_good[part])
    return total


def _without_idle(
    counts: Array, is_good: Array, result: Fit, present: Definition, penalty: float
) -> Array:
    """The weights without those that explain next to nothing, the idlest first."""
    columns = np.arange(len(result.weights))
    while len(columns) > 1:
        place = int(np.argmin(result.evidence))
        rest = np.delete(columns, place)
        without = fit(counts[:, rest], is_good, present.weights[rest], penalty)
        if without.likelihood < result.likelihood - LEAD:
            break
        columns, result = rest, without
    weights = np.zeros(len(present.weights))
    weights[columns] = result.weights
    return weights


def _to_integers(weights: Array) -> Array:
    greatest = weights.max()
    return np.round(MOST_WEIGHT * weights / greatest) if greatest > 0 else weights
