"""The metrics of a user or an account in a workspace, from its row and its set's benchmarks."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from engagement.models import AccountEngagement, ScoreSet, UserEngagement
from engagement.models.scores import Engagement
from engagement.scores.formula import (
    Trend,
    classify_trend,
    percentile_rank,
    rounded_score,
    score_change,
)
from engagement.scores.history import AllTimeTotals

# The marketplace license's number of seats. What is below one or beyond belief is none.
SEATS_TRAIT = "am.tier.number"
MAX_SEATS = 1_000_000_000


@dataclass(frozen=True)
class Scores:
    """A score from 0 to 100 with one decimal: now, a day ago, one lookback ago, and where to."""

    now: float
    yesterday: float
    last_period: float
    change: float
    trend: Trend


@dataclass(frozen=True)
class Metrics:
    """What is known of a subject in a workspace.

    ``percentile`` is in percent. Shares are from 0 to 1, and None where there is nothing to share.
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
    """The metrics that only accounts have come on top; ``license_utilization`` may exceed 1."""

    active_users: int
    total_users: int
    active_share: float | None
    license_utilization: float | None


def user_scores(row: UserEngagement, score_set: ScoreSet) -> Scores:
    return _scores(
        rounded_score(row.raw, score_set.user_benchmark),
        rounded_score(row.raw_yesterday, score_set.user_benchmark_yesterday),
        rounded_score(row.raw_last_period, score_set.user_benchmark_last_period),
    )


def account_scores(row: AccountEngagement, score_set: ScoreSet) -> Scores:
    return _scores(
        rounded_score(row.raw, score_set.account_benchmark),
        rounded_score(row.raw_yesterday, score_set.account_benchmark_yesterday),
        rounded_score(row.raw_last_period, score_set.account_benchmark_last_period),
    )


def compute_user_metrics(
    row: UserEngagement, score_set: ScoreSet, overall: AllTimeTotals
) -> Metrics:
    return Metrics(
        scores=user_scores(row, score_set),
        percentile=percentile_rank(row.raw, score_set.user_quantiles),
        **_counts(row, score_set, overall),
    )


def compute_account_metrics(
    row: AccountEngagement, score_set: ScoreSet, overall: AllTimeTotals, traits: Mapping[str, Any]
) -> AccountMetrics:
    return AccountMetrics(
        scores=account_scores(row, score_set),
        percentile=percentile_rank(row.raw, score_set.account_quantiles),
        **_counts(row, score_set, overall),
        active_users=row.active_users,
        total_users=row.total_users,
        active_share=ratio(row.active_users, row.total_users),
        # A license is for everybody, and an audience is not.
        license_utilization=(
            None if score_set.audience else ratio(row.active_users, licensed_seats(traits))
        ),
    )


def licensed_seats(traits: Mapping[str, Any]) -> float | None:
    """The number of seats of the account's license; None where no trait says one."""
    value = traits.get(SEATS_TRAIT)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 1 <= value <= MAX_SEATS else None


def ratio(part: int, whole: float | None) -> float | None:
    return part / whole if whole else None


def _scores(now: float, yesterday: float, last_period: float) -> Scores:
    change = score_change(now, last_period)
    return Scores(now, yesterday, last_period, change, classify_trend(change))


def _counts(row: Engagement, score_set: ScoreSet, overall: AllTimeTotals) -> dict[str, Any]:
    return {
        "raw_score": row.raw,
        "frequency": row.active_days,
        "adoption": ratio(row.name_count, score_set.scored_event_name_count),
        "adoption_all_time": ratio(overall.names, score_set.scored_event_name_count),
        "recently_scored_events": row.event_count,
        "overall_scored_events": overall.events,
        "last_active_at": row.last_active_at,
    }
