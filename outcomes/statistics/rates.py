"""Rates of bad outcomes with their intervals: of bands, of the lowest tenth, and as expected."""

import math
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from outcomes.statistics.estimates import Estimate
from outcomes.statistics.normal import Z

Array: TypeAlias = npt.NDArray[Any]

# The least number of outcomes of a point of a reliability plot, and the most points of a plot.
LEAST_OF_A_POINT, MOST_POINTS = 20, 10
# The least number of known outcomes to expect something from, and how many outcomes of a band the
# rate of all counts for.
LEAST_KNOWN, PRIOR = 20, 10
# Scores from 0 on, from 25 on, and so on.
BAND_EDGES = (25.0, 50.0, 75.0)


class Point(NamedTuple):
    """Of outcomes with similar expectations: their mean, and the share that was bad."""

    expected: float
    observed: Estimate


def wilson(bad: float, outcomes: float) -> Estimate | None:
    """The share of bad outcomes with Wilson's interval (JASA 22, 1927); None without outcomes."""
    if outcomes <= 0:
        return None
    bad, outcomes = float(bad), float(outcomes)
    share, z = bad / outcomes, Z**2 / outcomes
    middle = (share + z / 2) / (1 + z)
    margin = math.sqrt(max(share * (1 - share) * z + z**2 / 4, 0)) / (1 + z)
    low = 0.0 if bad <= 0 else max(middle - margin, 0.0)
    high = 1.0 if bad >= outcomes else min(middle + margin, 1.0)
    return Estimate(share, low, high, round(outcomes))


def rate(is_bad: Array, accounts: Array | None = None) -> Estimate | None:
    """The share of bad outcomes; None without any. Its interval allows for outcomes of one account
    that go together."""
    size = effective_size(is_bad, accounts)
    estimate = wilson(float(is_bad.mean()) * size, size) if size else None
    return msgspec.structs.replace(estimate, outcomes=len(is_bad)) if estimate else None


def effective_size(is_bad: Array, accounts: Array | None) -> float:
    """How many independent outcomes would have a share that varies as much."""
    size = len(is_bad)
    share = float(is_bad.mean()) if size else 0.0
    if accounts is None or share in (0.0, 1.0):
        return size
    groups = np.unique(accounts, return_inverse=True)[1]
    sums = np.bincount(groups, is_bad - share)
    number = len(sums)
    if number < 2:
        return 1
    variance = float(number / (number - 1) * (sums**2).sum()) / size**2
    return max(1.0, min(size, share * (1 - share) / variance if variance else size))


def brier(expected: Array, is_bad: Array) -> float | None:
    """The mean squared error of expected shares (0 to 1), of those that are known; None if none.

    An expectation that is not known is NaN.
    """
    is_known = ~np.isnan(expected)
    return float(((expected - is_bad)[is_known] ** 2).mean()) if is_known.any() else None


def reliability(expected: Array, is_bad: Array, accounts: Array | None = None) -> list[Point]:
    """The points of a reliability plot, in the order of what was expected (NaN: not known).

    Each has about as many outcomes; equal expectations share a point.
    """
    rows = np.flatnonzero(~np.isnan(expected))
    order = rows[np.argsort(expected[rows], kind="stable")]
    number = min(MOST_POINTS, len(order) // LEAST_OF_A_POINT)
    if not number:
        return []
    ends = np.arange(1, number) * len(order) // number
    values = expected[order]
    # Move each end behind the outcomes that expect the same, and drop what it leaves empty.
    ends = np.unique(np.searchsorted(values, values[ends], side="left"))
    points = []
    for own in np.split(order, ends[ends > 0]):
        observed = rate(is_bad[own], None if accounts is None else accounts[own])
        if observed is not None:
            points.append(Point(float(expected[own].mean()), observed))
    return points


def expected_rates(
    scores: Array, is_bad: Array, predicted_on: Array, known_on: Array, edges: Any = BAND_EDGES
) -> Array:
    """For each outcome, the share of bad ones that its score made expect on the day of prediction:
    that of its band among outcomes known before that day, drawn towards that of all of these.

    Days are numbers or ``datetime64``. NaN where fewer than ``LEAST_KNOWN`` were known.
    """
    bands = np.searchsorted(edges, scores, side="right")
    order = np.argsort(known_on, kind="stable")
    until = np.searchsorted(known_on[order], predicted_on, side="left")
    numbers = np.zeros((len(order) + 1, len(edges) + 1))
    bad = np.zeros_like(numbers)
    numbers[np.arange(1, len(order) + 1), bands[order]] = 1
    bad[1:] = numbers[1:] * is_bad[order][:, None]
    numbers, bad = numbers.cumsum(axis=0), bad.cumsum(axis=0)
    of_all = bad[until].sum(axis=1) / np.maximum(until, 1)
    rates: Array = (bad[until, bands] + PRIOR * of_all) / (numbers[until, bands] + PRIOR)
    return np.where(until >= LEAST_KNOWN, rates, np.nan)


def lift_of_lowest_tenth(
    scores: Array, is_bad: Array, accounts: Array | None = None
) -> Estimate | None:
    """How many times as often outcomes of the lowest tenth of scores were bad as all were.

    None below 10 outcomes, without a bad one, or if all scores are equal. Of equal scores at the
    border, each counts in part. The interval is that of the ratio of two rates, the tenth's and
    the others', by Wilson's intervals of both (Donner and Zou, Statistical Methods in Medical
    Research 21, 2012).
    """
    size = len(scores)
    if size < 10 or not is_bad.any() or np.isnan(scores).any() or scores.min() == scores.max():
        return None
    lowest = size // 10
    border = np.partition(scores, lowest - 1)[lowest - 1]
    below, at = scores < border, scores == border
    parts = below + at * (lowest - below.sum()) / at.sum()
    share = lowest / size
    rates = []
    for weights in (parts, 1 - parts):
        own = weights > 0
        size_of = effective_size(is_bad[own], None if accounts is None else accounts[own])
        effective = weights.sum() * size_of / own.sum()
        estimate = wilson(effective * (weights * is_bad).sum() / weights.sum(), effective)
        assert estimate is not None  # Both have outcomes.
        rates.append(estimate)
    low, high = _ratio(*rates)
    value = rates[0].value / float(is_bad.mean())
    return Estimate(value, _lift(low, share), _lift(high, share), size)


def _ratio(own: Estimate, other: Estimate) -> tuple[float, float]:
    """The interval of the ratio of two independent rates. It may be infinite."""
    both = own.value * other.value
    low, high = own.low * (2 * own.value - own.low), own.high * (2 * own.value - own.high)
    other_low = other.low * (2 * other.value - other.low)
    other_high = other.high * (2 * other.value - other.high)
    low_root, high_root = (
        math.sqrt(max(both**2 - product, 0.0)) for product in (low * other_high, high * other_low)
    )
    return (
        low / (both + low_root) if low else 0.0,
        (both + high_root) / other_low if other_low else math.inf,
    )


def _lift(ratio: float, share: float) -> float:
    """The rate of a part divided by that of all, from its ratio to that of the others."""
    return 1 / share if math.isinf(ratio) else ratio / (share * ratio + 1 - share)
