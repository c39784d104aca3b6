"""The kinds of insights, those that cost most first: in this order people see them."""

from typing import Literal, NamedTuple, TypeAlias

Severity: TypeAlias = Literal["good", "notice", "warning"]
InsightKind: TypeAlias = Literal[
    "renewal_at_risk",
    "activity_stopped",
    "trend_down",
    "evaluation_ending",
    "seats_exceeded",
    "seats_unused",
    "one_person",
    "breadth_narrowing",
    "new_account",
    "trend_up",
]


class InsightInfo(NamedTuple):
    """What people call the kind, and how serious it is."""

    label: str
    severity: Severity


# Warnings first: what a customer is about to stop paying for, then what they stop using. Then
# notices: licenses first, then how an account works.
INSIGHTS: dict[InsightKind, InsightInfo] = {
    "renewal_at_risk": InsightInfo("Renewal at risk", "warning"),
    "activity_stopped": InsightInfo("Activity stopped", "warning"),
    "trend_down": InsightInfo("Score falling", "warning"),
    "evaluation_ending": InsightInfo("Evaluation ending", "notice"),
    "seats_exceeded": InsightInfo("More users than seats", "notice"),
    "seats_unused": InsightInfo("Seats unused", "notice"),
    "one_person": InsightInfo("Depends on one person", "notice"),
    "breadth_narrowing": InsightInfo("Fewer events in use", "notice"),
    "new_account": InsightInfo("New account", "notice"),
    "trend_up": InsightInfo("Score rising", "good"),
}
