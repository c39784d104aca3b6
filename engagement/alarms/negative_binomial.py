"""Tails of the negative binomial distribution by its mean and its variance, on arrays."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

# A relative error of a tail, far below what decides.
_PRECISION = 1e-8
_MOST_STEPS = 2_000


def lower_tail(count: Floats, mean: Floats, dispersion: Floats) -> Floats:
    """P(X ≤ count) with this mean and a variance of *dispersion* (> 1) times the mean."""
    return _beta(mean / (dispersion - 1), count + 1, 1 / dispersion)


def upper_tail(count: Floats, mean: Floats, dispersion: Floats) -> Floats:
    """P(X ≥ count) for counts of at least 1."""
    return _beta(count, mean / (dispersion - 1), 1 - 1 / dispersion)


def no_activity(mean: Floats, dispersion: Floats) -> Floats:
    """P(X = 0)."""
    chance: Floats = np.exp(-mean * np.log(dispersion) / (dispersion - 1))
    return chance


def _beta(a: Floats, b: Floats, x: Floats) -> Floats:
    """The regularized incomplete beta function I_x(a, b) by its continued fraction (DLMF 8.17.22).

    It converges fast where x is below a / (a + b), which holds for both tails of what is rare.
    """
    if not a.size:
        return np.zeros(0)
    logarithm = a * np.log(x) + b * np.log1p(-x) - np.log(a)
    logarithm += _log_gamma(a + b) - _log_gamma(a) - _log_gamma(b)
    inverse = 1 / (1 - (a + b) * x / (a + 1))
    ratio, fraction = np.ones_like(inverse), inverse
    for m in range(1, _MOST_STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        step = np.ones_like(fraction)
        for term in (even, odd):
            inverse = 1 / (1 + term * inverse)
            ratio = 1 + term / ratio
            step *= inverse * ratio
        fraction = fraction * step
        if np.abs(step - 1).max() < _PRECISION:
            break
    tail: Floats = np.minimum(np.exp(logarithm) * fraction, 1.0)
    return tail


def _log_gamma(z: Floats) -> Floats:
    """ln Γ(z) for z > 0, by Stirling's series at z + 8."""
    shift = np.log(z)
    for step in range(1, 8):
        shift = shift + np.log(z + step)
    y = z + 8
    series = 1 / (12 * y) - 1 / (360 * y**3) + 1 / (1260 * y**5)
    value: Floats = (y - 0.5) * np.log(y) - y + 0.5 * np.log(2 * np.pi) + series - shift
    return value
