"""Computes the engagement rows of a score set from the daily counts, in set-based SQL."""

from collections.abc import Collection
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any, LiteralString, TypeAlias

from core.database import sql
from engagement.models import ScoreSet
from engagement.scopes import ACCOUNTS, USERS, SubjectKind
from engagement.scores import audiences
from engagement.scores.formula import (
    MAX_HALF_LIVES,
    NEGLIGIBLE_HALF_LIVES,
    UNITS_PER_POINT,
    window_bounds,
)

# An account's users are its members, and the users with an event in it within this many days.
USERS_SEEN_WITHIN_DAYS = 90
# Counts of these days before today are not settled: windows of half-lives end on them.
RECENT = timedelta(days=30)

_JOIN_IDENTIFIED_USERS: LiteralString = """
    JOIN engagement_user u ON u.id = d.user_id AND u.is_identified AND u.product_id = %(product)s
"""
_JOIN_AUDIENCE: LiteralString = f"""
    JOIN engagement_userengagement u ON u.product_id = %(product)s
        AND u.score_set_id = {sql.SCORE_SET} AND u.user_id = d.user_id
"""


def join_counted_users(score_set: ScoreSet, kind: SubjectKind) -> LiteralString:
    """For statements with daily counts as "d": a join that keeps those of users that count.

    An account counts identified users, and with an audience only the users in it.
    """
    if kind is not ACCOUNTS:
        return ""
    return _JOIN_AUDIENCE if score_set.audience else _JOIN_IDENTIFIED_USERS


# --- How daily counts "d" add up ------------------------------------------------------------

_Parts: TypeAlias = dict[str, LiteralString]

# Points of a weight of one, and the first days of the four windows.
_BY_LOOKBACK: _Parts = {
    "points": "d.count",
    "now_from": "%(first_day)s",
    "yesterday_from": "%(yesterday_from)s",
    "last_period_from": "%(last_period_from)s",
    "before_from": "%(yesterday_last_period_from)s",
}
# Later days than those for which a set is meant count as its last one: better than an overflow
# while a new set is built, after months without a worker.
_FACTOR: LiteralString = """
    round(%(units)s::float8 * power(2::float8, GREATEST(-40, LEAST(%(half_lives)s::float8,
        (d.day - %(reference_day)s::date) / %(half_life_days)s::float8))))::bigint
"""
_BY_HALF_LIFE: _Parts = {
    "points": f"d.count * {_FACTOR}",
    **dict.fromkeys([*_BY_LOOKBACK][1:], "%(counted_from)s::date"),
}


def counting(score_set: ScoreSet) -> _Parts:
    """The parts of statements that sum daily counts "d" as the set counts."""
    return _BY_HALF_LIFE if score_set.half_life_days else _BY_LOOKBACK


# --- Scoring --------------------------------------------------------------------------------


def _scoring_parts(kind: SubjectKind, *, by_half_life: bool) -> _Parts:
    """The parts of the scoring statement of the kind."""
    if not by_half_life:
        return _BY_LOOKBACK | _SCORING_BY_LOOKBACK
    settled_before: LiteralString = "COALESCE(o.settled_before, %(counted_from)s::date)"
    subject: LiteralString = "u" if kind is USERS else "a"
    return {
        **_BY_HALF_LIFE,
        **_SCORING_BY_HALF_LIFE,
        "before_from": settled_before,
        "read_from": f"LEAST(%(seen_from)s::date, {settled_before})",
        "join_settled": f"""
            LEFT JOIN {kind.engagement_table} o
                ON o.product_id = %(product)s AND o.score_set_id = %(score_set)s
                AND o.{kind.id_column} = {subject}.id
                AND o.{kind.id_column} = ANY(%(settled)b::bigint[])
                AND o.settled_before <= %(yesterday_from)s
        """,
    }


