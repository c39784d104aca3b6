"""The segments that each workspace starts with."""

from typing import Any, NamedTuple

from engagement.metric_names import Scope

Conditions = list[dict[str, Any]]


class DefaultSegment(NamedTuple):
    """A segment whose members meet all of its conditions.

    Conditions compare scores as shown, with one decimal, so "below 50" is "at most 49.9".
    """

    scope: Scope
    name: str
    conditions: Conditions


def _score(operator: str, value: float, upper: float | None = None) -> dict[str, Any]:
    return _metric("engagement_score", operator, value, upper)


def _metric(metric: str, operator: str, value: float, upper: float | None = None) -> dict[str, Any]:
    return {
        "kind": "metric",
        "metric": metric,
        "operator": operator,
        "value": value,
        "upper": upper,
    }


def _time(kind: str, operator: str, days: int | str) -> dict[str, Any]:
    return {"kind": kind, "operator": operator, "days": days}


_ACTIVE = {"kind": "active", "active": True}

_FOR_BOTH: list[tuple[str, Conditions]] = [
    ("All", []),
    ("All Active", [_ACTIVE]),
    ("New", [_time("created", "within_days", "window")]),
    ("Most Engaged", [_score("at_least", 75)]),
    ("Slightly Engaged", [_score("between", 50, 74.9)]),
    ("Passive", [_score("between", 25, 49.9)]),
    ("Least Engaged", [_ACTIVE, _score("at_most", 24.9)]),
    (
        "Recently Inactive",
        [
            _time("last_active", "more_than_days_ago", 30),
            # Today is the first of these days, so the last is sixty days ago.
            _time("last_active", "within_days", 61),
        ],
    ),
    ("Red Hot", [_metric("score_change", "at_least", 10)]),
    ("Ice Cold", [_metric("score_change", "at_most", -10)]),
    ("Mature", [_time("created", "more_than_days_ago", 180)]),
    ("Active Today", [_time("last_active", "within_days", 1)]),
]
_FOR_ACCOUNTS: list[tuple[str, Conditions]] = [
    ("Multi-User Accounts", [_metric("total_users", "at_least", 2)]),
]

# In the order of the list.
DEFAULT_SEGMENTS: list[DefaultSegment] = [
    *(DefaultSegment("user", name, conditions) for name, conditions in _FOR_BOTH),
    *(
        DefaultSegment("account", name, conditions)
        for name, conditions in [*_FOR_BOTH, *_FOR_ACCOUNTS]
    ),
]
