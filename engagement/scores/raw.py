"""Computes the engagement rows of a score set from the daily counts, in set-based SQL."""

from collections.abc import Collection
from datetime import date, timedelta
from pathlib import Path
from typing import Any, LiteralString

from core.database import sql
from engagement.models import ScoreSet
from engagement.scopes import ACCOUNTS, SubjectKind
from engagement.scores import audiences
from engagement.scores.formula import window_bounds

# An account's users are its members, and the users with an event in it within this many days.
USERS_SEEN_WITHIN_DAYS = 90

_JOIN_IDENTIFIED_USERS: LiteralString = """
    JOIN engagement_user u ON u.id = d.user_id AND u.is_identified AND u.product_id = %(product)s
"""
_JOIN_AUDIENCE: LiteralString = f"""
    JOIN engagement_userengagement u ON u.product_id = d.product_id
        AND u.score_set_id = {sql.SCORE_SET} AND u.user_id = d.user_id
"""


def join_counted_users(score_set: ScoreSet, kind: SubjectKind) -> LiteralString:
    """For statements with daily counts as "d": a join that keeps those of users that count.

    An account counts identified users, and with an audience only the users in it.
    """
    if kind is not ACCOUNTS:
        return ""
    return _JOIN_AUDIENCE if score_set.audience else _JOIN_IDENTIFIED_USERS


def _load(file_name: str) -> LiteralString:
    return Path(__file__).with_name(file_name).read_text()


_SCORE_USERS = _load("score_users.sql")
_SCORE_ACCOUNTS = _load("score_accounts.sql").format(
    counted_users="""
        SELECT u.id, u.account_id FROM engagement_user u
        WHERE u.is_identified AND u.product_id = %(product)s
    """,
)
_SCORE_ACCOUNTS_BY_AUDIENCE = _load("score_accounts.sql").format(
    counted_users=f"""
        SELECT u.id, u.account_id FROM engagement_user u
        JOIN engagement_userengagement e ON e.product_id = %(product)s
            AND e.score_set_id = {sql.SCORE_SET} AND e.user_id = u.id
        WHERE u.is_identified AND u.product_id = %(product)s
    """,
)


def score_users(score_set: ScoreSet, user_ids: Collection[int], today: date) -> set[int]:
    """Compute the users' engagement rows; return the users who entered or left the audience.

    Skips users that nobody has identified, and deletes the rows of joined users. The caller must
    score the accounts of the returned users afterwards.
    """
    if not user_ids:
        return set()
    _delete_joined(score_set, user_ids)
    if not score_set.audience:
        _score(_SCORE_USERS, score_set, user_ids, today)
        return set()
    members, changed = audiences.refresh_members(score_set, user_ids, today)
    _score(_SCORE_USERS, score_set, members, today)
    return changed


_DELETE_JOINED: LiteralString = f"""
    DELETE FROM engagement_userengagement
    WHERE product_id = %(product)s AND score_set_id = {sql.SCORE_SET}
      AND user_id = ANY(%(joined)b::bigint[])
"""
_FIND_JOINED: LiteralString = """
    SELECT id FROM engagement_user u
    WHERE id = ANY(%(users)b::bigint[]) AND joined_to_id IS NOT NULL AND u.product_id = %(product)s
"""


def _delete_joined(score_set: ScoreSet, user_ids: Collection[int]) -> None:
    """Delete the rows of those of the users who are joined to others."""
    users = {"product": score_set.product_id, "users": list(user_ids)}
    if joined := sql.fetch(_FIND_JOINED, users):
        parameters = {
            "product": score_set.product_id,
            "score_set": score_set.pk,
            "joined": [id for (id,) in joined],
        }
        if sql.execute(_DELETE_JOINED, parameters):
            ScoreSet.objects.filter(pk=score_set.pk).update(benchmarks_stale=True)


def score_accounts(score_set: ScoreSet, account_ids: Collection[int], today: date) -> None:
    """Compute the accounts' engagement rows from the events of the users that count."""
    statement = _SCORE_ACCOUNTS_BY_AUDIENCE if score_set.audience else _SCORE_ACCOUNTS
    _score(statement, score_set, account_ids, today)


def query_parameters(score_set: ScoreSet, today: date) -> dict[str, Any]:
    """The parameters of statements over daily counts: the set's definition and its windows."""
    first_day, _ = window_bounds(score_set.lookback_days, today)
    return {
        "product": score_set.product_id,
        "score_set": score_set.pk,
        "default_weight": score_set.default_weight,
        "today": today,
        "first_day": first_day,
        "yesterday_from": first_day - timedelta(days=1),
        "last_period_from": first_day - timedelta(days=score_set.lookback_days),
        "yesterday_last_period_from": first_day - timedelta(days=score_set.lookback_days + 1),
        "seen_from": today - timedelta(days=USERS_SEEN_WITHIN_DAYS - 1),
    }


def _score(
    statement: LiteralString, score_set: ScoreSet, subject_ids: Collection[int], today: date
) -> None:
    if not subject_ids:
        return
    subjects = {"subjects": sorted(subject_ids)}
    if sql.execute(statement, query_parameters(score_set, today) | subjects):
        ScoreSet.objects.filter(pk=score_set.pk, benchmarks_stale=False).update(
            benchmarks_stale=True
        )
