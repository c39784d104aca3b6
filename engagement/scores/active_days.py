"""Keeps the active days of accounts up to date: how many users of each account did something that
counts, on each complete day, by the definition of a score set.

Days that ended are counted from the daily counts, for all accounts at once. Scoring notes the
accounts for which something changed on a day that is counted already (``note_late``), and the next
night counts these again.

Counting and noting hold the product's scoring lock. A daily count is committed together with
its rescore request. So either counting sees it, or scoring meets the request later and notes it.
"""

import time
from collections.abc import Collection, Mapping
from datetime import date, timedelta
from typing import Any, LiteralString

from core.database import sql
from engagement.models import AlarmNight, ScoreSet
from engagement.scopes import ACCOUNTS
from engagement.scores.raw import join_counted_users

DAY = timedelta(days=1)
# A replay of 26 weeks needs 24 weeks before its first day.
KEPT = 53 * 7 * DAY
# Of the whole product, user-days are compared with those of a year before, for half a year.
TOTALS_KEPT = 76 * 7 * DAY
# Scoring of the product waits for a step, which begins no further statement after this time.
STEP_SECONDS, STATEMENT_TIMEOUT_SECONDS = 1.0, 60.0
# The most accounts whose day one statement counts.
ACCOUNTS_PER_COUNT = 20_000
# What is counted again later than that is no delay: an import, an identification, an audience.
GREATEST_DELAY = 7
ACCOUNTS_PER_STEP = 2_000

# --- Late accounts --------------------------------------------------------------------------

_NOTE: LiteralString = """
    INSERT INTO engagement_lateday AS l (product_id, score_set_id, account_id, day, is_counted)
    SELECT %(product)s, %(score_set)s, account_id, day, %(is_counted)s
    FROM unnest(%(accounts)b::bigint[], %(days)b::date[]) AS k(account_id, day)
    ON CONFLICT (product_id, score_set_id, account_id) DO UPDATE
    SET day = LEAST(l.day, EXCLUDED.day), is_counted = l.is_counted OR EXCLUDED.is_counted
    WHERE EXCLUDED.day < l.day OR EXCLUDED.is_counted > l.is_counted
"""


def note_late(
    score_sets: Collection[ScoreSet], first_days: Mapping[int, date], *, is_counted: bool = True
) -> None:
    """Have the accounts' active days counted again, each from its first changed day on.

    *is_counted* says that counts changed, and not only who belongs to the audience. Does nothing
    about days that are not counted yet. The first of these that is over may be counted in part.
    """
    for score_set in score_sets:
        until = score_set.active_days_until
        counted = until and (until if until == score_set.scored_day else until + DAY)
        rows = [row for row in sorted(first_days.items()) if counted and row[1] < counted]
        if rows:
            parameters = {**_own(score_set), "is_counted": is_counted}
            sql.execute(_NOTE, {**parameters, **sql.arrays(rows, "accounts", "days")})


_COUNT_LATE: LiteralString = """
    SELECT count(*), min(day) FROM engagement_lateday
    WHERE product_id = %(product)s AND score_set_id = %(score_set)s
      AND is_counted AND day < %(before)s
"""
_DELETE_LATE: LiteralString = """
    DELETE FROM engagement_lateday
    WHERE product_id = %(product)s AND score_set_id = %(score_set)s
"""


def late_accounts(score_set: ScoreSet, before: date) -> tuple[int, date | None]:
    """The number of accounts whose counts changed before that day, and the first such day."""
    ((number, day),) = sql.fetch(_COUNT_LATE, {**_own(score_set), "before": before})
    return number, day


def count_again_from(score_set: ScoreSet, day: date | None) -> None:
    """Have all days from *day* on counted again, or all days at all."""
    sql.execute(_DELETE_LATE, _own(score_set))
    _set_until(score_set, day)


_TAKE_LATE: LiteralString = """
    WITH taken AS (
        DELETE FROM engagement_lateday
        WHERE product_id = %(product)s AND score_set_id = %(score_set)s
          AND account_id IN (
            SELECT account_id FROM engagement_lateday
            WHERE product_id = %(product)s AND score_set_id = %(score_set)s
              AND account_id > %(after)s
            ORDER BY account_id LIMIT %(limit)s)
        RETURNING account_id, day)
    SELECT account_id, day FROM taken ORDER BY account_id
"""
# Numbers below zero are those of before. What is still below it afterwards is no active day.
_LATE_ROWS: LiteralString = """
    unnest(%(accounts)b::bigint[], %(days)b::date[]) AS k(account_id, day)
    WHERE s.product_id = %(product)s AND s.score_set_id = %(score_set)s
      AND s.account_id = k.account_id AND s.day >= k.day
"""
_MARK: LiteralString = f"UPDATE engagement_activeday s SET users = -users FROM {_LATE_ROWS}"
_COUNT_AGAIN: LiteralString = """
    INSERT INTO engagement_activeday AS s
        (product_id, score_set_id, account_id, day, users, hour, late)
    SELECT product_id, score_set_id, account_id, day, users, hour,
           CASE WHEN day >= %(yesterday)s::date - %(greatest_delay)s
                THEN %(yesterday)s::date - day ELSE 0 END
    FROM ({counted}) AS counted
    ON CONFLICT (product_id, score_set_id, account_id, day) DO UPDATE
    SET users = EXCLUDED.users, hour = EXCLUDED.hour,
        late = CASE WHEN -2 * s.users >= EXCLUDED.users THEN s.late ELSE EXCLUDED.late END
"""
_DELETE_MARKED: LiteralString = (
    f"DELETE FROM engagement_activeday s USING {_LATE_ROWS} AND s.users < 0"
)


