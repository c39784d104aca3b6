"""Computes subjects' numbers in a set of scores from the daily counts, in set-based SQL."""

from collections.abc import Collection
from datetime import date, timedelta
from typing import Any, LiteralString

from engagement import audiences, sql
from engagement.models import ScoreSet
from engagement.scoring import window

# An account's users are those with any event in so many days.
USERS_SEEN_WITHIN = 90

# Subjects are found by id alone: a condition on their product as well would tempt the planner, as
# long as a young table has no statistics, to walk all of the product's subjects instead.
SCORED: LiteralString = """
    LEFT JOIN engagement_scoredevent w
        ON w.score_set_id = %(score_set)s AND w.event_name_id = d.event_name_id
    WHERE d.product_id = %(product)s AND COALESCE(w.weight, %(default_weight)s) > 0
"""
_POINTS: LiteralString = "d.count * COALESCE(w.weight, %(default_weight)s)"
_NUMBERS: LiteralString = (
    f"""
    sum({_POINTS}) FILTER (WHERE d.day >= %(first_day)s) AS raw,
    sum({_POINTS}) FILTER (WHERE d.day >= %(yesterday_from)s AND d.day < %(today)s)
        AS raw_yesterday,
    sum({_POINTS}) FILTER (WHERE d.day < %(first_day)s) AS raw_last_period,"""
    """
    sum(d.count) FILTER (WHERE d.day >= %(first_day)s) AS event_count,
    count(DISTINCT d.day) FILTER (WHERE d.day >= %(first_day)s) AS active_days,
    count(DISTINCT d.event_name_id) FILTER (WHERE d.day >= %(first_day)s) AS name_count,
    max(d.last_at) AS last_at
"""
)
_COLUMNS: LiteralString = """
    raw, raw_yesterday, raw_last_period, event_count, active_days, name_count, last_active_at
"""
_VALUES: LiteralString = """
    COALESCE(n.raw, 0), COALESCE(n.raw_yesterday, 0), COALESCE(n.raw_last_period, 0),
    COALESCE(n.event_count, 0), COALESCE(n.active_days, 0), COALESCE(n.name_count, 0),
    COALESCE(n.last_at, earlier.last_at)
"""
_SET: LiteralString = """
    raw = EXCLUDED.raw, raw_yesterday = EXCLUDED.raw_yesterday,
    raw_last_period = EXCLUDED.raw_last_period, event_count = EXCLUDED.event_count,
    active_days = EXCLUDED.active_days, name_count = EXCLUDED.name_count,
    last_active_at = EXCLUDED.last_active_at
"""
_OLD: LiteralString = """
    e.raw, e.raw_yesterday, e.raw_last_period, e.event_count, e.active_days, e.name_count,
    e.last_active_at
"""
_NEW: LiteralString = """
    EXCLUDED.raw, EXCLUDED.raw_yesterday, EXCLUDED.raw_last_period, EXCLUDED.event_count,
    EXCLUDED.active_days, EXCLUDED.name_count, EXCLUDED.last_active_at
"""
_LAST_TWO_PERIODS: LiteralString = "d.day BETWEEN %(last_period_from)s AND %(today)s"
_EARLIER: LiteralString = "n.last_at IS NULL AND d.day < %(last_period_from)s"

