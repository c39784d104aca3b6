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
BOTH: tuple[Scope, ...] = ("user", "account")
ACCOUNTS: tuple[Scope, ...] = ("account",)


@dataclass(frozen=True)
class Named:
    """What people call a metric, and what its numbers are like."""

    label: str
    numbers: str
    scopes: tuple[Scope, ...] = BOTH


METRICS: dict[MetricName, Named] = {
    "engagement_score": Named("Engagement score", "0 to 100"),
    "score_change": Named("Score change over one period", "-100 to 100"),
    "score_yesterday": Named("Score a day ago", "0 to 100"),
    "score_last_period": Named("Score one period ago", "0 to 100"),
    "percentile": Named("Percentile", "0 to 100"),
    "raw_score": Named("Raw score", "points"),
    "frequency": Named("Active days in the window", "days"),
    "recently_scored_events": Named("Scored events in the window", "number"),
    "overall_scored_events": Named("Scored events ever", "number"),
    "adoption": Named("Share of event names used in the window", "0 to 1"),
    "adoption_all_time": Named("Share of event names ever used", "0 to 1"),
    "active_users": Named("Active users", "number", ACCOUNTS),
    "total_users": Named("Number of users", "number", ACCOUNTS),
    "active_share": Named("Share of users who are active", "0 to 1", ACCOUNTS),
    "license_utilization": Named("Active users per licensed seat", "1 when all are", ACCOUNTS),
    "tenure_days": Named("Age", "days"),
}