_SETTLED: LiteralString = " + COALESCE(o.raw_yesterday_last_period, 0))"
_UNTIL_LAST_PERIOD: LiteralString = f" + COALESCE(n.raw_yesterday_last_period, 0){_SETTLED}"
_UNTIL_YESTERDAY: LiteralString = f" + COALESCE(n.raw_last_period, 0){_UNTIL_LAST_PERIOD}"
# The raw scores are sums of spans that follow each other, so the factor of each day is computed
# once. The points that users add to an account are those within the window, because sums of what is
# settled are the account's.
_SCORING_BY_HALF_LIFE: _Parts = {
    "now_from": "%(today)s",
    "yesterday_from": "%(first_day)s",
    "last_period_from": "%(yesterday_from)s",
    "least": f"LEAST({2**62}, ",
    "settled": _SETTLED,
    "until_last_period": _UNTIL_LAST_PERIOD,
    "until_yesterday": _UNTIL_YESTERDAY,
    "until_now": f" + COALESCE(n.raw_yesterday, 0){_UNTIL_YESTERDAY}",
    "settled_before": "%(yesterday_from)s",
    "own_points": "COALESCE(raw, 0) + COALESCE(raw_yesterday, 0)",
    "seen_of_user": "bool_or(is_seen) AS is_seen,",
    "seen_of_name": "max(d.day) >= %(seen_from)s AS is_seen,",
    "and_seen": " AND is_seen",
}
_SCORING_BY_LOOKBACK: _Parts = {
    **dict.fromkeys(_SCORING_BY_HALF_LIFE.keys() - _BY_LOOKBACK.keys(), ""),
    "join_settled": "",
    "settled_before": "NULL::date",
    "own_points": "raw",
    "read_from": "%(seen_from)s",
}
_IDENTIFIED_USERS: LiteralString = """
    SELECT u.id, u.account_id FROM engagement_user u
    WHERE u.is_identified AND u.product_id = %(product)s
"""
_USERS_IN_AUDIENCE: LiteralString = f"""
    SELECT u.id, u.account_id FROM engagement_user u
    JOIN engagement_userengagement e ON e.product_id = %(product)s
        AND e.score_set_id = {sql.SCORE_SET} AND e.user_id = u.id
    WHERE u.is_identified AND u.product_id = %(product)s
"""


def counted_users(score_set: ScoreSet) -> LiteralString:
    """A query for the users "u" that accounts count, with their current account. A further
    condition can follow it."""
    return _USERS_IN_AUDIENCE if score_set.audience else _IDENTIFIED_USERS


@cache
def _statement(kind: SubjectKind, *, by_half_life: bool, by_audience: bool) -> LiteralString:
    template: LiteralString = Path(__file__).with_name(f"score_{kind.plural}.sql").read_text()
    return template.format(
        counted_users=_USERS_IN_AUDIENCE if by_audience else _IDENTIFIED_USERS,
        **_scoring_parts(kind, by_half_life=by_half_life),
    )


def score_users(
    score_set: ScoreSet, user_ids: Collection[int], today: date, settled: Collection[int] = ()
) -> set[int]:
    """Compute the users' engagement rows; return the users who entered or left the audience.

    Skips users that nobody has identified, and deletes the rows of joined users. The caller must
    score the accounts of the returned users afterwards. *settled* are users whose counts of before
    yesterday's window did not change since their rows were written: with a half-life, these are not
    read again.
    """
    if not user_ids:
        return set()
    _delete_joined(score_set, user_ids)
    if not score_set.audience:
        _score(USERS, score_set, user_ids, today, settled)
        return set()
    members, changed = audiences.refresh_members(score_set, user_ids, today)
    _score(USERS, score_set, members, today, settled)
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


def score_accounts(
    score_set: ScoreSet, account_ids: Collection[int], today: date, settled: Collection[int] = ()
) -> None:
    """Compute the accounts' engagement rows from the events of the users that count.

    *settled* as in ``score_users``; neither did it change which users count.
    """
    _score(ACCOUNTS, score_set, account_ids, today, settled)


def query_parameters(score_set: ScoreSet, today: date) -> dict[str, Any]:
    """The parameters of statements over daily counts: the set's definition and its windows."""
    first_day, _ = window_bounds(score_set.lookback_days, today)
    half_life, reference_day = score_set.half_life_days or 0, score_set.reference_day or today
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
        "half_life_days": half_life,
        "reference_day": reference_day,
        "counted_from": reference_day - timedelta(days=NEGLIGIBLE_HALF_LIVES * half_life),
        "units": UNITS_PER_POINT,
        "half_lives": MAX_HALF_LIVES + 3,
    }


def _score(
    kind: SubjectKind,
    score_set: ScoreSet,
    subject_ids: Collection[int],
    today: date,
    settled: Collection[int],
) -> None:
    if not subject_ids:
        return
    subjects = {"subjects": sorted(subject_ids), "settled": sorted({*subject_ids} & {*settled})}
    statement = _statement(
        kind,
        by_half_life=score_set.half_life_days is not None,
        by_audience=bool(score_set.audience),
    )
    if sql.execute(statement, query_parameters(score_set, today) | subjects):
        ScoreSet.objects.filter(pk=score_set.pk, benchmarks_stale=False).update(
            benchmarks_stale=True
        )