def count_late(score_set: ScoreSet, after: int, today: date) -> int | None:
    """Count the days of the next late accounts again, in the order of their ids from *after* on.
    Returns the last one; None if no more follow."""
    limits = {"after": after, "limit": ACCOUNTS_PER_STEP}
    rows = sql.fetch(_TAKE_LATE, {**_own(score_set), **limits})
    if not rows:
        return None
    last: int = rows[-1][0]
    with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
        own = {**_own(score_set), **sql.arrays(rows, "accounts", "days")}
        late = {**own, "default_weight": score_set.default_weight, "from": rows[0][0], "to": last}
        late |= {"yesterday": today - DAY, "greatest_delay": GREATEST_DELAY}
        span = {"first": today - KEPT, "until": score_set.active_days_until}
        counted = _COUNTED.format(active=_active(score_set, _OF_LATE))
        sql.execute(_MARK, own)
        sql.execute(_COUNT_AGAIN.format(counted=counted), {**late, **span})
        sql.execute(_DELETE_MARKED, own)
    return last if len(rows) == ACCOUNTS_PER_STEP else None


# --- Days that ended ------------------------------------------------------------------------

# A row for each user who was active in an account on a day.
_ACTIVE: LiteralString = """
    SELECT d.account_id, d.day, d.user_id,
           EXTRACT(hour FROM max(d.last_at) AT TIME ZONE 'UTC')::smallint AS hour
    FROM {counts}
    JOIN engagement_account a
        ON a.product_id = %(product)s AND a.id = d.account_id AND a.is_identified
    {join_users}
    LEFT JOIN engagement_scoredevent w
        ON w.score_set_id = %(score_set)s AND w.event_name_id = d.event_name_id
    WHERE d.product_id = %(product)s AND d.day >= %(first)s AND d.day < %(until)s
      AND d.account_id BETWEEN %(from)s AND %(to)s AND COALESCE(w.weight, %(default_weight)s) > 0
    GROUP BY d.account_id, d.day, d.user_id
"""
_OF_ALL: LiteralString = "engagement_dailycount d"
_OF_LATE: LiteralString = """
    unnest(%(accounts)b::bigint[], %(days)b::date[]) AS k(account_id, first_day)
    JOIN engagement_dailycount d ON d.account_id = k.account_id AND d.day >= k.first_day
"""
_COUNTED: LiteralString = """
    SELECT %(product)s::bigint AS product_id, %(score_set)s::bigint AS score_set_id, account_id,
           day, count(*) AS users, percentile_disc(0.5) WITHIN GROUP (ORDER BY hour) AS hour
    FROM ({active}) AS active
    GROUP BY account_id, day
"""
_INSERT: LiteralString = """
    INSERT INTO engagement_activeday (product_id, score_set_id, account_id, day, users, hour)
    {counted}
"""
_PART: LiteralString = """
    product_id = %(product)s AND score_set_id = %(score_set)s
    AND day >= %(first)s AND day < %(until)s AND account_id BETWEEN %(from)s AND %(to)s
"""
_DELETE_DAYS: LiteralString = f"DELETE FROM engagement_activeday WHERE {_PART}"
_TOTALS: LiteralString = f"""
    SELECT day, sum(users)::bigint FROM engagement_activeday WHERE {_PART} GROUP BY day
"""
_COUNT_TOTALS: LiteralString = "SELECT day, count(*) FROM ({active}) AS active GROUP BY day"
_FIRST_DAY: LiteralString = """
    SELECT (min(first_seen_at) AT TIME ZONE 'UTC')::date FROM engagement_user
    WHERE product_id = %(product)s
"""


_LAST_OF_PART: LiteralString = """
    SELECT account_id FROM engagement_accountengagement
    WHERE product_id = %(product)s AND score_set_id = %(score_set)s AND account_id > %(after)s
    ORDER BY account_id OFFSET %(accounts)s - 1 LIMIT 1
"""
_LAST_ID = 2**63 - 1


