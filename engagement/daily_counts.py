"""Adding to the daily counts, and taking from them what moves to another account."""

from collections.abc import Collection, Mapping
from datetime import date, datetime
from typing import Any, LiteralString, TypeAlias

from engagement import sql

# Product, user, day as an ordinal (a date is slow to hash), event name, account.
CountKey: TypeAlias = tuple[int, int, int, int, int]
# How many events, and when the last of them happened.
Counts: TypeAlias = Mapping[CountKey, tuple[int, datetime]]
# After every day.
_NO_DAY = date.max.toordinal() + 1

_GIVEN: LiteralString = """
    unnest(
        %(products)b::bigint[], %(users)b::bigint[], %(days)b::date[], %(names)b::bigint[],
        %(accounts)b::bigint[], %(counts)b::integer[], %(last)b::timestamptz[])
"""
_ADD: LiteralString = f"""
    INSERT INTO engagement_dailycount AS d
        (product_id, user_id, day, event_name_id, account_id, count, last_at)
    SELECT * FROM {_GIVEN}
    ON CONFLICT (product_id, user_id, day, event_name_id, account_id) DO UPDATE
    SET count = d.count + EXCLUDED.count, last_at = GREATEST(d.last_at, EXCLUDED.last_at)
"""


def add(counts: Counts) -> None:
    """Add the counts to the stored ones."""
    if counts:
        sql.execute(_ADD, _arrays(counts))


_OF_KEY: LiteralString = """
    d.product_id = k.product_id AND d.user_id = k.user_id AND d.day = k.day
    AND d.event_name_id = k.event_name_id AND d.account_id = k.account_id
"""
_TAKE: LiteralString = f"""
    WITH k AS MATERIALIZED (
        SELECT * FROM {_GIVEN}
            AS k(product_id, user_id, day, event_name_id, account_id, count, last_at)),
    emptied AS (
        DELETE FROM engagement_dailycount d USING k WHERE {_OF_KEY} AND d.count <= k.count)
    UPDATE engagement_dailycount d SET count = d.count - k.count
    FROM k WHERE {_OF_KEY} AND d.count > k.count
    RETURNING d.product_id, d.user_id, d.day, d.event_name_id, d.account_id,
              d.last_at <= k.last_at
"""
# All wanted days are read once each, however many of their counts are asked for.
_FIND_LAST: LiteralString = """
    WITH wanted AS MATERIALIZED (
        SELECT * FROM unnest(
            %(products)b::bigint[], %(users)b::bigint[], %(days)b::date[], %(names)b::bigint[],
            %(accounts)b::bigint[])
            AS k(product_id, user_id, day, event_name_id, account_id)),
    found AS MATERIALIZED (
        SELECT w.product_id, w.user_id, w.day, e.event_name_id, e.account_id,
               max(e.occurred_at) AS last_at
        FROM (SELECT DISTINCT product_id, user_id, day FROM wanted) w
        CROSS JOIN LATERAL (
            SELECT event_name_id, COALESCE(account_id, 0) AS account_id, occurred_at
            FROM engagement_event e
            WHERE e.product_id = w.product_id AND e.user_id = w.user_id
              AND e.occurred_at >= w.day::timestamp AT TIME ZONE 'UTC'
              AND e.occurred_at < (w.day + 1)::timestamp AT TIME ZONE 'UTC'
            OFFSET 0) e
        GROUP BY 1, 2, 3, 4, 5)
    UPDATE engagement_dailycount d SET last_at = k.last_at
    FROM wanted JOIN found k USING (product_id, user_id, day, event_name_id, account_id)
    WHERE d.product_id = k.product_id AND d.user_id = k.user_id AND d.day = k.day
      AND d.event_name_id = k.event_name_id AND d.account_id = k.account_id
"""


def take(counts: Counts) -> None:
    """Take the counts of events that moved away from the stored ones; the events have moved
    already. What was counted without events stays."""
    if not counts:
        return
    rows = sql.fetch(_TAKE, _arrays(counts))
    # Only who lost the last event of a day needs a look at what is left of it.
    if unsure := [row[:5] for row in rows if row[5]]:
        products, users, days, names, accounts = (
            list(column) for column in zip(*unsure, strict=True)
        )
        sql.execute(
            _FIND_LAST,
            {
                "products": products,
                "users": users,
                "days": days,
                "names": names,
                "accounts": accounts,
            },
        )


def earliest_days(counts: Counts) -> dict[int, int]:
    """Each product's earliest day among the counts, as an ordinal."""
    days: dict[int, int] = {}
    for product_id, _, day, _, _ in counts:
        if day < days.get(product_id, _NO_DAY):
            days[product_id] = day
    return days


def _arrays(counts: Counts) -> dict[str, Collection[Any]]:
    # Sorted by the key, so that two workers that count the same users cannot deadlock.
    rows = sorted(counts.items())
    return {
        "products": [key[0] for key, _ in rows],
        "users": [key[1] for key, _ in rows],
        "days": [date.fromordinal(key[2]) for key, _ in rows],
        "names": [key[3] for key, _ in rows],
        "accounts": [key[4] for key, _ in rows],
        "counts": [count for _, (count, _) in rows],
        "last": [last for _, (_, last) in rows],
    }
