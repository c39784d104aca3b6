"""How good predictions were: the figures of one horizon. It needs numpy, and no database."""

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from outcomes.backtests.predictions import Predictions
from outcomes.backtests.results import Band, Horizon, ReliabilityPoint
from outcomes.backtests.verdicts import LEAST_OUTCOMES, verdict
from outcomes.statistics.auc import Array, auc, auc_difference
from outcomes.statistics.estimates import Estimate
from outcomes.statistics.rates import (
    BAND_EDGES,
    brier,
    expected_rates,
    lift_of_lowest_tenth,
    rate,
    reliability,
)

# Days since the last scored event of an account that had none: more than of any other.
NEVER = 1_000_000
TOP_SCORE = 100


class Columns(NamedTuple):
    """The predictions as arrays. ``recency`` and ``age`` predict without a score: how short ago the
    last scored event was, and how old the account."""

    accounts: Array
    is_good: Array
    scores: Array
    strengths: Array
    recency: Array
    age: Array
    predicted_on: Array
    known_on: Array


def columns(predictions: Predictions) -> Columns:
    counted = predictions.counted
    past = [score for *_, score in counted]
    idle = [NEVER if score.idle_days is None else score.idle_days for score in past]
    return Columns(
        np.array([outcome.account_id for outcome, *_ in counted], np.int64),
        np.array([outcome.is_good for outcome, *_ in counted], bool),
        np.array([score.score for score in past], float),
        np.array([score.strength for score in past], float),
        -np.array(idle, float),
        np.array([score.age_days for score in past], float),
        np.array([day.toordinal() for _, day, _ in counted], np.int64),
        np.array([outcome.known_on.toordinal() for outcome, *_ in counted], np.int64),
    )


def evaluate(predictions: Predictions, late_events: float | None = None) -> Horizon:
    """The figures of the horizon. What its outcomes do not allow to say is None."""
    own = columns(predictions)
    is_bad, number = ~own.is_good, len(own.is_good)
    of_score = auc(own.strengths, own.is_good, own.accounts)
    of_recency = auc(own.recency, own.is_good, own.accounts)
    better = None
    if of_score and of_recency:
        better = auc_difference(own.strengths, own.recency, own.is_good, own.accounts)
    expected = expected_rates(own.scores, is_bad, own.predicted_on, own.known_on)
    points = reliability(expected, is_bad, own.accounts)
    bad = int(is_bad.sum())
    return Horizon(
        days=predictions.days,
        outcomes=number,
        bad=bad,
        already_answered=predictions.already_answered,
        without_data=predictions.without_data,
        verdict=verdict(of_score, better, number, bad),
        needed=LEAST_OUTCOMES,
        bands=list(_bands(own.scores, is_bad, own.accounts)),
        reliability=[ReliabilityPoint(point.expected, point.observed) for point in points],
        auc=of_score,
        auc_of_recency=of_recency,
        auc_of_age=auc(own.age, own.is_good, own.accounts),
        better_than_recency=better,
        lift=lift_of_lowest_tenth(own.strengths, is_bad, own.accounts),
        brier=brier(expected, is_bad),
        late_events=late_events,
    )


def compare(now: Predictions, then: Predictions) -> tuple[Estimate, Estimate, Estimate] | None:
    """The AUC of two scores for the same outcomes, and the second minus the first; None if the
    outcomes or equal scores do not allow to say it."""
    own, other = columns(now), columns(then)
    of_own = auc(own.strengths, own.is_good, own.accounts)
    of_other = auc(other.strengths, own.is_good, own.accounts)
    difference = auc_difference(other.strengths, own.strengths, own.is_good, own.accounts)
    if of_own is None or of_other is None or difference is None:
        return None
    return of_own, of_other, difference


def _bands(scores: Array, is_bad: Array, accounts: Array) -> Iterable[Band]:
    edges = [0, *map(int, BAND_EDGES), TOP_SCORE]
    bands = np.searchsorted(BAND_EDGES, scores, side="right")
    for band, (low, high) in enumerate(pairwise(edges)):
        own = bands == band
        estimate = rate(is_bad[own], accounts[own])
        yield Band(low, high, int(own.sum()), int(is_bad[own].sum()), estimate)
