"""Sums of what renews, simulated. Nothing here knows of the database.

Beside chance, a sum varies with what the model does not know and with how months differ. All terms
share an error of the rate that the model learned, each account has an error of its own, and each
month a shift of the log-odds. docs/decisions/outcomes.md says what was measured.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from outcomes.forecasts.results import MONTHS, Measure, PastCount, Sums, Term
from outcomes.statistics.normal import Z

Array: TypeAlias = npt.NDArray[Any]

DRAWS = 1_000
# Terms that are drawn together, which bounds the memory: 50 MB.
AT_ONCE = 1_000
# Scores from 0 on, from 25 on, and so on, and accounts without one.
BAND_EDGES = (25, 50, 75)
BANDS = len(BAND_EDGES) + 2
# The 80% interval.
SHARES = (0.1, 0.9)
# The standard deviations of months, in log-odds, that are thought possible, and the mean of what is
# believed before any past month. Months with less information say nothing.
SPREADS, USUAL_SPREAD = np.linspace(0, 1.5, 76), 0.1
LEAST_VARIANCE = 1.0


def believed_spreads(past: Iterable[PastCount]) -> Array:
    """How probable each of ``SPREADS`` is after these months; 0 alone is, without any.

    The log-odds of a month differ from what was expected by its own shift and by chance, as the
    estimates of a meta-analysis do (DerSimonian and Laird, Controlled Clinical Trials 7, 1986).
    """
    months = [month for month in past if month.variance >= LEAST_VARIANCE]
    if not months:
        none: Array = np.eye(1, len(SPREADS))[0]
        return none
    good, expected, variance = np.array(months).T
    shifts, spread = (good - expected) / variance, SPREADS[:, None] ** 2 + 1 / variance
    logs = -0.5 * (np.log(spread) + shifts**2 / spread).sum(axis=1) - SPREADS / USUAL_SPREAD
    weights: Array = np.exp(logs - logs.max())
    weights /= weights.sum()
    return weights


class Columns:
    """Terms as columns."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self.month = np.array([term.month for term in terms], int)
        scores = np.array([np.nan if term.score is None else term.score for term in terms], float)
        self.band = np.searchsorted(BAND_EDGES, scores, side="right")  # NaN is behind all.
        self.band[np.isnan(scores)] = BANDS - 1
        self.account = np.array([term.account for term in terms], np.int64)
        self.chance, self.low, self.high = (
            np.array([getattr(term, name) for term in terms], float)
            for name in ("chance", "low", "high")
        )
        self.outcomes = np.array([term.outcomes for term in terms], float)
        self.amounts = np.array(
            [
                [np.nan if value is None else value for value in (term.seats, term.cents)]
                for term in terms
            ],
            float,
        ).reshape(-1, len(Measure))

    @property
    def is_open(self) -> Array:
        return (self.chance > 0) & (self.chance < 1)


def simulate(terms: Sequence[Term], spreads: Array, seed: Sequence[int]) -> "Simulation":
    """The sums of each month and band, drawn ``DRAWS`` times; the same for the same seed."""
    chance = np.random.default_rng(list(seed))
    own = Columns(terms)
    cells = own.month * BANDS + own.band
    weights: Array = np.zeros((len(terms), MONTHS * BANDS, len(Measure)))
    weights[np.arange(len(terms)), cells] = np.nan_to_num(own.amounts)
    weights = weights.reshape(len(terms), MONTHS * BANDS * len(Measure))
    certain = own.chance == 1
    drawn = np.tile(weights[certain].sum(axis=0), (DRAWS, 1))
    common, of_account = _errors(own)
    shared = chance.standard_normal((DRAWS, 1))
    months = chance.standard_normal((DRAWS, MONTHS)) * chance.choice(SPREADS, (DRAWS, 1), p=spreads)
    for part in _parts(own.account, np.flatnonzero(own.is_open)):
        accounts = np.unique(own.account[part], return_inverse=True)[1]
        size = int(accounts.max()) + 1
        errors = chance.standard_normal((DRAWS, size))[:, accounts] * of_account[part]
        logit = np.log(own.chance[part] / (1 - own.chance[part]))
        logit = logit + shared * common[part] + errors + months[:, own.month[part]]
        # One draw an account: its terms go together, and who left does not renew later.
        renews = chance.random((DRAWS, size))[:, accounts] < 1 / (1 + np.exp(-logit))
        drawn += renews.astype(float) @ weights[part]
    return Simulation(own, drawn.reshape(DRAWS, MONTHS, BANDS, len(Measure)), chance)


def _errors(own: Columns) -> tuple[Array, Array]:
    """The standard errors of the log-odds: what all terms share, and what is each account's own.

    No model knows the rate of all better than the outcomes that it was learned from do.
    """
    edges = [np.clip(side, 1e-6, 1 - 1e-6) for side in (own.low, own.high)]
    low, high = (np.log(side / (1 - side)) for side in edges)
    total = np.where(own.is_open, np.maximum(high - low, 0) / 2 / Z, 0)
    rate = float(own.chance[own.is_open].mean()) if own.is_open.any() else 0.5
    of_rate = 1 / np.sqrt(np.maximum(own.outcomes, 1) * rate * (1 - rate))
    common = np.minimum(total, of_rate)
    return common, np.sqrt(total**2 - common**2)


def _parts(accounts: Array, rows: Array) -> list[Array]:
    """The rows in parts of about ``AT_ONCE``, those of an account in one."""
    if not len(rows):
        return []
    starts = np.arange(AT_ONCE, len(rows), AT_ONCE)
    ends = np.unique(np.searchsorted(accounts[rows], accounts[rows][starts], side="left"))
    return [part for part in np.split(rows, ends) if len(part)]


class Simulation:
    """What was drawn, by draw, month, band, and measure."""

    def __init__(self, own: Columns, drawn: Array, chance: np.random.Generator) -> None:
        self._own, self._drawn = own, drawn
        # Amounts are multiples of a unit. Within it, intervals of a few equal terms would be as
        # wide as the next unit, and cover too often.
        self._within_unit = chance.random(DRAWS) - 0.5

    def sums(
        self, months: Sequence[int] = range(MONTHS), band: int | None = None
    ) -> dict[Measure, Sums]:
        """The sums of the terms of these months, and of a band or of all."""
        rows = np.isin(self._own.month, months)
        drawn = self._drawn[:, months]
        if band is not None:
            rows &= self._own.band == band
            drawn = drawn[:, :, band : band + 1]
        drawn = drawn.sum(axis=(1, 2))
        return {
            measure: self._sums(self._own.amounts[rows, column], rows, drawn[:, column])
            for column, measure in enumerate(Measure)
        }

    def _sums(self, amounts: Array, rows: Array, drawn: Array) -> Sums:
        is_known = ~np.isnan(amounts)
        amounts, chances = amounts[is_known], self._own.chance[rows][is_known]
        due = int(amounts.sum())
        unit = max(int(np.gcd.reduce(amounts.astype(np.int64))), 1) if len(amounts) else 1
        low, high = np.quantile(drawn / unit + self._within_unit, SHARES)
        ends = sorted((max(int(np.ceil(low)) * unit, 0), min(int(np.floor(high)) * unit, due)))
        return Sums(len(amounts), due, float(amounts @ chances), *ends)
