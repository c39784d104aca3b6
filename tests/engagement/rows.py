"""Engagement rows with numbers of a test's choosing, and who of them meets conditions.

Today is the 24th of September 2026.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from engagement.metric_names import Scope
from engagement.models import Account, AccountEngagement, ScoreSet, User, UserEngagement
from engagement.rules import rules
from engagement.segments import members as segments
from tests.engagement.history import NOON

TODAY = NOON.date()


def named(values: object) -> str:
    """The id of a parameter; sets always have the same order."""
    return ", ".join(sorted(values)) if isinstance(values, set) else str(values)


def ago(days: float) -> datetime:
    return NOON - timedelta(days=days)


def user(score_set: ScoreSet, name: str, raw: int = 0, **numbers: Any) -> UserEngagement:
    """A user of the set with these numbers; ``traits`` and times are the user's own."""
    own, numbers = split(numbers)
    subject = User.objects.create(product_id=score_set.product_id, external_id=name, **own)
    return UserEngagement.objects.create(
        product_id=score_set.product_id, score_set=score_set, user=subject, raw=raw, **numbers
    )


def account(score_set: ScoreSet, name: str, raw: int = 0, **numbers: Any) -> AccountEngagement:
    own, numbers = split(numbers)
    subject = Account.objects.create(product_id=score_set.product_id, external_id=name, **own)
    numbers = {"active_users": 0, **numbers}
    return AccountEngagement.objects.create(
        product_id=score_set.product_id, score_set=score_set, account=subject, raw=raw, **numbers
    )


def split(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    own = {"is_identified": True, "first_seen_at": ago(20), "last_seen_at": NOON}
    own |= {name: values.pop(name) for name in (*own, "traits", "created_at") if name in values}
    return own, {"event_count": 0, "active_days": 0, "raw_yesterday_last_period": 0, **values}


def moved(score_set: ScoreSet, name: str, now: int, before: int, **own: Any) -> AccountEngagement:
    """An account with as many points on the last complete days, and on those before them."""
    numbers = {"raw_yesterday": now, "raw_yesterday_last_period": before}
    return account(score_set, name, raw=now, **numbers, **own)


MAKE: dict[Scope, Callable[..., Any]] = {"user": user, "account": account}


def members(
    score_set: ScoreSet, scope: Scope, *conditions: dict[str, Any], match: str = "all"
) -> set[str]:
    rule = rules.parse_rule({"match": match, "conditions": list(conditions)}, scope)
    rows = segments.engagement_rows(score_set, scope).filter(
        segments.members_filter(score_set, rule)
    )
    names = set(rows.values_list(f"{scope}__external_id", flat=True))
    assert segments.count_members(score_set, rule) == len(names)
    return names
