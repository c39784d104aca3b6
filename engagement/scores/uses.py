"""What accounts used, and who of their users did it, over half a year: from the daily counts of
events that are scored."""

from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import accumulate
from typing import Any, LiteralString

from core.database import sql
from engagement.models import ScoreSet
from engagement.scopes import ACCOUNTS
from engagement.scores.raw import join_counted_users

# Six blocks of 28 days.
DAYS = 168
# Accounts are read in parts of that many, or fewer with more users than this together.
ACCOUNTS_PER_PART, USERS_PER_PART = 2_000, 10_000

_NEXT_ACCOUNTS: LiteralString = """
    SELECT account_id, total_users FROM engagement_accountengagement
    WHERE product_id = %(product)s AND score_set_id = %(score_set)s AND account_id > %(after)s
      AND last_active_at >= %(since)s
    ORDER BY account_id LIMIT %(limit)s
"""


def next_accounts(score_set: ScoreSet, day: date, after: int) -> list[int]:
    """The ids of the next part of the accounts that were active in the time until the day."""
    since = datetime.combine(day - timedelta(days=DAYS), time(tzinfo=UTC))
    parameters = {"after": after, "since": since, "limit": ACCOUNTS_PER_PART}
    rows = sql.fetch(_NEXT_ACCOUNTS, _parameters(score_set, day) | parameters)
    totals = accumulate(users for _, users in rows)
    fit = sum(total <= USERS_PER_PART for total in totals)
    return [account for account, _ in rows[: max(fit, 1)]]


def _by_block(expression: LiteralString) -> LiteralString:
    return ", ".join(expression.replace("#", block) for block in "012345")


_BITS = _by_block("bit_or(bits_#)")
_USER_DAYS = _by_block(
    "CASE GROUPING(d.user_id) WHEN 0 THEN bit_count(bit_or(bits_#)::bit(28)) "
    "ELSE sum(bit_count(bits_#::bit(28))) END::bigint"
)
_BITS_OF_A_USER = _by_block(
    "COALESCE(bit_or(1 << (%(day)s::date - c.day) %% 28) "
    "FILTER (WHERE (%(day)s::date - c.day) / 28 = #), 0) AS bits_#"
)
_USES: LiteralString = f"""
    SELECT
        d.account_id, COALESCE(d.user_id, 0), COALESCE(d.event_name_id, 0),
        {_BITS}, {_USER_DAYS}
    FROM (
        -- One row per user and event name first, as in score_accounts.sql.
        SELECT c.product_id, c.account_id, c.user_id, c.event_name_id, {_BITS_OF_A_USER}
        FROM engagement_dailycount c
        WHERE c.product_id = %(product)s
          AND c.account_id = ANY(%(accounts)b::bigint[])
          AND c.day BETWEEN %(day)s::date - {DAYS - 1} AND %(day)s::date
        GROUP BY c.product_id, c.account_id, c.user_id, c.event_name_id
    ) d
    {{join_users}}
    LEFT JOIN engagement_scoredevent w
        ON w.score_set_id = %(score_set)s AND w.event_name_id = d.event_name_id
    WHERE COALESCE(w.weight, %(default_weight)s) > 0
    GROUP BY GROUPING SETS ((d.account_id, d.user_id), (d.account_id, d.event_name_id))
"""


def count_uses(score_set: ScoreSet, day: date, accounts: Collection[int]) -> Iterator[sql.Row]:
    """A row for each user and for each event name of the accounts, inside a transaction.

    The id of the account, of the user or 0, and of the event name or 0. Then, for each block of 28
    days until the day, the last one first: its days with an event, as bits, the last day the
    lowest. Then its user-days, for each block again. A user's events of one day are one user-day.
    """
    statement = _USES.format(join_users=join_counted_users(score_set, ACCOUNTS))
    return sql.stream(statement, _parameters(score_set, day) | {"accounts": list(accounts)})


_RECENT: LiteralString = """
    SELECT d.account_id, COALESCE(d.user_id, 0), COALESCE(d.event_name_id, 0), count(*)
    FROM engagement_dailycount d
    {join_users}
    WHERE d.product_id = %(product)s
      AND d.account_id = ANY(%(accounts)b::bigint[])
      AND d.day > %(day)s::date - %(days)s::integer AND d.day <= %(day)s
    GROUP BY GROUPING SETS ((d.account_id, d.user_id), (d.account_id, d.event_name_id))
"""


def recent_uses(
    score_set: ScoreSet, day: date, days: int, accounts: Collection[int]
) -> tuple[dict[tuple[int, int], int], set[tuple[int, int]]]:
    """Of the last days: the user-days by account and event name, and the accounts and users with
    one."""
    statement = _RECENT.format(join_users=join_counted_users(score_set, ACCOUNTS))
    parameters = _parameters(score_set, day) | {"accounts": sorted(accounts), "days": days}
    names, users = dict[tuple[int, int], int](), set[tuple[int, int]]()
    for account, user, name, count in sql.fetch(statement, parameters):
        if user:
            users.add((account, user))
        else:
            names[account, name] = count
    return names, users


def _parameters(score_set: ScoreSet, day: date) -> dict[str, Any]:
    return {
        "product": score_set.product_id,
        "score_set": score_set.pk,
        "default_weight": score_set.default_weight,
        "day": day,
    }
