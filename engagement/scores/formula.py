"""Formulas that turn raw scores into the scores that people see.

Raw scores are sums of weights times counts (``score_users.sql``, ``score_accounts.sql``), and
``benchmarks.py`` takes the benchmark from them.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Literal, TypeAlias

Trend: TypeAlias = Literal["rising", "falling", "steady"]

# The change of a score over one lookback that makes a trend.
TREND_THRESHOLD = 10.0


def compute_score(raw: float, benchmark: float | None) -> float:
    """The engagement score, 0 to 100, of a raw score: 100 · (1 - 10^(-raw / benchmark)).

    A raw score above zero scores at least 1; zero scores 0. The benchmark itself scores 90, which
    leaves room above it. The score never falls as *raw* grows, so ranking by raw score is ranking
    by score.
    """
    if raw <= 0 or not benchmark:
        return 0.0
    return max(1.0, 100.0 * (1.0 - math.pow(10.0, -raw / benchmark)))


def round_to_tenth(number: float) -> float:
    """The number with one decimal, as people see it and conditions compare it. Halves round up.

    PostgreSQL's ``floor(x * 10 + 0.5) / 10`` gives the same number.
    """
    return math.floor(number * 10 + 0.5) / 10


def rounded_score(raw: float, benchmark: float | None) -> float:
    """The engagement score with one decimal."""
    return round_to_tenth(compute_score(raw, benchmark))


def score_change(now: float, before: float) -> float:
    """The change of a displayed score, with one decimal."""
    return round_to_tenth(now - before)


def classify_trend(change: float) -> Trend:
    """The trend of a score, by its change over one lookback."""
    if change >= TREND_THRESHOLD:
        return "rising"
    return "falling" if change <= -TREND_THRESHOLD else "steady"


def percentile_rank(raw: int, quantiles: Sequence[int]) -> float:
    """The percentage of scored subjects with a lower raw score, with one decimal.

    *quantiles* are equally spaced quantiles of the raw scores above zero, in ascending order.
    """
    if not quantiles:
        return 0.0
    return round_to_tenth(100.0 * bisect_left(quantiles, raw) / len(quantiles))


def window_bounds(lookback_days: int, last_day: date) -> tuple[date, date]:
    """The first and last UTC day of the window that ends with *last_day*."""
    return last_day - timedelta(days=lookback_days - 1), last_day
