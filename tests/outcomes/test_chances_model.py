"""Chances follow from past cases, have intervals, learn nothing from later ones, and are never
claimed where there are too few."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from sklearn.linear_model import LogisticRegression
from statsmodels.api import Logit

from outcomes.chances import logistic
from outcomes.chances.model import (
    FEATURES,
    PENALTIES,
    Model,
    PastCases,
    as_past_cases,
    evidence,
    learn,
    predict,
)
from outcomes.chances.proof import LEAST_PREDICTED, prove, walk_forward
from outcomes.chances.results import Evidence, Feature, Proof
from outcomes.kinds import Outcome
from outcomes.statistics.estimates import Estimate
from proofs import foresight, plots
from proofs.foresight_worlds import DECISIONS
from tests.cases import each

Array = npt.NDArray[Any]
FIRST = date(2026, 1, 1)
ALL = slice(None)


def random_columns(seed: int, number: int = 150) -> tuple[Array, Array]:
    chance = np.random.default_rng(seed)
    columns = chance.normal(0, 1, (number, 4))
    columns[:, 3] = columns[:, 0] + chance.normal(0, 0.1, number)
    odds = 0.4 + columns @ [1.0, -0.5, 0.0, 0.3]
    return columns, chance.random(number) < 1 / (1 + np.exp(-odds))


def cases_of(values: Array, is_good: Array, accounts: Array | None = None) -> PastCases:
    """One case a day, each known ten days later."""
    ids = np.arange(len(is_good)) if accounts is None else accounts
    days = [FIRST + timedelta(days=number) for number in range(len(is_good))]
    outcomes = [
        Outcome(int(id), day, bool(good), "bought" if good else "not_bought", day, None, FIRST)
        for id, day, good in zip(ids, [d + timedelta(days=10) for d in days], is_good, strict=True)
    ]
    return as_past_cases(outcomes, days, values)


def counts(seed: int, number: int = 200, slope: float = 1.5) -> PastCases:
    """Cases with a long tail, of which the second feature tells what will be."""
    chance = np.random.default_rng(seed)
    values = np.floor(np.exp(chance.normal(2, 1.5, (number, len(FEATURES)))))
    level = np.log1p(values[:, 1])
    odds = slope * (level - level.mean()) / level.std()
    return cases_of(values, chance.random(number) < 1 / (1 + np.exp(-odds)))


def all_of(cases: PastCases) -> Array:
    return np.arange(len(cases.is_good))


def model_of(cases: PastCases) -> Model:
    model = learn(cases, all_of(cases))
    assert model is not None
    # It can be stored, and is what it was then: it has no NaN, and no numbers of numpy.
    text = msgspec.json.encode(msgspec.to_builtins(model))
    assert msgspec.json.decode(text, type=Model) == model
    return model


# --- The regression -----------------------------------------------------------------------------


@each(("seed", "penalty"), [(1, 0.5), (2, 3.0), (3, 30.0), (4, 1000.0)])
def test_the_coefficients_are_those_of_scikit_learn(seed: int, penalty: float) -> None:
    columns, is_good = random_columns(seed)
    other = LogisticRegression(C=1 / penalty, tol=1e-10, max_iter=10_000).fit(columns, is_good)
    own = logistic.fit(columns, is_good, penalty)
    assert own.weights == pytest.approx([other.intercept_[0], *other.coef_[0]], abs=1e-5)


@each("seed", range(3))
def test_the_covariance_is_that_of_statsmodels(seed: int) -> None:
    columns, is_good = random_columns(seed)
    other = Logit(is_good, logistic.with_constant(columns)).fit(disp=0)
    own = logistic.fit(columns, is_good, 0.0)
    assert own.weights == pytest.approx(other.params, abs=1e-5)
    assert own.covariance == pytest.approx(other.cov_params(), rel=1e-3, abs=1e-6)
    assert logistic.likelihood(own, columns, is_good) == pytest.approx(other.llf)


def test_separated_outcomes_have_finite_coefficients() -> None:
    columns = np.linspace(-3, 3, 60)[:, None]
    own = logistic.fit(columns, columns[:, 0] > 0, 1.0)
    assert np.isfinite(own.weights).all() and np.isfinite(own.covariance).all()
    assert own.weights[1] > 1


# --- Chances ------------------------------------------------------------------------------------


def test_chances_follow_what_tells_and_have_intervals() -> None:
    cases = counts(1, 400)
    model = model_of(cases)
    assert model.penalty in PENALTIES
    chances = predict(model, cases.values)
    assert ((chances.low < chances.value) & (chances.value < chances.high)).all()
    assert (chances.low >= 0).all() and (chances.high <= 1).all()
    order = np.argsort(cases.values[:, 1])
    assert chances.value[order[-40:]].mean() > 0.8 > 0.2 > chances.value[order[:40]].mean()
    assert chances.value.mean() == pytest.approx(cases.is_good.mean(), abs=0.01)


def test_the_interval_is_that_of_statsmodels_without_a_penalty() -> None:
    columns, is_good = random_columns(5)
    own = logistic.fit(columns, is_good, 0.0)
    ones = [1.0] * columns.shape[1]
    # With means of 0 and spreads of 1, the logarithm of 1 + value is the column.
    zeros = [0.0] * columns.shape[1]
    # Squares count nothing.
    weights, covariance = np.zeros(9), np.zeros((9, 9))
    weights[:5], covariance[:5, :5] = own
    model = Model(zeros, ones, [None] * 4, weights.tolist(), covariance.tolist(), 0.0)
    few = np.clip(columns[:10], -0.9, 2.9)
    chances = predict(model, np.expm1(few))
    other = Logit(is_good, logistic.with_constant(columns)).fit(disp=0)
    frame = other.get_prediction(logistic.with_constant(few)).summary_frame(alpha=0.05)
    assert chances.value == pytest.approx(frame["predicted"].to_numpy(), abs=1e-4)
    assert chances.low == pytest.approx(frame["ci_lower"].to_numpy(), abs=0.01)
    assert chances.high == pytest.approx(frame["ci_upper"].to_numpy(), abs=0.01)


def test_useless_features_are_shrunk_to_the_share() -> None:
    spreads = []
    for seed in range(10):
        chances = predict(model_of(counts(seed, 300, slope=0.0)), counts(seed + 50).values).value
        spreads.append(float(chances.std()))
    assert np.median(spreads) < 0.06


@each(
    ("good", "bad", "is_enough"), [(20, 20, True), (19, 60, False), (60, 19, False), (60, 0, False)]
)
def test_too_few_of_a_class_teach_nothing(good: int, bad: int, is_enough: bool) -> None:
    is_good = np.arange(good + bad) < good
    values = np.random.default_rng(1).integers(0, 20, (good + bad, len(FEATURES))).astype(float)
    assert (learn(cases_of(values, is_good), np.arange(good + bad)) is not None) == is_enough


@each("value", [3.0, 0.0, np.nan])
def test_features_that_are_all_equal_or_unknown_give_the_share(value: float) -> None:
    values = np.full((60, len(FEATURES)), value)
    cases = cases_of(values, np.arange(60) % 3 == 0)
    model = model_of(cases)
    others = np.repeat([[1e9], [0.0], [np.nan]], len(FEATURES), axis=1)
    for chances in (predict(model, values), predict(model, others)):
        assert chances.value == pytest.approx(1 / 3, abs=1e-6)
        assert np.isfinite(chances.low).all() and np.isfinite(chances.high).all()
    assert [each.facts for each in evidence(model, others, cases)] == [[], [], []]


def test_what_is_unknown_or_beyond_all_past_cases_stays_finite() -> None:
    cases = counts(2)
    values = cases.values.copy()
    values[::2, -1] = np.nan
    model = model_of(cases_of(values, cases.is_good))
    others = np.repeat([[np.nan], [0.0], [1e15]], len(FEATURES), axis=1)
    chances = predict(model, others)
    assert all(np.isfinite(column).all() for column in chances)
    for own in evidence(model, others, cases):
        assert msgspec.json.decode(msgspec.json.encode(own), type=Evidence) == own
        assert b"null" not in msgspec.json.encode(own)


def test_an_outlier_moves_no_more_than_three_deviations_do() -> None:
    cases = counts(3)
    model = model_of(cases)
    usual = np.array([[np.nan if m is None else m for m in model.medians]] * 2)
    usual[0, 1] = np.expm1(model.means[1] + 3 * model.spreads[1])
    usual[1, 1] = 1e12
    first, second = predict(model, usual).value
    assert first == pytest.approx(second)


# --- Evidence -----------------------------------------------------------------------------------


def test_facts_are_what_moved_the_chance_against_the_median() -> None:
    cases = counts(4)
    model = model_of(cases)
    for row, own in zip(cases.values[:30], evidence(model, cases.values[:30], cases), strict=True):
        effects = {}
        for place, median in enumerate(model.medians):
            assert median is not None and median == np.median(cases.values[:, place])
            other = row.copy()
            other[place] = median
            with_own, with_median = predict(model, np.array([row, other])).value
            effects[FEATURES[place]] = with_own - with_median
        largest = sorted(map(abs, effects.values()), reverse=True)[:3]
        assert [abs(fact.effect) for fact in own.facts] == pytest.approx(
            [effect for effect in largest if effect]
        )
        for fact in own.facts:
            assert fact.effect == pytest.approx(effects[fact.feature])
            assert fact.value == row[FEATURES.index(fact.feature)]


def test_what_is_unknown_is_no_fact() -> None:
    cases = counts(5)
    row = cases.values[:1].copy()
    row[0, FEATURES.index(Feature.USER_DAYS_30)] = np.nan
    (own,) = evidence(model_of(cases), row, cases)
    assert Feature.USER_DAYS_30 not in {fact.feature for fact in own.facts}


def test_similar_cases_are_the_nearest_by_what_counts() -> None:
    cases = counts(6, 120)
    model = model_of(cases)
    lines, bends = np.array(model.weights[1:]).reshape(2, -1)

    def place(values: Array) -> Array:
        parts: Array = (np.log1p(values) - np.array(model.means)) / np.array(model.spreads)
        parts = np.clip(parts, -3, 3)
        placed: Array = parts * lines + 0.35 * (parts**2 - 1) * bends
        return placed

    for row, own in zip(cases.values[:20], evidence(model, cases.values[:20], cases), strict=True):
        distances = ((place(cases.values) - place(row)) ** 2).sum(axis=1)
        nearest = [distances[past.account] for past in own.similar]
        assert nearest == pytest.approx(sorted(distances)[:5], abs=1e-8)
        for past in own.similar:
            outcome = cases.outcomes[past.account]
            assert (past.day, past.result, past.is_good) == (
                outcome.day,
                outcome.result,
                outcome.is_good,
            )


# --- Proof --------------------------------------------------------------------------------------


def test_nothing_is_learned_from_later_outcomes() -> None:
    cases = counts(7, 300)
    chances, shares = walk_forward(cases)
    assert np.isnan(chances[:40]).all() and not np.isnan(chances[-1])
    for last in (120, 200, 280):
        is_later = cases.known_on > cases.predicted_on[last]
        other = cases_of(cases.values, np.where(is_later, ~cases.is_good, cases.is_good))
        other_chances, other_shares = walk_forward(other)
        # Parts begin where they did, as long as what was known first is the same.
        assert chances[: last + 1] == pytest.approx(other_chances[: last + 1], nan_ok=True)
        assert shares[: last + 1] == pytest.approx(other_shares[: last + 1], nan_ok=True)


def test_a_proof_compares_with_the_share_known_then() -> None:
    cases = counts(8, 300)
    chances, shares = walk_forward(cases)
    proof = prove(cases)
    assert proof is not None
    own = ~np.isnan(chances)
    errors = (chances[own] - cases.is_good[own]) ** 2
    others = (shares[own] - cases.is_good[own]) ** 2
    assert proof.outcomes == own.sum() >= LEAST_PREDICTED
    assert (proof.brier, proof.brier_of_share) == pytest.approx((errors.mean(), others.mean()))
    assert proof.gain.value == pytest.approx((others - errors).mean())
    # Student's interval of a mean, because each outcome is another account's.
    margin = 1.96 * (others - errors).std(ddof=1) / own.sum() ** 0.5
    assert proof.gain.high - proof.gain.value == pytest.approx(margin, rel=0.03)
    assert proof.gain.low > 0
    assert sum(bin.observed.outcomes for bin in proof.bins) == proof.outcomes
    assert [bin.expected for bin in proof.bins] == sorted(bin.expected for bin in proof.bins)
    assert msgspec.json.decode(msgspec.json.encode(proof), type=Proof) == proof


def test_outcomes_of_few_accounts_prove_less() -> None:
    cases = counts(9, 300)
    alone, together = (
        prove(cases),
        prove(cases_of(cases.values, cases.is_good, all_of(cases) // 50)),
    )
    assert alone and together and alone.gain.value == together.gain.value
    assert together.gain.high - together.gain.low != alone.gain.high - alone.gain.low
    assert prove(cases_of(cases.values, cases.is_good, np.zeros(300, int))) is None


@each("number", [0, 1, 30, 55])
def test_few_outcomes_prove_nothing(number: int) -> None:
    values = np.random.default_rng(number).integers(0, 9, (number, len(FEATURES))).astype(float)
    assert prove(cases_of(values, np.arange(number) % 2 == 0)) is None


@each("decision", DECISIONS)
def test_planted_chances_are_found(decision: str) -> None:
    """Worlds of ``proofs.foresight``, whose command has many."""
    world = foresight.judged(400, decision, 4)
    assert world
    figures, (number, expected, good) = world.figures, world.tenths
    assert number.sum() >= 200 and (good <= number).all()
    assert np.allclose(
        np.floor(10 * expected[number > 0] / number[number > 0]), np.flatnonzero(number)
    )
    if decision == foresight.NOTHING:
        assert not figures["gains claimed"]
    else:
        assert figures["bins"] >= 5 and figures["calibrated"] >= figures["bins"] - 2
        assert figures["gain"] > 0.4 * figures["gain of the truth"] > 0.01


def test_plots_have_what_was_expected_and_observed(tmp_path: Path) -> None:
    share = Estimate(0.25, 0.125, 0.5, 40)
    panels = [plots.Panel("some & all", [(0.5, share)])]
    plots.write_calibration(tmp_path / "a.svg", "Calibration", panels)
    rows = [plots.Row("a quarter", "few", share), plots.Row("a quarter", "many", share)]
    plots.write_coverage(tmp_path / "b.svg", "Coverage", rows, 0.8, (0.74, 0.86))
    for name, title, circles in (("a.svg", "Calibration", 1), ("b.svg", "Coverage", 2)):
        text = (tmp_path / name).read_text()
        root = ElementTree.fromstring(text)
        assert root[0].text == title and text.count("<circle") == circles
        assert "prefers-color-scheme: dark" in text
    assert "some &amp; all" in (tmp_path / "a.svg").read_text()
