"""A logistic regression with a ridge penalty. It needs numpy alone.

The penalty is on the squares of all coefficients but the constant, half of it for each, as in
scikit-learn with C = 1 / penalty.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

STEPS, HALVINGS, CLOSE = 50, 20, 1e-9
# Beyond them a chance is 0 or 1 to 13 digits.
_MOST_ODDS = 30.0


class Fit(NamedTuple):
    """The coefficients, the constant first, and their covariance: the inverse of the curvature of
    the penalised likelihood."""

    weights: Array
    covariance: Array


def fit(columns: Array, is_good: Array, penalty: float) -> Fit:
    """Fit by Newton's method. There must be outcomes of both classes."""
    design = with_constant(columns)
    strength = np.full(design.shape[1], float(penalty))
    strength[0] = 0.0
    weights = np.zeros(design.shape[1])
    weights[0] = np.log(is_good.mean() / (1 - is_good.mean()))
    now = _likelihood(design @ weights, is_good) - _cost(strength, weights)
    for _ in range(STEPS):
        expected = chance_of(design @ weights)
        gradient = design.T @ (is_good - expected) - strength * weights
        step = np.linalg.solve(_bend(design, expected, strength), gradient)
        for _ in range(HALVINGS):
            reached = _likelihood(design @ (weights + step), is_good)
            reached -= _cost(strength, weights + step)
            if reached >= now:
                break
            step = step / 2
        else:
            break
        weights, gain, now = weights + step, reached - now, reached
        if gain < CLOSE:
            break
    bend = _bend(design, chance_of(design @ weights), strength)
    return Fit(weights, np.linalg.inv(bend))


def with_constant(columns: Array) -> Array:
    return np.column_stack([np.ones(len(columns)), columns])


def chance_of(odds: Array) -> Array:
    """The chances (0 to 1) of log-odds."""
    chances: Array = 1 / (1 + np.exp(-np.clip(odds, -_MOST_ODDS, _MOST_ODDS)))
    return chances


def likelihood(own: Fit, columns: Array, is_good: Array) -> float:
    """The log-likelihood of outcomes under the fit, without its penalty."""
    return _likelihood(with_constant(columns) @ own.weights, is_good)


def _likelihood(odds: Array, is_good: Array) -> float:
    return -float(np.logaddexp(0, np.where(is_good, -odds, odds)).sum())


def _cost(strength: Array, weights: Array) -> float:
    return float((strength * weights**2).sum()) / 2


def _bend(design: Array, expected: Array, strength: Array) -> Array:
    bend: Array = (design.T * (expected * (1 - expected))) @ design + np.diag(strength)
    # A column that is always 0 has no curvature of its own.
    return bend + 1e-9 * np.eye(len(bend))
