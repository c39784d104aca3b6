"""Whom a workspace is about: the users that meet its audience's conditions.

A user is in a set's audience if and only if they have a row in it. Accounts count only those
users, so whoever enters or leaves makes their accounts stale.
"""

from collections.abc import Collection
from datetime import date
from typing import LiteralString

from django.db.models import Exists, OuterRef, Q, QuerySet

from engagement.database import sql
from engagement.models import ScoreSet, User, UserEngagement
from engagement.rules import filters, rules
from engagement.scores import rescore_queue


def refresh_members(
    score_set: ScoreSet, user_ids: Collection[int], today: date
) -> tuple[set[int], set[int]]:
    """Of these users those who are in the audience, and those who entered or left it.

    The rows of those who left are deleted; the rows of those who entered are for the caller to
    make.
    """
    candidates = User.objects.filter(id__in=list(user_ids), is_identified=True)
    members = set(candidates.filter(_meets(score_set, today)).values_list("id", flat=True))
    rows = _rows(score_set).filter(user_id__in=list(user_ids))
    before = set(rows.values_list("user_id", flat=True))
    if gone := before - members:
        rows.filter(user_id__in=gone).delete()
    return members, before ^ members


_USERS_NOW_IN: LiteralString = """
    SELECT id FROM engagement_user WHERE account_id = ANY(%(accounts)b::bigint[]) AND is_identified
"""


def users_affected_by_accounts(score_set: ScoreSet, account_ids: Collection[int]) -> set[int]:
    """The users whose place in the audience may depend on these accounts' traits."""
    if not score_set.audience or not account_ids or not _rule(score_set).uses_account_traits:
        return set()
    return {id for (id,) in sql.fetch(_USERS_NOW_IN, {"accounts": list(account_ids)})}


_ACCOUNTS_OF: LiteralString = f"""
    SELECT DISTINCT account_id FROM engagement_dailycount
    WHERE product_id = {sql.PRODUCT} AND user_id = ANY(%(users)b::bigint[]) AND account_id <> 0
    UNION
    SELECT account_id FROM engagement_user
    WHERE id = ANY(%(users)b::bigint[]) AND account_id IS NOT NULL
"""


def accounts_of_users(score_set: ScoreSet, user_ids: Collection[int]) -> set[int]:
    """The accounts that count any of these users, or an event of theirs."""
    if not user_ids:
        return set()
    rows = sql.fetch(_ACCOUNTS_OF, {"product": score_set.product_id, "users": list(user_ids)})
    return {id for (id,) in rows}


_FIRST_DAY_OF: LiteralString = """
    SELECT (min(first_seen_at) AT TIME ZONE 'UTC')::date FROM engagement_user
    WHERE id = ANY(%(users)b::bigint[])
"""


def first_seen_day(user_ids: Collection[int]) -> date:
    """The earliest day on which any of these users can have done anything."""
    ((day,),) = sql.fetch(_FIRST_DAY_OF, {"users": list(user_ids)})
    return day or date.max


def enqueue_changed_members(score_set: ScoreSet, today: date) -> None:
    """Mark the users whom the passing of time alone brings into the audience or takes out of it."""
    if not score_set.audience or not _rule(score_set).uses_time:
        return
    known = User.objects.filter(product_id=score_set.product_id, is_identified=True)
    is_in = Exists(_rows(score_set).filter(user_id=OuterRef("id")))
    entered = known.filter(_meets(score_set, today), ~is_in)
    left = known.filter(is_in).exclude(_meets(score_set, today))
    for turned in (entered, left):
        ids = turned.values_list("id", flat=True).iterator()
        rescore_queue.enqueue([rescore_queue.rescore_user(score_set.product_id, id) for id in ids])


def _rule(score_set: ScoreSet) -> rules.Rule:
    return rules.parse_rule(score_set.audience, "user", for_audience=True)


def _meets(score_set: ScoreSet, today: date) -> Q:
    return filters.audience_filter(_rule(score_set), score_set.product_id, today)


def _rows(score_set: ScoreSet) -> QuerySet[UserEngagement]:
    return UserEngagement.objects.filter(product_id=score_set.product_id, score_set=score_set)