def count_days(
    score_set: ScoreSet, today: date, counted: tuple[int, int] = (0, 0)
) -> tuple[int, int]:
    """Count the next of the days before *today*, for about ``STEP_SECONDS``.

    Of the first of these, *counted* is the last account that is counted already, 0 for none, and
    the user-days of all until that one. Returns the same of the day to go on with. Days before
    those that are kept are only counted together, for the user-days of all accounts.
    """
    first = max(score_set.active_days_until or _first_day(score_set, today), today - TOTALS_KEPT)
    days, started = 1, time.monotonic()
    with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
        while first < today:
            after, user_days = counted
            last = _last_of_part(score_set, after)
            is_whole = after == 0 and last == _LAST_ID
            until = min(first + (days if is_whole else 1) * DAY, today)
            if first < today - KEPT:
                until = min(until, today - KEPT)
            totals = _count_part(score_set, (first, until), (after + 1, last), today - KEPT)
            totals[first] += user_days
            counted = last, totals[first]
            if last == _LAST_ID:
                # Those of a part would look like a sender that is silent.
                store_totals(score_set, totals)
                first, days, counted = until, 2 * days, (0, 0)
            if time.monotonic() > started + STEP_SECONDS:
                break
    _set_until(score_set, min(first, today))
    return counted


def _first_day(score_set: ScoreSet, today: date) -> date:
    ((day,),) = sql.fetch(_FIRST_DAY, _own(score_set))
    return min(day or today, today)


def _last_of_part(score_set: ScoreSet, after: int) -> int:
    """Of the accounts with ids above *after*, the last one that is counted with the first."""
    part = {**_own(score_set), "after": after, "accounts": ACCOUNTS_PER_COUNT}
    rows = sql.fetch(_LAST_OF_PART, part)
    return rows[0][0] if rows else _LAST_ID


def _count_part(
    score_set: ScoreSet, span: tuple[date, date], accounts: tuple[int, int], kept_from: date
) -> dict[date, int]:
    """Count the days of the span, of the accounts with these ids; their user-days of each day."""
    first, until = span
    part = {**_counting(score_set), "from": accounts[0], "to": accounts[1]}
    sql.execute(_DELETE_DAYS, {**part, "first": date.min, "until": kept_from})
    part |= {"first": first, "until": until}
    active = _active(score_set, _OF_ALL)
    if first >= kept_from:
        sql.execute(_DELETE_DAYS, part)
        sql.execute(_INSERT.format(counted=_COUNTED.format(active=active)), part)
        rows = sql.fetch(_TOTALS, part)
    else:
        rows = sql.fetch(_COUNT_TOTALS.format(active=active), part)
    totals = dict.fromkeys((first + n * DAY for n in range((until - first).days)), 0)
    return totals | dict(rows)


def store_totals(score_set: ScoreSet, totals: Mapping[date, int]) -> None:
    """Store the user-days of all accounts together on these days."""
    AlarmNight.objects.bulk_create(
        (
            AlarmNight(workspace_id=score_set.workspace_id, day=day, user_days=number)
            for day, number in totals.items()
        ),
        update_conflicts=True,
        unique_fields=["workspace", "day"],
        update_fields=["user_days"],
    )


def _active(score_set: ScoreSet, counts: LiteralString) -> LiteralString:
    return _ACTIVE.format(counts=counts, join_users=join_counted_users(score_set, ACCOUNTS))


def _set_until(score_set: ScoreSet, day: date | None) -> None:
    score_set.active_days_until = day
    score_set.save(update_fields=["active_days_until"])


def _own(score_set: ScoreSet) -> dict[str, Any]:
    return {"product": score_set.product_id, "score_set": score_set.pk}


def _counting(score_set: ScoreSet) -> dict[str, Any]:
    return {**_own(score_set), "default_weight": score_set.default_weight}


# --- Forgetting -----------------------------------------------------------------------------

_DELETE_ACCOUNT: LiteralString = """
    DELETE FROM {table}
    WHERE product_id = %(product)s AND {owner} = ANY(%(owners)b::bigint[])
      AND account_id = %(account)s
"""


def forget_account(product_id: int, account_id: int, score_sets: Collection[ScoreSet]) -> None:
    """Delete the active days and the alarms of an account that is being forgotten."""
    sets = {score_set.pk for score_set in score_sets}
    workspaces = {score_set.workspace_id for score_set in score_sets}
    for table, owner, owners in (
        ("engagement_activeday", "score_set_id", sets),
        ("engagement_lateday", "score_set_id", sets),
        ("engagement_alarm", "workspace_id", workspaces),
    ):
        parameters = {"product": product_id, "account": account_id, "owners": sorted(owners)}
        sql.execute(_DELETE_ACCOUNT.format(table=table, owner=owner), parameters)
