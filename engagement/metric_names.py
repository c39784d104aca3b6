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
    """``label`` begins a sentence; ``unit`` follows the number, empty where it needs none."""

    label: str
    unit: str
    scopes: tuple[Scope, ...] = BOTH


METRICS: dict[MetricName, Named] = {
    "engagement_score": Named("Engagement score", "of 100"),
    "raw_score": Named("Raw score", "points"),
    "percentile": Named("Percentile", "%"),
    "score_yesterday": Named("Score a day ago", "of 100"),
    "score_last_period": Named("Score one period ago", "of 100"),
    "score_change": Named("Score change over one period", ""),
    "frequency": Named("Active days in the window", "days"),
    "adoption": Named("Share of event names used in the window", "(0 to 1)"),
    "adoption_all_time": Named("Share of event names ever used", "(0 to 1)"),
    "recently_scored_events": Named("Scored events in the window", ""),
    "overall_scored_events": Named("Scored events ever", ""),
    "active_users": Named("Active users", "", ACCOUNTS),
    "total_users": Named("Number of users", "", ACCOUNTS),
    "active_share": Named("Share of users who are active", "(0 to 1)", ACCOUNTS),
    "license_utilization": Named("Active users per licensed seat", "(0 to 1)", ACCOUNTS),
    "tenure_days": Named("Age", "days"),
}
