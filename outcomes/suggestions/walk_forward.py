"""Judges what would have been suggested: each part of the outcomes is predicted by the weights that
the outcomes known before it suggest. So the choice of a window and of a penalty is judged, too.
"""

from datetime import date
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from outcomes.statistics.auc import auc, auc_difference
from outcomes.statistics.estimates import Estimate
from outcomes.suggestions.choice import Definition, Examples, can_learn, choose
from outcomes.suggestions.results import Judgement, Part

Array: TypeAlias = npt.NDArray[Any]

# The first part begins after this share of the outcomes.
FIRST, PARTS = 0.4, 4
BENCHMARK = 0.9


def judge(examples: Examples) -> Judgement:
    """Walk forward through the outcomes. Estimates are None where there are too few."""
    number = len(examples.is_good)
    ends = [round(number * (FIRST + (1 - FIRST) * part / PARTS)) for part in range(PARTS + 1)]
    suggested, present = np.full(number, np.nan), np.full(number, np.nan)
    parts = []
    for start, end in pairwise(ends):
        rows = np.arange(start, end)
        if not len(rows):
            continue
        first = int(examples.predicted_on[start])
        before = examples.known_before(first)
        if not can_learn(examples, before):
            continue
        suggested[rows] = _scores(examples, choose(examples, before), before, rows)
        present[rows] = _scores(examples, examples.present, before, rows)
        last = int(examples.predicted_on[end - 1])
        both = (_auc(examples, scores, rows) for scores in (suggested, present))
        days = (date.fromordinal(first), date.fromordinal(last))
        parts.append(Part(*days, len(rows), *both))
    rows = np.flatnonzero(~np.isnan(suggested))
    gain = auc_difference(
        suggested[rows], present[rows], examples.is_good[rows], examples.accounts[rows]
    )
    own, other = (_auc(examples, scores, rows) for scores in (suggested, present))
    return Judgement(own, other, gain, parts)


def _auc(examples: Examples, scores: Array, rows: Array) -> Estimate | None:
    return auc(scores[rows], examples.is_good[rows], examples.accounts[rows])


def _scores(examples: Examples, definition: Definition, before: Array, rows: Array) -> Array:
    """What the definition ranks by: sums, in shares of the 90th percentile of those known."""
    sums = examples.counts[definition.window] @ definition.weights
    of_earlier = sums[before]
    scale = float(np.quantile(of_earlier[of_earlier > 0], BENCHMARK)) if of_earlier.any() else 1.0
    return sums[rows] / scale
