"""What past cases tell of the chances of others: a shrunk logistic regression on the logarithms of
features and their squares, and what a chance of it is made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from outcomes.chances import logistic
from outcomes.chances.results import LEAST_OF_EACH, Evidence, Fact, Feature, PastCase
from outcomes.kinds import Outcome
from outcomes.statistics.normal import Z

Array: TypeAlias = npt.NDArray[Any]

FEATURES = list(Feature)
# The least number of good and of bad outcomes to choose a penalty by.
LEAST_TO_CHOOSE = 8
# Strengths of the penalty on standardised features, and the one without a choice.
PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 3_000.0)
_USUAL = 30.0
# Each part is predicted from what was known before it: the ends of the parts, in shares.
_ENDS = (0.4, 0.6, 0.8, 1.0)
# Standard deviations from the mean that count: no line is known to go on.
_FURTHEST = 3.0
# How much a square counts beside its line: its coefficient is shrunk nine times as strongly.
_BEND = 0.35
FACTS, SIMILAR = 3, 5
# Cases that are compared with all past ones at a time.
_COMPARED = 500


@dataclass(frozen=True)
class PastCases:
    """Outcomes in the order of the days of their predictions, with a row of features for each, NaN
    where one is unknown. Days are numbers."""

    outcomes: Sequence[Outcome]
    values: Array
    is_good: Array
    accounts: Array
    predicted_on: Array
    known_on: Array

    def known_before(self, day: int) -> Array:
        """The rows that may be learned from to predict on the day."""
        return np.flatnonzero((self.known_on < day) & (self.predicted_on < day))


def as_past_cases(
    outcomes: Sequence[Outcome], days: Sequence[date], values: npt.ArrayLike
) -> PastCases:
    """Outcomes in the order of the days of their predictions, with the features of these days."""
    return PastCases(
        outcomes,
        np.asarray(values, float).reshape(-1, len(FEATURES)),
        np.array([outcome.is_good for outcome in outcomes], bool),
        np.array([outcome.account_id for outcome in outcomes], np.int64),
        np.array([day.toordinal() for day in days], np.int64),
        np.array([outcome.known_on.toordinal() for outcome in outcomes], np.int64),
    )


class Model(msgspec.Struct, frozen=True):
    """The coefficients: the constant, those of the standardised logarithms of the features, and
    those of their squares; with the means and spreads of these logarithms, and the medians of the
    features themselves (None if no past case has one)."""

    means: list[float]
    spreads: list[float]
    medians: list[float | None]
    weights: list[float]
    covariance: list[list[float]]
    penalty: float


class Chances(NamedTuple):
    """Chances with their 95% intervals."""

    value: Array
    low: Array
    high: Array


def can_learn(cases: PastCases, rows: Array, least: int = LEAST_OF_EACH) -> bool:
    good = int(cases.is_good[rows].sum())
    return min(good, len(rows) - good) >= least


def learn(cases: PastCases, rows: Array) -> Model | None:
    """The model that these rows teach; None if they are too few."""
    if not can_learn(cases, rows):
        return None
    penalty = _choose_penalty(cases, rows)
    means, spreads = _scale(cases.values[rows])
    columns = _standardised(cases.values[rows], means, spreads)
    own = logistic.fit(columns, cases.is_good[rows], penalty)
    medians = [
        float(np.median(values)) if len(values := column[~np.isnan(column)]) else None
        for column in cases.values[rows].T
    ]
    return Model(
        means.tolist(),
        spreads.tolist(),
        medians,
        own.weights.tolist(),
        own.covariance.tolist(),
        penalty,
    )


def _choose_penalty(cases: PastCases, rows: Array) -> float:
    """The penalty with which earlier ones of the rows predict later ones best."""
    totals = dict.fromkeys(PENALTIES, 0.0)
    is_judged = False
    for start, end in pairwise(int(len(rows) * end) for end in _ENDS):
        part = rows[start:end]
        before = np.intersect1d(rows, cases.known_before(cases.predicted_on[part[0]]))
        if not can_learn(cases, before, LEAST_TO_CHOOSE):
            continue
        is_judged = True
        scale = _scale(cases.values[before])
        earlier, later = (_standardised(cases.values[own], *scale) for own in (before, part))
        for penalty in PENALTIES:
            own = logistic.fit(earlier, cases.is_good[before], penalty)
            totals[penalty] += logistic.likelihood(own, later, cases.is_good[part])
    return max(PENALTIES, key=lambda penalty: totals[penalty]) if is_judged else _USUAL


def _scale(values: Array) -> tuple[Array, Array]:
    """The means and spreads of the logarithms. A spread of 0 is that of a feature which tells
    nothing, because it is the same everywhere or unknown."""
    is_known = ~np.isnan(values)
    logs = np.where(is_known, np.log1p(np.where(is_known, values, 0.0)), 0.0)
    number = np.maximum(is_known.sum(axis=0), 1)
    means = logs.sum(axis=0) / number
    variances = (np.where(is_known, logs - means, 0.0) ** 2).sum(axis=0) / number
    return means, np.where(variances > 1e-12, np.sqrt(variances), 0.0)


def _standardised(values: Array, means: Array, spreads: Array) -> Array:
    """The columns of lines, and those of squares. What is unknown is as the mean."""
    distances = np.where(np.isnan(values), 0.0, np.log1p(np.nan_to_num(values)) - means)
    parts = np.divide(distances, spreads, out=np.zeros_like(distances), where=spreads > 0)
    lines = np.clip(parts, -_FURTHEST, _FURTHEST)
    return np.hstack([lines, _BEND * np.where(spreads > 0, lines**2 - 1, 0.0)])


def _columns(model: Model, values: Array) -> Array:
    return _standardised(values, np.array(model.means), np.array(model.spreads))


def _parts(model: Model, values: Array) -> Array:
    """What each feature adds to the log-odds, in a column for each."""
    products = _columns(model, values) * np.array(model.weights[1:])
    parts: Array = products.reshape(len(values), 2, -1).sum(axis=1)
    return parts


# --- Predicting -----------------------------------------------------------------------------


def predict(model: Model, values: Array) -> Chances:
    """The chances of cases with these features, by the delta method on the logit scale."""
    design = logistic.with_constant(_columns(model, values))
    odds = design @ np.array(model.weights)
    variances = ((design @ np.array(model.covariance)) * design).sum(axis=1)
    margin = Z * np.sqrt(np.maximum(variances, 0.0))
    return Chances(*map(logistic.chance_of, (odds, odds - margin, odds + margin)))


def evidence(model: Model, values: Array, cases: PastCases | None) -> list[Evidence]:
    """What the chances of these features are made of; with the most similar of the cases."""
    own = _parts(model, values)
    facts = _facts(model, values, own)
    if cases is None:
        return [Evidence(each) for each in facts]
    past = _parts(model, cases.values)
    result: list[Evidence] = []
    for start in range(0, len(own), _COMPARED):
        nearest = _nearest(own[start : start + _COMPARED], past)
        result += [
            Evidence(facts[start + place], [_past_case(cases.outcomes[row]) for row in rows])
            for place, rows in enumerate(nearest)
        ]
    return result


def _nearest(own: Array, past: Array) -> Array:
    """For each row the numbers of the most similar ones, those first: of equal ones the latest."""
    distances = ((own**2).sum(axis=1)[:, None] - 2 * own @ past.T) + (past**2).sum(axis=1)
    distances = np.round(distances[:, ::-1], 9)
    order = np.argsort(distances, axis=1, kind="stable")[:, :SIMILAR]
    nearest: Array = len(past) - 1 - order
    return nearest


def _past_case(outcome: Outcome) -> PastCase:
    return PastCase(outcome.account_id, outcome.day, outcome.result, outcome.is_good)


def _facts(model: Model, values: Array, parts: Array) -> list[list[Fact]]:
    usual = np.array([np.nan if median is None else median for median in model.medians])
    odds = model.weights[0] + parts.sum(axis=1, keepdims=True)
    others = odds - parts + _parts(model, usual[None, :])
    effects = logistic.chance_of(odds) - logistic.chance_of(others)
    effects = np.where(np.isnan(values) | np.isnan(usual), 0.0, effects)
    order = np.argsort(-np.abs(effects), axis=1, kind="stable")[:, :FACTS]
    return [
        [
            Fact(FEATURES[place], float(row[place]), float(usual[place]), float(moved[place]))
            for place in places
            if moved[place] != 0.0
        ]
        for row, moved, places in zip(values, effects, order, strict=True)
    ]
