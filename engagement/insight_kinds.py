"""The kinds of insights, those that cost most first: in this order people see them. And the states
of an account's activity, which some of the kinds are about."""

from typing import Literal, NamedTuple, TypeAlias

Severity: TypeAlias = Literal["good", "notice", "warning"]
InsightKind: TypeAlias = Literal[
    "license_ending",
    "renewal_at_risk",
    "activity_stopped",
    "users_leaving",
    "trend_down",
    "evaluation_ending",
    "seats_exceeded",
    "seats_unused",
    "key_user_quiet",
    "one_person",
    "breadth_narrowing",
    "new_account",
    "trend_up",
]
ActivityState: TypeAlias = Literal[
    "steady", "falling", "stopped", "rising", "settled_lower", "settled_higher", "unknown"
]
UnknownReason: TypeAlias = Literal["too_quiet", "too_new", "not_decided"]


class InsightInfo(NamedTuple):
    """What people call the kind, and how serious it is."""

    label: str
    severity: Severity


# Warnings first: what a customer is about to stop paying for, then what they stop using. Then
# notices: licenses first, then how an account works.
INSIGHTS: dict[InsightKind, InsightInfo] = {
    "license_ending": InsightInfo("Subscription ending", "warning"),
    "renewal_at_risk": InsightInfo("Renewal at risk", "warning"),
    "activity_stopped": InsightInfo("Activity stopped", "warning"),
    "users_leaving": InsightInfo("Users leaving", "warning"),
    "trend_down": InsightInfo("Activity falling", "warning"),
    "evaluation_ending": InsightInfo("Evaluation ending", "notice"),
    "seats_exceeded": InsightInfo("More users than seats", "notice"),
    "seats_unused": InsightInfo("Seats unused", "notice"),
    "key_user_quiet": InsightInfo("Most active user quiet", "notice"),
    "one_person": InsightInfo("Depends on one person", "notice"),
    "breadth_narrowing": InsightInfo("Fewer events in use", "notice"),
    "new_account": InsightInfo("New account", "notice"),
    "trend_up": InsightInfo("Activity rising", "good"),
}
# Those that compare active users with licensed seats.
ABOUT_SEATS: frozenset[InsightKind] = frozenset({"seats_exceeded", "seats_unused"})
# What people call the states of an account's activity.
ACTIVITY_LABELS: dict[ActivityState, str] = {
    "falling": "falling",
    "stopped": "stopped",
    "settled_lower": "settled at a lower level",
    "rising": "rising",
    "settled_higher": "settled at a higher level",
    "steady": "steady",
    "unknown": "cannot tell",
}
# Why a state is unknown.
REASON_LABELS: dict[UnknownReason, str] = {
    "too_quiet": "too little activity",
    "too_new": "too new",
    "not_decided": "not decided yet",
}
