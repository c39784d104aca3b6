"""Formulas that turn raw scores into the scores that people see.

Raw scores are sums of weights times counts (``score_users.sql``, ``score_accounts.sql``), and
``benchmarks.py`` takes the benchmark from them.

With a half-life, each event counts its weight times 2^(-age / half-life). All raw scores shrink by
the same factor each day. So they are kept on the scale of the set's ``reference_day``, on which an
event of a later day counts more: a new day changes no raw score, and no score of a subject without
new events. They are whole numbers of 1 / ``UNITS_PER_POINT``, and ``shown_points()`` converts them
for people. A set whose reference day is ``MAX_HALF_LIVES`` half-lives ago is built again with a new
one. The benchmark is that of subjects with a scored event in the last 30 days. Otherwise
subjects that left long ago would lower it forever.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Literal, Protocol, TypeAlias

from engagement.models import ScoreSet

Trend: TypeAlias = Literal["rising", "falling", "steady"]

# The change of a score over one lookback that makes a trend.
TREND_THRESHOLD = 10.0
# On the last day before a new reference day, a subject may have 2^34 points before its raw score is
# cut at 2^62. On the reference day, the factor of a day is rounded by at most half a millionth.
UNITS_PER_POINT = 2**20
MAX_HALF_LIVES = 8
# An event of that many half-lives before the reference day rounds to nothing.
NEGLIGIBLE_HALF_LIVES = 22


class Counting(Protocol):
    """How a score set, a workspace, or a definition counts."""

    @property
    def lookback_days(self) -> int: ...

    @property
    def half_life_days(self) -> int | None: ...


def age_factor(counting: Counting, age_days: int) -> float:
    """What an event of that many days ago counts, as a share of its weight; today is 0.

    With a lookback it is 1 within the window and 0 outside. With a half-life it is
    2^(-age / half-life), however old the event is. Events of later days count 0.
    """
    if age_days < 0:
        return 0.0
    if counting.half_life_days is None:
        return float(age_days < counting.lookback_days)
    return math.pow(2.0, -age_days / counting.half_life_days)


def points_on(score_set: ScoreSet, raw: float, day: date) -> float:
    """The points of a raw score, or of a benchmark, of the day."""
    if score_set.half_life_days is None or score_set.reference_day is None:
        return raw
    age = (day - score_set.reference_day).days
    return raw / UNITS_PER_POINT * math.pow(2.0, -age / score_set.half_life_days)


def shown_points(score_set: ScoreSet, raw: float, day: date) -> int:
    """The points that people see of a raw score of the day."""
    return round(points_on(score_set, raw, day))


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
