"""Computes subjects' numbers in a set of scores from the daily counts, in set-based SQL."""

from collections.abc import Collection
from datetime import date, timedelta
from typing import Any, LiteralString

from engagement.database import sql
from engagement.models import ScoreSet
from engagement.scores import audiences
from engagement.scores.formula import window_bounds

# An account's users are those who are in it now, and those with an event in it in so many days.
USERS_SEEN_WITHIN_DAYS = 90

_WEIGHED: LiteralString = """
    LEFT JOIN engagement_scoredevent w
        ON w.score_set_id = %(score_set)s AND w.event_name_id = d.event_name_id
"""
_WEIGHT: LiteralString = "COALESCE(w.weight, %(default_weight)s)"
WHERE_SCORED: LiteralString = f"""
    {_WEIGHED} WHERE d.product_id = {sql.PRODUCT} AND {_WEIGHT} > 0
"""
# What is dated a few minutes ahead lies behind today at midnight; it counts as the last event only.
# A subject's counts by event name (and user, {by}): a few sums, so that what follows (weights, who
# is known) is looked up once for each and not for every count. Days of a window are bits, because
# counting distinct ones would sort every subject's counts.
_BY_NAME: LiteralString = """
    SELECT d.product_id, {by} d.event_name_id,
           sum(d.count) FILTER (WHERE d.day BETWEEN %(first_day)s AND %(today)s) AS recent,
           sum(d.count) FILTER (WHERE d.day >= %(yesterday_from)s AND d.day < %(today)s)
               AS yesterday,
           sum(d.count) FILTER (WHERE d.day >= %(last_period_from)s AND d.day < %(first_day)s)
               AS last_period,
           bit_or(1 << (%(today)s::date - d.day))
               FILTER (WHERE d.day BETWEEN %(first_day)s AND %(today)s) AS days,
           max(d.last_at) AS last_at
    FROM engagement_dailycount d
    WHERE d.product_id = {product} AND d.{subject} AND d.day >= {since}
    GROUP BY d.product_id, {by} d.event_name_id
"""
_NUMBERS: LiteralString = f"""
    sum(d.recent * {_WEIGHT}) AS raw,
    sum(d.yesterday * {_WEIGHT}) AS raw_yesterday,
    sum(d.last_period * {_WEIGHT}) AS raw_last_period,
    sum(d.recent) FILTER (WHERE {_WEIGHT} > 0) AS event_count,
    bit_count(bit_or(d.days) FILTER (WHERE {_WEIGHT} > 0)::bit(32)) AS active_days,
    count(DISTINCT d.event_name_id) FILTER (WHERE d.recent > 0 AND {_WEIGHT} > 0) AS name_count,
    max(d.last_at) FILTER (WHERE {_WEIGHT} > 0) AS last_at
"""
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
# The windows of now and of a lookback ago follow each other; an account's users take longer.
_TWO_WINDOWS: LiteralString = "%(last_period_from)s"
_SEEN: LiteralString = "%(seen_from)s"
_OF_USER = _BY_NAME.format(by="", product=sql.PRODUCT, subject="user_id = u.id", since=_TWO_WINDOWS)
_OF_ACCOUNT = _BY_NAME.format(
    by="d.user_id,", product=sql.PRODUCT, subject="account_id = a.id", since=_SEEN
)
# The last scored event of a subject that has none in the days that were summed up.
_EARLIER: LiteralString = """
    AND n.last_at IS NULL AND d.day < {since} ORDER BY d.day DESC, d.last_at DESC LIMIT 1
"""

