"""Audiences: the users that a workspace is about.

A user is in a score set's audience if and only if they have an engagement row in it. Accounts count
only these users, so their accounts must be scored again when a user enters or leaves.
"""

from collections.abc import Collection
from datetime import date
from typing import LiteralString

from django.db.models import Exists, OuterRef, Q, QuerySet

from core.database import sql
from engagement.models import ScoreSet, User, UserEngagement
from engagement.rules import filters, rules
from engagement.scopes import USERS
from engagement.scores import rescore_queue


def refresh_members(
    score_set: ScoreSet, user_ids: Collection[int], today: date
) -> tuple[set[int], set[int]]:
    """Delete the engagement rows of those of the users who left the audience.

    Returns the members among the users, and the users who entered or left. The caller creates the
    rows of users who entered.
    """
    candidates = User.objects.filter(
        product_id=score_set.product_id, id__in=list(user_ids), is_identified=True
    )
    members = set(
        candidates.filter(_audience_filter(score_set, today)).values_list("id", flat=True)
    )
    rows = _rows(score_set).filter(user_id__in=list(user_ids))
    members_before = set(rows.values_list("user_id", flat=True))
    if leavers := members_before - members:
        rows.filter(user_id__in=leavers).delete()
    return members, members_before ^ members


_MEMBERS_OF_ACCOUNTS: LiteralString = """
    SELECT id FROM engagement_user u
    WHERE account_id = ANY(%(accounts)b::bigint[]) AND is_identified AND u.product_id = %(product)s
"""


def users_affected_by_accounts(score_set: ScoreSet, account_ids: Collection[int]) -> set[int]:
    """The users who may enter or leave the audience when these accounts' traits change."""
    if not score_set.audience or not account_ids or not _rule(score_set).uses_account_traits:
        return set()
    return {
        id
        for (id,) in sql.fetch(
            _MEMBERS_OF_ACCOUNTS, {"product": score_set.product_id, "accounts": list(account_ids)}
        )
    }


_ACCOUNTS_OF_USERS: LiteralString = """
    SELECT DISTINCT account_id FROM engagement_dailycount
    WHERE product_id = %(product)s AND user_id = ANY(%(users)b::bigint[]) AND account_id <> 0
    UNION
    SELECT account_id FROM engagement_user u
    WHERE id = ANY(%(users)b::bigint[]) AND account_id IS NOT NULL AND u.product_id = %(product)s
"""


def accounts_of_users(score_set: ScoreSet, user_ids: Collection[int]) -> set[int]:
    """The accounts that count any of these users or one of their events."""
    if not user_ids:
        return set()
    rows = sql.fetch(_ACCOUNTS_OF_USERS, {"product": score_set.product_id, "users": list(user_ids)})
    return {id for (id,) in rows}


_FIRST_SEEN_DAY: LiteralString = """
    SELECT (min(first_seen_at) AT TIME ZONE 'UTC')::date FROM engagement_user u
    WHERE id = ANY(%(users)b::bigint[]) AND u.product_id = %(product)s
"""


def first_seen_day(score_set: ScoreSet, user_ids: Collection[int]) -> date:
    """The earliest day with any event of these users."""
    parameters = {"product": score_set.product_id, "users": list(user_ids)}
    ((day,),) = sql.fetch(_FIRST_SEEN_DAY, parameters)
    return day or date.max


def enqueue_changed_members(score_set: ScoreSet, today: date) -> None:
    """Enqueue the users who enter or leave the audience because a new day began."""
    if not score_set.audience or not _rule(score_set).uses_time:
        return
    identified = User.objects.filter(product_id=score_set.product_id, is_identified=True)
    matches = _audience_filter(score_set, today)
    has_row = Exists(_rows(score_set).filter(user_id=OuterRef("id")))
    for users in (identified.filter(matches, ~has_row), identified.filter(has_row, ~matches)):
        ids = users.values_list("id", flat=True).iterator()
        rescore_queue.enqueue([rescore_queue.rescore_user(score_set.product_id, id) for id in ids])


def _rule(score_set: ScoreSet) -> rules.Rule:
    return rules.parse_rule(score_set.audience, "user", for_audience=True)


def _audience_filter(score_set: ScoreSet, today: date) -> Q:
    return filters.audience_filter(_rule(score_set), score_set.product_id, today)


def _rows(score_set: ScoreSet) -> QuerySet[UserEngagement]:
    return USERS.engagement_rows(score_set)
