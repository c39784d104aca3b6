"""Weights follow from outcomes, nothing is learned from later ones, and no gain is claimed where
there is none."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import optimize
from sklearn.linear_model import LogisticRegression
from statsmodels.api import Logit

from outcomes.statistics.auc import auc
from outcomes.suggestions import fit as fits
from outcomes.suggestions.choice import Definition, Examples, Window, choose
from outcomes.suggestions.fit import fit, likelihood_of
from outcomes.suggestions.walk_forward import judge
from proofs import scores
from proofs.score_worlds import World, build
from tests.cases import each

Array = npt.NDArray[Any]


def habits(seed: int, outcomes: int = 200, slope: float = 2.0) -> tuple[Array, Array]:
    """Counts of five names, of which only the first two say what will be."""
    chance = np.random.default_rng(seed)
    counts = chance.poisson(10 * np.exp(chance.normal(0, 1.2, (outcomes, 5)))).astype(float)
    level = np.log1p(counts @ [5, 3, 0, 0, 0])
    odds = 0.5 + slope * (level - level.mean()) / level.std()
    return counts, chance.random(outcomes) < 1 / (1 + np.exp(-odds))


@each("seed", range(3))
def test_the_line_is_that_of_statsmodels_and_scikit_learn(seed: int) -> None:
    counts, is_good = habits(seed)
    total = counts.sum(axis=1)
    (a, b), likelihood = fits._start(total, is_good, 20.0)
    level = np.log1p(total / 20.0)
    other = Logit(is_good, np.column_stack([np.ones(len(level)), level])).fit(disp=0)
    assert (a, b) == pytest.approx(tuple(other.params), abs=0.01)
    assert likelihood == pytest.approx(other.llf, abs=1e-3)
    model = LogisticRegression(C=1e6).fit(level[:, None], is_good)
    assert (a, b) == pytest.approx((model.intercept_[0], model.coef_[0, 0]), abs=0.01)


@each("penalty", [0.1, 1.0, 10.0])
def test_no_other_weights_explain_more(penalty: float) -> None:
    counts, is_good = habits(1)
    present = np.array([1.0, 1, 2, 1, 0])
    result = fit(counts, is_good, present, penalty)

    def cost(at: Array) -> float:
        own = result._replace(weights=at[2:], line=(at[0], at[1]))
        far = penalty * ((at[2:] - present) ** 2).sum() + 1e-3 * (at[:2] ** 2).sum()
        return float(far / 2) - likelihood_of(own, counts, is_good)

    start = np.array([*result.line, *result.weights])
    other = optimize.minimize(cost, start, bounds=[(None, None)] + [(0, None)] * 6)
    assert result.weights.min() >= 0
    assert -result.likelihood == pytest.approx(cost(start), abs=1e-6)
    assert other.fun == pytest.approx(cost(start), abs=0.02)


def test_a_strong_penalty_keeps_the_present_weights() -> None:
    counts, is_good = habits(2)
    present = np.array([1.0, 1, 2, 1, 0])
    assert fit(counts, is_good, present, 1e6).weights == pytest.approx(present, abs=0.01)


def with_window(counts: Array, is_good: Array, accounts: Array | None = None) -> Examples:
    days = np.arange(len(is_good))
    window = Window(30)
    own = days if accounts is None else accounts
    present = Definition(window, np.ones(counts.shape[1]))
    return Examples({window: counts}, is_good, own, days, days + 5, present)


def test_names_that_say_nothing_get_no_weight() -> None:
    counts, is_good = habits(3, outcomes=400)
    examples = with_window(counts, is_good)
    result = choose(examples, np.arange(400))
    assert result.weights[0] == 10
    assert 3 <= result.weights[1] <= 9
    assert result.weights[2:].max() <= 1
    judgement = judge(examples)
    assert judgement.has_gain
    assert judgement.auc is not None
    assert judgement.present_auc is not None
    assert judgement.gain is not None
    assert judgement.gain.value == pytest.approx(judgement.auc.value - judgement.present_auc.value)


def test_the_truth_is_found_in_a_planted_world() -> None:
    figures = [own for seed in range(2) for _, own in scores.with_three_names(seed)]
    assert np.mean([own["rank correlation"] for own in figures]) >= 0.8
    assert np.mean([own["half-life within a factor of 2"] for own in figures]) >= 0.75


def test_nothing_is_claimed_of_independent_outcomes() -> None:
    for seed in range(20):
        chance = np.random.default_rng(seed)
        counts, _ = habits(seed, 120)
        judgement = judge(with_window(counts, chance.random(120) < 0.7))
        assert not judgement.has_gain


def test_drift_shows_in_the_last_part_and_nothing_is_learned_from_it() -> None:
    ((_, figures),) = scores.with_drift(1)
    assert figures["AUC in the last part"] < figures["AUC before"] - 0.03
    assert not figures["learned from the future"]


def test_what_was_not_known_yet_is_not_learned_from() -> None:
    counts, is_good = habits(4)
    examples = with_window(counts, is_good)
    assert list(examples.known_before(10)) == [0, 1, 2, 3, 4]


@each("name", ["one class", "all equal", "no activity", "few", "none", "a single account"])
def test_odd_outcomes_suggest_no_gain(name: str) -> None:
    counts, is_good = habits(5, 100)
    accounts = None
    match name:
        case "one class":
            is_good = np.full(100, True)
        case "all equal":
            counts = np.full((100, 5), 3.0)
        case "no activity":
            counts = np.zeros((100, 5))
        case "few" | "none":
            size = 12 if name == "few" else 0
            counts, is_good = counts[:size], is_good[:size]
        case "a single account":
            accounts = np.zeros(100)
    examples = with_window(counts, is_good, accounts)
    judgement = judge(examples)
    assert not judgement.has_gain
    if len(is_good):
        result = choose(examples, np.arange(len(is_good)))
        assert np.isfinite(result.weights).all()
        assert result.weights.max() <= 10


def test_public_purchases_are_predicted_as_known() -> None:
    figures = scores.purchases()
    assert figures["customers"] == 23_570
    assert figures["window of 30 days"] == pytest.approx(0.60, abs=0.01)
    assert figures["half-life of 60 days"] == pytest.approx(0.77, abs=0.01)


def test_the_true_auc_of_a_world_is_that_of_many_draws() -> None:
    planted = build(World(outcomes=600), 1)
    ranks = planted.chances.round(2)
    chance = np.random.default_rng(1)
    drawn = np.tile(planted.chances, 60)
    is_good = chance.random(len(drawn)) < drawn
    estimate = auc(np.tile(ranks, 60), is_good)
    assert estimate is not None
    assert scores.true_auc(ranks, planted.chances) == pytest.approx(estimate.value, abs=0.01)