_SCORE_USERS: LiteralString = f"""
    INSERT INTO engagement_userengagement AS e (product_id, score_set_id, user_id, {_COLUMNS})
    SELECT u.product_id, %(score_set)s, u.id, {_VALUES}
    FROM engagement_user u
    LEFT JOIN LATERAL (
        SELECT {_NUMBERS} FROM engagement_dailycount d
        {SCORED} AND d.user_id = u.id AND {_LAST_TWO_PERIODS}) n ON true
    LEFT JOIN LATERAL (
        SELECT max(d.last_at) AS last_at FROM engagement_dailycount d
        {SCORED} AND d.user_id = u.id AND {_EARLIER}) earlier ON true
    WHERE u.id = ANY(%(subjects)b::bigint[]) AND u.is_identified
    ORDER BY u.id
    ON CONFLICT (product_id, score_set_id, user_id) DO UPDATE SET {_SET}
    WHERE ({_OLD}) IS DISTINCT FROM ({_NEW})
"""
# An account's numbers count the users that are known, and of these the ones in the audience.
KNOWN: LiteralString = "JOIN engagement_user u ON u.id = d.user_id AND u.is_identified"
IN_AUDIENCE: LiteralString = """
    JOIN engagement_userengagement u ON u.product_id = d.product_id
        AND u.score_set_id = %(score_set)s AND u.user_id = d.user_id
"""
_SCORE_ACCOUNTS: LiteralString = f"""
    INSERT INTO engagement_accountengagement AS e
        (product_id, score_set_id, account_id, active_users, total_users, {_COLUMNS})
    SELECT a.product_id, %(score_set)s, a.id, COALESCE(n.active_users, 0), seen.users, {_VALUES}
    FROM engagement_account a
    LEFT JOIN LATERAL (
        SELECT count(DISTINCT d.user_id) FILTER (WHERE d.day >= %(first_day)s) AS active_users,
               {_NUMBERS}
        FROM engagement_dailycount d {{counted}}
        {SCORED} AND d.account_id = a.id AND {_LAST_TWO_PERIODS}) n ON true
    LEFT JOIN LATERAL (
        SELECT max(d.last_at) AS last_at FROM engagement_dailycount d {{counted}}
        {SCORED} AND d.account_id = a.id AND {_EARLIER}) earlier ON true
    LEFT JOIN LATERAL (
        SELECT count(DISTINCT d.user_id) AS users FROM engagement_dailycount d {{counted}}
        WHERE d.product_id = %(product)s AND d.account_id = a.id
          AND d.day BETWEEN %(seen_from)s AND %(today)s) seen ON true
    WHERE a.id = ANY(%(subjects)b::bigint[]) AND a.is_identified
    ORDER BY a.id
    ON CONFLICT (product_id, score_set_id, account_id) DO UPDATE
    SET active_users = EXCLUDED.active_users, total_users = EXCLUDED.total_users, {_SET}
    WHERE (e.active_users, e.total_users, {_OLD}) IS DISTINCT FROM
          (EXCLUDED.active_users, EXCLUDED.total_users, {_NEW})
"""
_SCORE_ACCOUNTS_OF_ALL: LiteralString = _SCORE_ACCOUNTS.format(counted=KNOWN)
_SCORE_ACCOUNTS_OF_AUDIENCE: LiteralString = _SCORE_ACCOUNTS.format(counted=IN_AUDIENCE)


def score_users(score_set: ScoreSet, user_ids: Collection[int], today: date) -> set[int]:
    """Compute these users' numbers; those who entered or left the set's audience by it.

    Users whom nobody has identified are passed over. The accounts of whoever entered or left must
    be scored after this.
    """
    if not user_ids:
        return set()
    if not score_set.audience:
        _score(_SCORE_USERS, score_set, user_ids, today)
        return set()
    members, turned = audiences.let_in(score_set, user_ids, today)
    _score(_SCORE_USERS, score_set, members, today)
    return turned


def score_accounts(score_set: ScoreSet, account_ids: Collection[int], today: date) -> None:
    """Compute these accounts' numbers, from the events of their users in the audience."""
    statement = _SCORE_ACCOUNTS_OF_AUDIENCE if score_set.audience else _SCORE_ACCOUNTS_OF_ALL
    _score(statement, score_set, account_ids, today)


def parameters(score_set: ScoreSet, today: date) -> dict[str, Any]:
    """What statements over the daily counts need to know of the definition and the days."""
    first_day, _ = window(score_set.lookback_days, today)
    return {
        "product": score_set.product_id,
        "score_set": score_set.pk,
        "default_weight": score_set.default_weight,
        "today": today,
        "first_day": first_day,
        "yesterday_from": first_day - timedelta(days=1),
        "last_period_from": first_day - timedelta(days=score_set.lookback_days),
        "seen_from": today - timedelta(days=USERS_SEEN_WITHIN - 1),
    }


def _score(
    statement: LiteralString, score_set: ScoreSet, subject_ids: Collection[int], today: date
) -> None:
    if not subject_ids:
        return
    subjects = {"subjects": sorted(subject_ids)}
    if sql.execute(statement, parameters(score_set, today) | subjects):
        ScoreSet.objects.filter(pk=score_set.pk, benchmarks_stale=False).update(
            benchmarks_stale=True
        )
