"""How well scores tell good outcomes from bad ones: AUC, and the difference of two, with intervals.

AUC is the chance that a good outcome has a higher score than a bad one (a tie counts half). Its
variance is DeLong's (Biometrics 44, 1988), and where outcomes of one account go together,
Obuchowski's for clusters (Biometrics 53, 1997): both sum what each outcome, or each account, moves
the AUC by. docs/decisions/outcomes.md says which intervals were compared.
"""

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from outcomes.statistics.estimates import Estimate
from outcomes.statistics.normal import Z, t_quantile

Array: TypeAlias = npt.NDArray[Any]


class _Placement(NamedTuple):
    """An AUC, and by how much each outcome moves it: these sum up to 0 in each class."""

    auc: float
    moves: Array


class _Spread(NamedTuple):
    """A variance, and the degrees of freedom that it was estimated with."""

    variance: float
    freedom: float


def auc(scores: Array, is_good: Array, accounts: Array | None = None) -> Estimate | None:
    """The AUC of the scores; None without outcomes of both classes, or if all scores are equal.

    Outcomes are independent unless *accounts* says which belong together; a single account has no
    interval, and so no estimate.
    """
    placement = _place(scores, is_good)
    if placement is None or scores.min() == scores.max():
        return None
    groups = _groups(accounts, is_good)
    if groups.max() == 0:
        return None
    low, high = _interval(placement, is_good, groups)
    return Estimate(placement.auc, low, high, len(is_good))


def auc_difference(
    scores: Array, others: Array, is_good: Array, accounts: Array | None = None
) -> Estimate | None:
    """The AUC of the scores minus that of the others, for the same outcomes; None as ``auc()``.

    The interval is that of paired AUC: what both get wrong together does not widen it.
    """
    own, other = _place(scores, is_good), _place(others, is_good)
    if own is None or other is None:
        return None
    spread = _spread(own.moves - other.moves, is_good, _groups(accounts, is_good))
    if spread is None:
        return None
    difference = own.auc - other.auc
    margin = t_quantile(spread.freedom) * spread.variance**0.5
    low, high = max(difference - margin, -1.0), min(difference + margin, 1.0)
    return Estimate(difference, low, high, len(is_good))


def _place(scores: Array, is_good: Array) -> _Placement | None:
    good = int(is_good.sum())
    bad = len(is_good) - good
    if not good or not bad or np.isnan(scores).any():
        return None
    below = _midranks(scores)
    below[is_good] = (below[is_good] - _midranks(scores[is_good])) / bad
    below[~is_good] = 1 - (below[~is_good] - _midranks(scores[~is_good])) / good
    value = float(below[is_good].mean())
    return _Placement(value, (below - value) / np.where(is_good, good, bad))


def _midranks(scores: Array) -> Array:
    """Ranks from 1 on. Equal scores share the mean of theirs."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks: Array = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks


def _groups(accounts: Array | None, is_good: Array) -> Array:
    """Numbers from 0 on: outcomes with the same one depend on each other."""
    if accounts is None:
        return np.arange(len(is_good))
    return np.unique(accounts, return_inverse=True)[1]


def _spread(moves: Array, is_good: Array, groups: Array) -> _Spread | None:
    """None if all outcomes of a class are of one account: nobody knows then how they vary."""
    size = int(groups.max()) + 1
    parts, freedoms, sums = [], [], []
    for own in (is_good, ~is_good):
        number = len(np.unique(groups[own]))
        if number < 2:
            return None
        sums.append(np.bincount(groups[own], moves[own], size))
        parts.append(float(number / (number - 1) * (sums[-1] ** 2).sum()))
        freedoms.append(number - 1)
    both = float(2 * size / (size - 1) * (sums[0] * sums[1]).sum())
    variance = max(sum(parts) + both, float(((sums[0] + sums[1]) ** 2).sum()))
    # Welch and Satterthwaite, as in Brunner and Munzel's test.
    weights = sum(part**2 / freedom for part, freedom in zip(parts, freedoms, strict=True))
    return _Spread(variance, sum(parts) ** 2 / weights if weights else float(min(freedoms)))


def _interval(placement: _Placement, is_good: Array, groups: Array) -> tuple[float, float]:
    """The wider of DeLong's interval on the logit scale, and Newcombe's of the score type.

    DeLong's alone is too narrow with few outcomes of a class and near 1, where its variance is 0;
    Newcombe's alone knows nothing of the distribution.
    """
    good = int(is_good.sum())
    sizes = (good, len(is_good) - good)
    spread = _spread(placement.moves, is_good, groups)
    if spread is None or not spread.variance:
        accounts = (len(np.unique(groups[own])) for own in (is_good, ~is_good))
        return _newcombe(placement.auc, *accounts)
    alone = _spread(placement.moves, is_good, np.arange(len(is_good)))
    # How many times the variance of independent outcomes it is.
    effect = max(1.0, spread.variance / alone.variance if alone and alone.variance else 1.0)
    low, high = _newcombe(placement.auc, *(size / effect for size in sizes))
    is_independent = len(groups) == groups.max() + 1
    factor = Z if is_independent else t_quantile(spread.freedom)
    by_logit = _logit_interval(placement.auc, factor * spread.variance**0.5)
    return min(low, by_logit[0]), max(high, by_logit[1])


def _logit_interval(value: float, margin: float) -> tuple[float, float]:
    """The interval of a margin that holds at *value*, on the logit scale."""
    logit, margin = math.log(value / (1 - value)), margin / (value * (1 - value))
    low, high = ((1 + math.tanh((logit + side * margin) / 2)) / 2 for side in (-1, 1))
    return low, high


def _newcombe(value: float, good: float, bad: float) -> tuple[float, float]:
    """The values that are no further from *value* than their own standard error times Z allows
    (Newcombe, Statistics in Medicine 25, 2006, method 5)."""
    n = (good + bad) / 2 - 1

    def is_too_far(true: float) -> bool:
        parts = 1 + n * (1 - true) / (2 - true) + n * true / (1 + true)
        return (value - true) ** 2 > Z**2 * true * (1 - true) * parts / (good * bad)

    def border(outside: float) -> float:
        inside = value
        for _ in range(40):
            middle = (inside + outside) / 2
            if is_too_far(middle):
                outside = middle
            else:
                inside = middle
        return outside

    return border(0.0) if value > 0 else 0.0, border(1.0) if value < 1 else 1.0