# Subjects are found by id alone: a condition on their product as well would tempt the planner, as
# long as a young table has no statistics, to walk all of the product's subjects instead.
_SCORE_USERS: LiteralString = f"""
    INSERT INTO engagement_userengagement AS e (product_id, score_set_id, user_id, {_COLUMNS})
    SELECT u.product_id, %(score_set)s, u.id, {_VALUES}
    FROM engagement_user u
    LEFT JOIN LATERAL (
        SELECT {_NUMBERS} FROM ({_OF_USER}) d {WHERE_SCORED}) n ON true
    LEFT JOIN LATERAL (
        SELECT d.last_at FROM engagement_dailycount d
        {WHERE_SCORED} AND d.user_id = u.id {_EARLIER.format(since=_TWO_WINDOWS)}) earlier ON true
    WHERE u.id = ANY(%(subjects)b::bigint[]) AND u.is_identified
    ORDER BY u.id
    ON CONFLICT (product_id, score_set_id, user_id) DO UPDATE SET {_SET}
    WHERE ({_OLD}) IS DISTINCT FROM ({_NEW})
"""
# An account's numbers count the users that are known, and of these the ones in the audience.
JOIN_IDENTIFIED_USERS: LiteralString = (
    "JOIN engagement_user u ON u.id = d.user_id AND u.is_identified"
)
JOIN_AUDIENCE_USERS: LiteralString = f"""
    JOIN engagement_userengagement u ON u.product_id = d.product_id
        AND u.score_set_id = {sql.SCORE_SET} AND u.user_id = d.user_id
"""
# Whose current account it is, with or without an event; who is in another one now is counted apart.
_MEMBERS: LiteralString = """
    SELECT count(*) AS count FROM engagement_user m {in_audience}
    WHERE m.account_id = a.id AND m.is_identified
"""
_MEMBERS_IN_AUDIENCE: LiteralString = f"""
    JOIN engagement_userengagement e ON e.product_id = m.product_id
        AND e.score_set_id = {sql.SCORE_SET} AND e.user_id = m.id
"""
_SCORE_ACCOUNTS: LiteralString = f"""
    INSERT INTO engagement_accountengagement AS e
        (product_id, score_set_id, account_id, active_users, total_users, {_COLUMNS})
    SELECT a.product_id, %(score_set)s, a.id, n.active_users, members.count + n.gone_users,
           {_VALUES}
    FROM engagement_account a
    LEFT JOIN LATERAL (
        SELECT count(DISTINCT d.user_id) FILTER (WHERE d.recent > 0 AND {_WEIGHT} > 0)
                   AS active_users,
               count(DISTINCT d.user_id) FILTER (WHERE {{now_in}} IS DISTINCT FROM a.id)
                   AS gone_users,
               {_NUMBERS}
        FROM ({_OF_ACCOUNT}) d {{counted}} {_WEIGHED}) n ON true
    CROSS JOIN LATERAL ({{members}}) members
    LEFT JOIN LATERAL (
        SELECT d.last_at FROM engagement_dailycount d {{counted}}
        {WHERE_SCORED} AND d.account_id = a.id {_EARLIER.format(since=_SEEN)}) earlier ON true
    WHERE a.id = ANY(%(subjects)b::bigint[]) AND a.is_identified
    ORDER BY a.id
    ON CONFLICT (product_id, score_set_id, account_id) DO UPDATE
    SET active_users = EXCLUDED.active_users, total_users = EXCLUDED.total_users, {_SET}
    WHERE (e.active_users, e.total_users, {_OLD}) IS DISTINCT FROM
          (EXCLUDED.active_users, EXCLUDED.total_users, {_NEW})
"""
_SCORE_ACCOUNTS_OF_ALL: LiteralString = _SCORE_ACCOUNTS.format(
    counted=JOIN_IDENTIFIED_USERS, now_in="u.account_id", members=_MEMBERS.format(in_audience="")
)
_SCORE_ACCOUNTS_OF_AUDIENCE: LiteralString = _SCORE_ACCOUNTS.format(
    counted=JOIN_AUDIENCE_USERS + "JOIN engagement_user known ON known.id = d.user_id",
    now_in="known.account_id",
    members=_MEMBERS.format(in_audience=_MEMBERS_IN_AUDIENCE),
)


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
    members, turned = audiences.refresh_members(score_set, user_ids, today)
    _score(_SCORE_USERS, score_set, members, today)
    return turned


def score_accounts(score_set: ScoreSet, account_ids: Collection[int], today: date) -> None:
    """Compute these accounts' numbers, from the events of their users in the audience."""
    statement = _SCORE_ACCOUNTS_OF_AUDIENCE if score_set.audience else _SCORE_ACCOUNTS_OF_ALL
    _score(statement, score_set, account_ids, today)


def query_parameters(score_set: ScoreSet, today: date) -> dict[str, Any]:
    """What statements over the daily counts need to know of the definition and the days."""
    first_day, _ = window_bounds(score_set.lookback_days, today)
    return {
        "product": score_set.product_id,
        "score_set": score_set.pk,
        "default_weight": score_set.default_weight,
        "today": today,
        "first_day": first_day,
        "yesterday_from": first_day - timedelta(days=1),
        "last_period_from": first_day - timedelta(days=score_set.lookback_days),
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
