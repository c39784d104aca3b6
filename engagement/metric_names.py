"""The metrics that conditions compare: their names, what people call them, and their units."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Scope: TypeAlias = Literal["user", "account"]
MetricName: TypeAlias = Literal[
    "engagement_score",
    "raw_score",
    "percentile",
    "score_yesterday",
    "score_last_period",
    "score_change",
    "frequency",
    "adoption",
    "adoption_all_time",
    "recently_scored_events",
    "overall_scored_events",
    "active_users",
    "total_users",
    "active_share",
    "license_utilization",
    "tenure_days",
]
BOTH_SCOPES: tuple[Scope, ...] = ("user", "account")
ACCOUNTS_ONLY: tuple[Scope, ...] = ("account",)


@dataclass(frozen=True)
class MetricInfo:
    """What people call a metric, and what its numbers are like."""

    label: str
    numbers: str
    scopes: tuple[Scope, ...] = BOTH_SCOPES


METRICS: dict[MetricName, MetricInfo] = {
    "engagement_score": MetricInfo("Engagement score", "0 to 100"),
    "score_change": MetricInfo("Score change over one period", "-100 to 100"),
    "score_yesterday": MetricInfo("Score a day ago", "0 to 100"),
    "score_last_period": MetricInfo("Score one period ago", "0 to 100"),
    "percentile": MetricInfo("Percentile", "0 to 100"),
    "raw_score": MetricInfo("Raw score", "points"),
    "frequency": MetricInfo("Active days in the window", "days"),
    "recently_scored_events": MetricInfo("Scored events in the window", "number"),
    "overall_scored_events": MetricInfo("Scored events ever", "number"),
    "adoption": MetricInfo("Share of event names used in the window", "0 to 1"),
    "adoption_all_time": MetricInfo("Share of event names ever used", "0 to 1"),
    "active_users": MetricInfo("Active users", "number", ACCOUNTS_ONLY),
    "total_users": MetricInfo("Number of users", "number", ACCOUNTS_ONLY),
    "active_share": MetricInfo("Share of users who are active", "0 to 1", ACCOUNTS_ONLY),
    "license_utilization": MetricInfo(
        "Active users per licensed seat", "1 when all are", ACCOUNTS_ONLY
    ),
    "tenure_days": MetricInfo("Age", "days"),
}
