"""The engagement metrics of a subject, computed from its engagement row and its score set."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from engagement.license_traits import SEATS_TRAIT
from engagement.models import AccountEngagement, ScoreSet, UserEngagement
from engagement.scopes import SubjectKind, kind_of
from engagement.scores.formula import (
    Trend,
    classify_trend,
    percentile_rank,
    points_on,
    rounded_score,
    score_change,
    shown_points,
)
from engagement.scores.history import AllTimeTotals

# A number of seats outside 1 to MAX_SEATS is ignored.
MAX_SEATS = 1_000_000_000


@dataclass(frozen=True)
class Scores:
    """A score from 0 to 100 with one decimal: now, a day ago, and one lookback ago.

    ``change`` compares now, when today is not over, with one lookback ago. ``complete_change``
    compares yesterday with ``yesterday_last_period``, one lookback before yesterday. Both are None
    for a row that was not scored since that was added. ``raw_score`` is in points of today.
    """

    now: float
    yesterday: float
    last_period: float
    change: float
    trend: Trend
    yesterday_last_period: float | None = None
    complete_change: float | None = None
    raw_score: int = 0


@dataclass(frozen=True)
class Metrics:
    """The metrics of a subject in a workspace.

    ``percentile`` is in percent. Ratios are from 0 to 1, or None where the denominator is 0.
    """

    scores: Scores
    raw_score: int
    percentile: float
    frequency: int
    adoption: float | None
    adoption_all_time: float | None
    recently_scored_events: int
    overall_scored_events: int
    last_active_at: datetime | None


@dataclass(frozen=True)
class AccountMetrics(Metrics):
    """Adds the metrics that only accounts have. ``license_utilization`` may exceed 1."""

    active_users: int
    total_users: int
    active_share: float | None
    license_utilization: float | None


def compute_user_metrics(
    row: UserEngagement, score_set: ScoreSet, all_time: AllTimeTotals
) -> Metrics:
    return Metrics(**_common_metrics(row, score_set, all_time))


def compute_account_metrics(
    row: AccountEngagement, score_set: ScoreSet, all_time: AllTimeTotals, traits: Mapping[str, Any]
) -> AccountMetrics:
    return AccountMetrics(
        **_common_metrics(row, score_set, all_time),
        active_users=row.active_users,
        total_users=row.total_users,
        active_share=ratio(row.active_users, row.total_users),
        license_utilization=(
            ratio(row.active_users, licensed_seats(traits)) if score_set.counts_seats else None
        ),
    )


def licensed_seats(traits: Mapping[str, Any]) -> float | None:
    """The number of seats of the account's license, or None."""
    value = traits.get(SEATS_TRAIT)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 1 <= value <= MAX_SEATS else None


def ratio(part: int, total: float | None) -> float | None:
    return part / total if total else None


def compute_scores(row: UserEngagement | AccountEngagement, score_set: ScoreSet) -> Scores:
    kind = kind_of(row)
    now = rounded_score(row.raw, kind.benchmark(score_set))
    yesterday = rounded_score(row.raw_yesterday, kind.benchmark(score_set, "_yesterday"))
    last_period = rounded_score(row.raw_last_period, kind.benchmark(score_set, "_last_period"))
    change = score_change(now, last_period)
    before = _known_score(
        row.raw_yesterday_last_period, kind.benchmark(score_set, "_yesterday_last_period")
    )
    complete_change = None if before is None else score_change(yesterday, before)
    trend = classify_trend(change)
    day = score_set.scored_day
    points = shown_points(score_set, row.raw, day) if day else row.raw
    return Scores(now, yesterday, last_period, change, trend, before, complete_change, points)


def _known_score(raw: int | None, benchmark: float | None) -> float | None:
    """The score, or None if the release before wrote the row or the benchmarks. With points there
    is a benchmark."""
    if raw is None or (raw > 0 and benchmark is None):
        return None
    return rounded_score(raw, benchmark)


def shown_benchmark(score_set: ScoreSet, kind: SubjectKind) -> float | None:
    """The benchmark of the kind, in points of today."""
    benchmark, day = kind.benchmark(score_set), score_set.scored_day
    return points_on(score_set, benchmark, day) if benchmark is not None and day else benchmark


def points_in_window(score_set: ScoreSet, row: AccountEngagement) -> int:
    """What the events in the window add to the raw score of *row*."""
    return row.raw - row.raw_last_period if score_set.half_life_days else row.raw


def _common_metrics(
    row: UserEngagement | AccountEngagement, score_set: ScoreSet, all_time: AllTimeTotals
) -> dict[str, Any]:
    scores = compute_scores(row, score_set)
    return {
        "scores": scores,
        "raw_score": scores.raw_score,
        "percentile": percentile_rank(row.raw, kind_of(row).quantiles(score_set)),
        "frequency": row.active_days,
        "adoption": ratio(row.name_count, score_set.scored_event_name_count),
        "adoption_all_time": ratio(all_time.event_name_count, score_set.scored_event_name_count),
        "recently_scored_events": row.event_count,
        "overall_scored_events": all_time.event_count,
        "last_active_at": row.last_active_at,
    }
