"""Weights of event names that predict good outcomes: a logistic model of the logarithm of the sum
of weights times counts, which is what a score ranks by.

Log-odds are a + b · log(1 + Σ weight · count / scale), fitted by Newton's method (iteratively
reweighted least squares of the linearised sum). A penalty draws the weights towards the present
ones: an event name that tells nothing keeps its weight. Weights and b are never negative, because
neither are those of a score.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

STEPS, HALVINGS, CLOSE = 30, 12, 1e-5
# Candidates of the sum from which on more activity counts less, in shares of the median sum.
SCALES = (0.03, 0.3, 3.0)
# Keeps a and b finite where the outcomes are separated.
_RIDGE = 1e-3


class Fit(NamedTuple):
    """Weights by column, and the penalised log-likelihood that they reached.

    ``line`` is a and b. ``evidence`` is about the likelihood that a weight of 0 would cost, for
    each column.
    """

    weights: Array
    likelihood: float
    line: tuple[float, float]
    scale: float
    evidence: Array

    @property
    def slope(self) -> float:
        return self.line[1]


def fit(counts: Array, is_good: Array, present: Array, penalty: float) -> Fit:
    """The weights for the outcomes (rows) with these counts (a column for each name).

    *penalty* is that of weights which differ from the present ones by as much as the mean of
    these is.
    """
    sums = counts @ present
    middle = float(np.median(sums[sums > 0])) if (sums > 0).any() else 1.0
    starts = [_start(sums, is_good, share * middle) for share in SCALES]
    best = max(range(len(SCALES)), key=lambda place: starts[place][1])
    (a, b), likelihood = starts[best]
    if b <= 0:
        scale = SCALES[best] * middle
        return Fit(present, likelihood, (float(a), float(b)), scale, np.zeros(len(present)))
    return _newton(counts, is_good, present, penalty, SCALES[best] * middle, np.array([a, b]))


def _start(sums: Array, is_good: Array, scale: float) -> tuple[Array, float]:
    """a and b with the present weights."""
    level = np.log1p(sums / scale)
    design = np.column_stack([np.ones(len(level)), level])
    share = min(max(is_good.mean(), 0.01), 0.99)
    line = np.array([np.log(share / (1 - share)), 0.0])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-np.clip(design @ line, -30, 30)))
        gradient = design.T @ (is_good - chance) - _RIDGE * line
        bend = (design.T * (chance * (1 - chance))) @ design + _RIDGE * np.eye(2)
        step = np.linalg.solve(bend, gradient)
        line = line + np.clip(step, -3, 3)
        if np.abs(step).max() < CLOSE:
            break
    if line[1] < 0:
        line = np.array([np.log(share / (1 - share)), 0.0])
    return line, _likelihood(design @ line, is_good)


def likelihood_of(result: Fit, counts: Array, is_good: Array) -> float:
    """The log-likelihood of outcomes under a fit, without its penalty."""
    a, b = result.line
    return _likelihood(a + b * np.log1p(counts @ result.weights / result.scale), is_good)


def _likelihood(odds: Array, is_good: Array) -> float:
    return -float(np.logaddexp(0, np.where(is_good, -odds, odds)).sum())


def _newton(
    counts: Array, is_good: Array, present: Array, penalty: float, scale: float, line: Array
) -> Fit:
    unit = max(float(present.mean()), 1e-9)
    strength = np.concatenate([[_RIDGE, _RIDGE], np.full(len(present), penalty / unit**2)])
    centre = np.concatenate([[0.0, 0.0], present])
    point = np.concatenate([line, present])

    def value(at: Array) -> float:
        odds = at[0] + at[1] * np.log1p(counts @ at[2:] / scale)
        return _likelihood(odds, is_good) - float((strength * (at - centre) ** 2).sum()) / 2

    now = value(point)
    for _ in range(STEPS):
        step, free, _ = _step(counts, is_good, point, scale, strength, centre)
        size = 1.0
        for _ in range(HALVINGS):
            following = point.copy()
            following[free] += size * step
            following[1:] = np.maximum(following[1:], 0)
            reached = value(following)
            if reached >= now:
                break
            size /= 2
        else:
            break
        gain, point, now = reached - now, following, reached
        if gain < CLOSE:
            break
    _, free, bend = _step(counts, is_good, point, scale, strength, centre)
    spread = np.zeros(len(point))
    spread[free] = np.diag(np.linalg.inv(bend))
    weights = point[2:]
    evidence = np.divide(weights**2, 2 * spread[2:], out=np.zeros_like(weights), where=free[2:])
    return Fit(weights, now, (float(point[0]), float(point[1])), scale, evidence)


def _step(
    counts: Array, is_good: Array, point: Array, scale: float, strength: Array, centre: Array
) -> tuple[Array, Array, Array]:
    """Newton's step of the linearised model, which parameters may move (what is at 0 and would
    become negative stays), and the curvature in these."""
    sums = counts @ point[2:]
    level = np.log1p(sums / scale)
    design = np.column_stack(
        [np.ones(len(level)), level, point[1] * counts / (scale + sums)[:, None]]
    )
    chance = 1 / (1 + np.exp(-np.clip(point[0] + point[1] * level, -30, 30)))
    gradient = design.T @ (is_good - chance) - strength * (point - centre)
    free = (point > 0) | (gradient > 0)
    free[0] = True
    own = design[:, free]
    bend = (own.T * (chance * (1 - chance))) @ own + np.diag(strength[free])
    return np.linalg.solve(bend, gradient[free]), free, bend
