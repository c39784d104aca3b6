"""Keeps up to date which events each account used, from when until when (``AccountUse``).

A night adds each day that ended. Scoring notes the accounts for which something changed on a day
that is over (``note_late``), and the next night counts these again. Nobody holds a lock for it: a
daily count is committed together with its rescore request, so its note is committed after it, and
the night that takes the note reads it.
"""

from collections.abc import Collection, Mapping
from datetime import date
from typing import LiteralString

from core.database import sql
from engagement.models import AccountUse, LateUse, UsageState
from engagement.models.activity import NO_ACCOUNT

_NOTE: LiteralString = """
    INSERT INTO engagement_lateuse AS l (product_id, account_id, day)
    SELECT %(product)s, account_id, day
    FROM unnest(%(accounts)b::bigint[], %(days)b::date[]) AS k(account_id, day)
    ON CONFLICT (product_id, account_id) DO UPDATE SET day = EXCLUDED.day
    WHERE EXCLUDED.day < l.day
"""


def note_late(
    product_id: int, first_days: Mapping[int, date], first_day: date, today: date
) -> None:
    """Have the uses of these accounts counted again if their first changed day is over, and the
    product's figures from the *first_day* of all changes on."""
    late = {account: day for account, day in first_days.items() if day < today}
    late[NO_ACCOUNT] = first_day
    # The first night counts everything.
    if UsageState.objects.filter(pk=product_id).exists():
        rows = sql.arrays(sorted(late.items()), "accounts", "days")
        sql.execute(_NOTE, {"product": product_id, **rows})


_TAKE: LiteralString = """
    DELETE FROM engagement_lateuse
    WHERE product_id = %(product)s AND account_id IN (
        SELECT account_id FROM engagement_lateuse WHERE product_id = %(product)s
        ORDER BY account_id LIMIT %(limit)s)
    RETURNING account_id, day
"""


def take_late(product_id: int, limit: int) -> dict[int, date]:
    """Some of the late accounts, ``NO_ACCOUNT`` for the product, each with its first day."""
    return dict(sql.fetch(_TAKE, {"product": product_id, "limit": limit}))


# Daily counts "d" that count for accounts.
COUNTED: LiteralString = """
    engagement_dailycount d
    JOIN engagement_user u
        ON u.product_id = %(product)s AND u.id = d.user_id AND u.is_identified
    JOIN engagement_account a
        ON a.product_id = %(product)s AND a.id = d.account_id AND a.is_identified
"""
_ADD_DAY: LiteralString = f"""
    INSERT INTO engagement_accountuse AS s
        (product_id, account_id, event_name_id, first_day, last_day)
    SELECT %(product)s::bigint, d.account_id, d.event_name_id, %(day)s::date, %(day)s::date
    FROM {COUNTED}
    WHERE d.product_id = %(product)s AND d.day = %(day)s
    GROUP BY d.account_id, d.event_name_id
    ON CONFLICT (product_id, account_id, event_name_id) DO UPDATE
    SET first_day = LEAST(s.first_day, EXCLUDED.first_day),
        last_day = GREATEST(s.last_day, EXCLUDED.last_day)
"""
_ADD_ACCOUNTS: LiteralString = f"""
    INSERT INTO engagement_accountuse (product_id, account_id, event_name_id, first_day, last_day)
    SELECT %(product)s::bigint, d.account_id, d.event_name_id, min(d.day), max(d.day)
    FROM {COUNTED}
    WHERE d.product_id = %(product)s AND d.account_id = ANY(%(accounts)b::bigint[])
      AND d.day < %(until)s
    GROUP BY d.account_id, d.event_name_id
"""


def add_day(product_id: int, day: date) -> None:
    """Add a complete day to the uses of all accounts."""
    sql.execute(_ADD_DAY, {"product": product_id, "day": day})


def count_accounts(product_id: int, account_ids: Collection[int], until: date) -> None:
    """Count the uses of these accounts on all days before *until*."""
    AccountUse.objects.filter(product=product_id, account__in=account_ids).delete()
    parameters = {"product": product_id, "accounts": sorted(account_ids), "until": until}
    sql.execute(_ADD_ACCOUNTS, parameters)


_SETTLED: LiteralString = """
    SELECT DISTINCT s.account_id FROM engagement_accountuse s
    JOIN engagement_eventname n
        ON n.product_id = %(product)s AND n.id = s.event_name_id AND n.feature_id IS NOT NULL
    WHERE s.product_id = %(product)s AND s.last_day = %(day)s
"""


def last_used_on(product_id: int, day: date) -> list[int]:
    """The accounts that did an event of a feature on that day for the last time."""
    return [id for (id,) in sql.fetch(_SETTLED, {"product": product_id, "day": day})]


def forget_account(product_id: int, account_id: int) -> None:
    """Delete the uses of an account that is being forgotten. A night that counts at the moment may
    still write some, which the next one deletes."""
    AccountUse.objects.filter(product=product_id, account=account_id).delete()
    LateUse.objects.bulk_create(
        [LateUse(product_id=product_id, account_id=account_id, day=date.max)],
        ignore_conflicts=True,
    )
