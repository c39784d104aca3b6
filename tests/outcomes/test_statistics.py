"""Estimates agree with scikit-learn and statsmodels, cover the truth, and are defined for all
input."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats
from sklearn.metrics import brier_score_loss, roc_auc_score
from statsmodels.stats.proportion import proportion_confint

from outcomes.backtests.results import Verdict
from outcomes.backtests.verdicts import verdict
from outcomes.statistics.auc import auc, auc_difference
from outcomes.statistics.estimates import Estimate
from outcomes.statistics.normal import Z, t_quantile
from outcomes.statistics.rates import (
    brier,
    effective_size,
    expected_rates,
    lift_of_lowest_tenth,
    rate,
    reliability,
    wilson,
)
from tests.cases import each

Array = npt.NDArray[Any]


def world(
    seed: int, outcomes: int, effect: float = 1.0, base: float = 0.2, per_account: int = 1
) -> tuple[Array, Array, Array]:
    """Scores, which outcomes were good, and their accounts, which have good and bad luck."""
    chance = np.random.default_rng(seed)
    accounts = np.arange(outcomes) // per_account
    luck = chance.normal(size=outcomes)[accounts] * (per_account > 1)
    habit = chance.normal(size=outcomes)[accounts]
    scores = 0.9 * habit + 0.4 * chance.normal(size=outcomes)
    chances = 1 / (1 + np.exp(-(math.log(1 / base - 1) + effect * scores + luck)))
    return np.round(10 * np.exp(scores), 1), chance.random(outcomes) < chances, accounts


@each("seed", range(5))
def test_auc_and_brier_are_those_of_scikit_learn(seed: int) -> None:
    scores, is_good, _ = world(seed, 300)
    estimate = auc(scores, is_good)
    assert estimate is not None
    assert estimate.value == pytest.approx(roc_auc_score(is_good, scores), abs=1e-12)
    expected = np.random.default_rng(seed).random(300)
    assert brier(expected, ~is_good) == pytest.approx(brier_score_loss(~is_good, expected))


@each("pair", [(0, 12), (12, 12), (1, 1), (3, 40), (88, 1000)])
def test_rates_have_the_interval_of_statsmodels(pair: tuple[int, int]) -> None:
    estimate = wilson(*pair)
    assert estimate is not None
    assert (estimate.low, estimate.high) == pytest.approx(
        proportion_confint(*pair, method="wilson"), abs=1e-12
    )


def test_factors_of_intervals_are_those_of_scipy() -> None:
    assert pytest.approx(stats.norm.ppf(0.975)) == Z
    for freedom in (1, 2, 3, 3.5, 5, 12.3, 80):
        exact = stats.t.ppf(0.975, max(freedom, 1))
        assert t_quantile(freedom) == pytest.approx(exact, rel=0.0013)


def delong(scores: Array, others: Array, is_good: Array) -> float:
    """The standard error of the difference of two AUC, from all pairs."""

    def pairs(values: Array) -> Array:
        good, bad = values[is_good][:, None], values[~is_good][None, :]
        wins: Array = (good > bad) + 0.5 * (good == bad)
        return wins

    difference = pairs(scores) - pairs(others)
    of_good, of_bad = difference.mean(axis=1), difference.mean(axis=0)
    variance = of_good.var(ddof=1) / len(of_good) + of_bad.var(ddof=1) / len(of_bad)
    return float(variance**0.5)


@each("seed", range(3))
def test_the_difference_of_two_auc_has_delongs_interval(seed: int) -> None:
    scores, is_good, _ = world(seed, 400)
    others = scores + np.random.default_rng(seed).normal(size=400).round(1) * 5
    estimate = auc_difference(scores, others, is_good)
    assert estimate is not None
    assert estimate.value == pytest.approx(
        roc_auc_score(is_good, scores) - roc_auc_score(is_good, others)
    )
    half = delong(scores, others, is_good) * Z
    assert (estimate.high - estimate.low) / 2 == pytest.approx(half, rel=0.03)


@each("outcomes, base, per_account", [(30, 0.2, 1), (100, 0.1, 1), (1000, 0.1, 1), (360, 0.3, 12)])
def test_the_interval_of_an_auc_covers_the_truth(
    outcomes: int, base: float, per_account: int
) -> None:
    scores, is_good, _ = world(0, 200_000, base=base, per_account=per_account)
    truth = roc_auc_score(is_good, scores)
    covered = 0
    for seed in range(1, 201):
        scores, is_good, accounts = world(seed, outcomes, base=base, per_account=per_account)
        estimate = auc(scores, is_good, accounts)
        covered += estimate is not None and estimate.low <= truth <= estimate.high
    assert covered >= 186


def test_outcomes_of_one_account_widen_every_interval() -> None:
    scores, is_good, accounts = world(1, 600, per_account=12)
    for estimate in (auc, lambda s, g, a=None: rate(~g, a)):
        alone, together = estimate(scores, is_good), estimate(scores, is_good, accounts)
        assert alone is not None
        assert together is not None
        assert together.value == pytest.approx(alone.value)
        assert together.high - together.low > 1.2 * (alone.high - alone.low)
    assert effective_size(~is_good, np.zeros(600)) == 1


def test_equal_predictors_do_not_differ() -> None:
    scores, is_good, _ = world(1, 60)
    assert auc_difference(scores, 3 * scores, is_good) == Estimate(0, 0, 0, 60)


def test_the_lowest_tenth_is_compared_with_all() -> None:
    scores = np.arange(100.0)
    is_bad = np.isin(np.arange(100), [0, 1, 2, 3, 4, 50, 60, 70, 80, 90])
    estimate = lift_of_lowest_tenth(scores, is_bad)
    assert estimate is not None
    assert estimate.value == pytest.approx(5.0)
    assert 2 < estimate.low < 4 < 6 < estimate.high < 10
    # 20 accounts without activity share the lowest tenth: half of their bad outcomes are in it.
    ties = np.where(np.arange(100) < 20, 0, scores)
    estimate = lift_of_lowest_tenth(ties, is_bad)
    assert estimate is not None
    assert estimate.value == pytest.approx(2.5)


def test_the_interval_of_the_lift_covers_the_truth() -> None:
    scores, is_good, _ = world(0, 200_000)
    truth = lift_of_lowest_tenth(scores, ~is_good)
    assert truth is not None
    covered = 0
    for seed in range(1, 201):
        scores, is_good, _ = world(seed, 200)
        estimate = lift_of_lowest_tenth(scores, ~is_good)
        covered += estimate is not None and estimate.low <= truth.value <= estimate.high
    assert covered >= 182


def test_expectations_use_only_what_was_known() -> None:
    scores = np.array([10.0] * 30 + [90.0] * 30 + [10.0, 90.0])
    is_bad = np.array([True] * 30 + [False] * 30 + [False, True])
    known_on = np.array([5] * 60 + [9, 9])
    predicted_on = np.array([0] * 60 + [6, 5])
    expected = expected_rates(scores, is_bad, predicted_on, known_on)
    assert np.isnan(expected[:60]).all()
    assert expected[60] == pytest.approx((30 + 5) / 40)
    # On the day on which they became known, nothing was known the day before.
    assert np.isnan(expected[61])
    assert brier(expected, is_bad) == pytest.approx(0.875**2)


def test_a_reliability_plot_has_points_of_similar_size() -> None:
    chance = np.random.default_rng(3)
    expected = np.concatenate([np.full(50, 0.1), chance.random(150), np.full(20, np.nan)])
    is_bad = chance.random(220) < np.nan_to_num(expected)
    points = reliability(expected, is_bad, np.arange(220))
    assert sum(point.observed.outcomes for point in points) == 200
    assert [point.expected for point in points] == sorted(point.expected for point in points)
    # Equal expectations share a point.
    assert min(point.observed.outcomes for point in points) >= 10
    inside = [p.observed.low <= p.expected <= p.observed.high for p in points]
    assert sum(inside) >= len(points) - 1


@each(
    "name",
    [
        "empty",
        "one outcome",
        "only good",
        "only bad",
        "equal scores",
        "not a number",
        "a single account",
        "one bad",
        "perfect",
        "infinite",
    ],
)
def test_odd_input_has_a_defined_result(name: str) -> None:
    scores, is_good, accounts = world(1, 40)
    match name:
        case "empty" | "one outcome":
            size = 0 if name == "empty" else 1
            scores, is_good, accounts = scores[:size], is_good[:size], accounts[:size]
        case "only good" | "only bad":
            is_good = np.full(40, name == "only good")
        case "equal scores":
            scores = np.full(40, 7.0)
        case "not a number":
            scores[3] = np.nan
        case "a single account":
            accounts = np.zeros(40)
        case "one bad":
            is_good = np.arange(40) != 3
        case "perfect":
            scores = is_good * 1.0
        case "infinite":
            scores[~is_good] = -np.inf
    estimates = [
        auc(scores, is_good, accounts),
        auc_difference(scores, np.nan_to_num(scores) % 7, is_good, accounts),
        lift_of_lowest_tenth(scores, ~is_good, accounts),
        rate(~is_good, accounts),
    ]
    for estimate in filter(None, estimates):
        figures = (estimate.value, estimate.low, estimate.high)
        assert all(type(figure) is float and not math.isnan(figure) for figure in figures)
        assert estimate.low <= estimate.value <= estimate.high
    days = np.arange(len(scores))
    expected = expected_rates(scores, ~is_good, days, days)
    assert all(0 <= p.expected <= 1 for p in reliability(expected, ~is_good, accounts))
    assert (auc(scores, is_good, accounts) is None) == (
        name not in ("one bad", "perfect", "infinite")
    )


def test_verdicts_need_numbers_and_exclude_chance() -> None:
    better, unclear = Estimate(0.7, 0.6, 0.8, 60), Estimate(0.6, 0.49, 0.7, 60)
    ahead, equal = Estimate(0.1, 0.02, 0.2, 60), Estimate(0.1, -0.01, 0.2, 60)
    assert verdict(better, ahead, 29, 10) == Verdict.TOO_FEW
    assert verdict(better, ahead, 60, 4) == Verdict.TOO_FEW
    assert verdict(better, ahead, 60, 56) == Verdict.TOO_FEW
    assert verdict(unclear, ahead, 60, 20) == Verdict.NO_BETTER_THAN_CHANCE
    assert verdict(None, None, 60, 20) == Verdict.NO_BETTER_THAN_CHANCE
    assert verdict(better, equal, 60, 20) == Verdict.NO_BETTER_THAN_RECENCY
    assert verdict(better, ahead, 60, 20) == Verdict.BETTER_THAN_BOTH
