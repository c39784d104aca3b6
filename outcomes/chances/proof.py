"""How models predicted outcomes that they had not seen: each part of the outcomes is predicted by
the model that those known before it teach."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from outcomes.chances.model import PastCases, can_learn, learn, predict
from outcomes.chances.results import Bin, Proof
from outcomes.statistics.estimates import Estimate
from outcomes.statistics.normal import t_quantile
from outcomes.statistics.rates import reliability

Array: TypeAlias = npt.NDArray[Any]

# Cases before this share of all are learned from alone: the share of few says little.
FIRST = 0.4
# A model predicts as many cases as a share of those before them, and the least number of them. The
# least number of predictions proves something.
GROWTH, LEAST_OF_PART, LEAST_PREDICTED = 0.25, 10, 20


def prove(cases: PastCases) -> Proof | None:
    """The proof by walk-forward; None if too few were known before the others."""
    chances, shares = walk_forward(cases)
    own = np.flatnonzero(~np.isnan(chances))
    if len(own) < LEAST_PREDICTED:
        return None
    is_good, accounts = cases.is_good[own], cases.accounts[own]
    errors = (chances[own] - is_good) ** 2
    others = (shares[own] - is_good) ** 2
    gain = _mean(others - errors, accounts)
    if gain is None:
        return None
    points = reliability(chances[own], is_good, accounts)
    return Proof(
        len(own),
        float(errors.mean()),
        float(others.mean()),
        gain,
        [Bin(point.expected, point.observed) for point in points],
    )


def walk_forward(cases: PastCases) -> tuple[Array, Array]:
    """For each case its chance by what was known before its part, and the share of good outcomes
    then; NaN before there was enough."""
    chances = np.full(len(cases.is_good), np.nan)
    shares = chances.copy()
    first = max(_first(cases), int(FIRST * len(chances)))
    while first < len(chances):
        part = np.arange(first, min(first + max(LEAST_OF_PART, int(GROWTH * first)), len(chances)))
        first = part[-1] + 1
        before = cases.known_before(cases.predicted_on[part[0]])
        model = learn(cases, before)
        if model is not None:
            chances[part] = predict(model, cases.values[part]).value
            shares[part] = cases.is_good[before].mean()
    return chances, shares


def _first(cases: PastCases) -> int:
    """The first case before which there was enough to learn from."""
    low, high = 0, len(cases.is_good)
    while low < high:
        middle = (low + high) // 2
        if can_learn(cases, cases.known_before(cases.predicted_on[middle])):
            high = middle
        else:
            low = middle + 1
    return low


def _mean(values: Array, accounts: Array) -> Estimate | None:
    """The mean with its 95% interval. What is of one account goes together."""
    groups = np.unique(accounts, return_inverse=True)[1]
    mean, number = float(values.mean()), int(groups.max()) + 1
    if number < 2:
        return None
    sums = np.bincount(groups, values - mean)
    error = (number / (number - 1) * float((sums**2).sum())) ** 0.5 / len(values)
    margin = t_quantile(number - 1) * error
    return Estimate(mean, mean - margin, mean + margin, len(values))
