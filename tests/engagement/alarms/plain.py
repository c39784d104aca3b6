"""The statistic of one account at a time, in plain Python: what the arrays are compared with."""

import math
from collections.abc import Sequence
from statistics import mean, median

from engagement.alarms.statistic import SIZE_BOUNDS, Parameters

Weeks = Sequence[int]


def size_of(expected: float) -> int:
    return sum(expected >= bound for bound in SIZE_BOUNDS)


def baseline_of(weeks: Weeks, age: int, window: int) -> Weeks:
    return weeks[window : min(window + 16, age, 24)]


def spread_of(baseline: Weeks, weekly: Sequence[float]) -> float:
    usual = mean(baseline)
    squares = sum((week - usual * g) ** 2 for week, g in zip(baseline, weekly, strict=False))
    return squares / ((len(baseline) - 1) * max(usual, 0.05))


def movement_of(accounts: Sequence[tuple[Weeks, int, int]], window: int, region: int) -> float:
    """*accounts* are their weeks, ages, and regions."""
    ratios = []
    for weeks, age, own in accounts:
        baseline = baseline_of(weeks, age, window)
        if len(baseline) >= 8 and window * mean(baseline) >= 5:
            ratios.append((sum(weeks[:window]) / (window * mean(baseline)), own))
    common = median(ratio for ratio, _ in ratios) if len(ratios) >= 20 else 1.0
    own_ratios = [ratio for ratio, own in ratios if own == region]
    if (k := len(own_ratios)) < 5:
        return common
    logarithm = k / (k + 10) * math.log(median(own_ratios)) + 10 / (k + 10) * math.log(common)
    return math.exp(logarithm)


def expectation(
    weeks: Weeks, age: int, region: int, parameters: Parameters, index: int
) -> tuple[float, float, float]:
    """Expected user-days of the window, their dispersion, and the account's burstiness."""
    window = (2, 4, 8)[index]
    baseline = baseline_of(weeks, age, window)
    n = len(baseline)
    expected = window * mean(baseline) * parameters["movement"][index][region]
    size = size_of(expected)
    spread = spread_of(baseline, parameters["weekly"][index])
    ratio = spread / parameters["spread"][index][size]
    burstiness = max(1, (8 + (n - 1) * ratio) / (8 + n - 1))
    number = parameters["accounts"][index][size]
    of_middle = 1.5 + 0.01 * (1.5, 6, 20, 60, 200, 600)[size]
    error = (number * parameters["error"][index][size] + 10 * of_middle) / (number + 10)
    factor = max(0.7, error * growth_within_size(expected) * burstiness)
    return expected, max(1.02, factor * (1 + window / n)), burstiness


def growth_within_size(expected: float) -> float:
    """How much more an account disperses than the one in the middle of its size."""
    middle = (1.5, 6, 20, 60, 200, 600)[size_of(expected)]
    return (1.5 + 0.01 * expected) / (1.5 + 0.01 * middle)


def tail(expected: float, dispersion: float, counts: range) -> float:
    """The sum of the probabilities of these counts, each by its logarithm."""
    r = expected / (dispersion - 1)
    return sum(
        math.exp(
            math.lgamma(r + k)
            - math.lgamma(r)
            - math.lgamma(k + 1)
            - r * math.log(dispersion)
            + k * math.log1p(-1 / dispersion)
        )
        for k in counts
    )
