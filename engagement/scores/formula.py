"""Scores: the formulas that turn raw scores into what people read."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Literal, TypeAlias

Trend: TypeAlias = Literal["rising", "falling", "steady"]

# A change of the score by so much over one lookback is a trend.
TREND_THRESHOLD = 10.0


def compute_score(raw: int, benchmark: float | None) -> float:
    """The engagement score, 0 to 100, of a raw score under a workspace's benchmark.

    100 · (1 - 10^(-raw / benchmark)), at least 1 for any raw score above zero, and 0 for none. The
    benchmark itself scores 90, which leaves room above it. The rule is monotone in *raw*, so
    ranking by raw score is ranking by score.
    """
    if raw <= 0 or not benchmark:
        return 0.0
    return max(1.0, 100.0 * (1.0 - math.pow(10.0, -raw / benchmark)))


def round_to_tenth(number: float) -> float:
    """The number with one decimal, halves up: what people read, and what conditions compare.

    Spelled so that PostgreSQL's ``floor(x * 10 + 0.5) / 10`` gives the same number.
    """
    return math.floor(number * 10 + 0.5) / 10


def rounded_score(raw: int, benchmark: float | None) -> float:
    """The engagement score with one decimal."""
    return round_to_tenth(compute_score(raw, benchmark))


def score_change(now: float, before: float) -> float:
    """By how much a shown score moved, with one decimal."""
    return round_to_tenth(now - before)


def classify_trend(change: float) -> Trend:
    """Where a score is going, by its change over one lookback."""
    if change >= TREND_THRESHOLD:
        return "rising"
    return "falling" if change <= -TREND_THRESHOLD else "steady"


def percentile_rank(raw: int, quantiles: Sequence[int]) -> float:
    """The share of scored subjects with a lower raw score, in percent with one decimal.

    *quantiles* are equally spaced quantiles of the raw scores above zero, from low to high.
    """
    if not quantiles:
        return 0.0
    return round_to_tenth(100.0 * bisect_left(quantiles, raw) / len(quantiles))


def window_bounds(lookback_days: int, last_day: date) -> tuple[date, date]:
    """First and last UTC day of the window of *lookback_days* days that ends with *last_day*."""
    return last_day - timedelta(days=lookback_days - 1), last_day
