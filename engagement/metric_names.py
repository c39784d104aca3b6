"""The engagement metrics that conditions compare: their names, labels, and units."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

Scope: TypeAlias = Literal["user", "account"]
MetricName: TypeAlias = Literal[
    "engagement_score",
    "raw_score",
    "percentile",
    "score_yesterday",
    "score_last_period",
    "score_change",
    "score_change_complete_days",
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
    """The label, the unit, and the scopes of a metric. *is_share* marks a fraction of one, which
    pages show and take in percent."""

    label: str
    unit: str
    scopes: tuple[Scope, ...] = BOTH_SCOPES
    is_share: bool = False


METRICS: dict[MetricName, MetricInfo] = {
    "engagement_score": MetricInfo("Engagement score", "0 to 100"),
    "score_change": MetricInfo("Score change from the previous period", "-100 to 100"),
    "score_change_complete_days": MetricInfo("Score change over complete days", "-100 to 100"),
    "score_yesterday": MetricInfo("Score yesterday", "0 to 100"),
    "score_last_period": MetricInfo("Score in the previous period", "0 to 100"),
    "percentile": MetricInfo("Percentile", "0 to 100"),
    "raw_score": MetricInfo("Raw score", "points"),
    "frequency": MetricInfo("Active days in the window", "days"),
    "recently_scored_events": MetricInfo("Scored events in the window", "number"),
    "overall_scored_events": MetricInfo("Scored events of all time", "number"),
    "adoption": MetricInfo("Feature adoption in the window", "%", is_share=True),
    "adoption_all_time": MetricInfo("Feature adoption of all time", "%", is_share=True),
    "active_users": MetricInfo("Active users", "number", ACCOUNTS_ONLY),
    "total_users": MetricInfo("Total users", "number", ACCOUNTS_ONLY),
    "active_share": MetricInfo("Share of active users", "%", ACCOUNTS_ONLY, True),
    "license_utilization": MetricInfo("Seat utilization", "% of the seats", ACCOUNTS_ONLY, True),
    "tenure_days": MetricInfo("Tenure", "days"),
}


def to_percent(share: float) -> float:
    """The percentage that people see for a share of one, without a rounding error."""
    return share * 100 if isinstance(share, int) else float(Decimal(repr(share)) * 100)


def from_percent(text: str) -> float:
    """The share of one for a percentage in decimal digits."""
    share = Decimal(text) / 100
    return int(share) if share == int(share) else float(share)
