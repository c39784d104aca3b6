"""Adding to the daily counts, and taking from them what moves to another account."""

from collections.abc import Collection, Mapping
from datetime import date, datetime
from typing import Any, LiteralString, TypeAlias

from engagement.database import sql

# Product, user, day as an ordinal (a date is slow to hash), event name, account.
CountKey: TypeAlias = tuple[int, int, int, int, int]
# How many events, and when the last of them happened.
CountsByKey: TypeAlias = Mapping[CountKey, tuple[int, datetime]]
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


def add(counts: CountsByKey) -> None:
    """Add the counts to the stored ones."""
    if counts:
        sql.execute(_ADD, _arrays(counts))


# These find their rows by the key, as an upsert must. A join may be planned on statistics that do
# not know a new product yet, and then compares all rows with all: 5 s where this takes 20 ms.
_TAKE: LiteralString = f"""
    INSERT INTO engagement_dailycount AS d
        (product_id, user_id, day, event_name_id, account_id, count, last_at)
    SELECT product_id, user_id, day, event_name_id, account_id, -count, last_at
    FROM {_GIVEN} AS k(product_id, user_id, day, event_name_id, account_id, count, last_at)
    ON CONFLICT (product_id, user_id, day, event_name_id, account_id) DO UPDATE
    SET count = d.count + EXCLUDED.count
    RETURNING d.product_id, d.user_id, d.day, d.event_name_id, d.account_id,
              d.count, d.last_at, d.ctid::text
"""
_DELETE: LiteralString = """
    DELETE FROM engagement_dailycount
    WHERE ctid = ANY(%(places)b::text[]::tid[]) AND product_id = ANY(%(products)b::bigint[])
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
    INSERT INTO engagement_dailycount AS d
        (product_id, user_id, day, event_name_id, account_id, count, last_at)
    SELECT product_id, user_id, day, event_name_id, account_id, 0, last_at
    FROM found
    WHERE (product_id, user_id, day, event_name_id, account_id) IN (SELECT * FROM wanted)
    ON CONFLICT (product_id, user_id, day, event_name_id, account_id) DO UPDATE
    SET last_at = EXCLUDED.last_at
"""


def subtract(counts: CountsByKey) -> None:
    """Take the counts of events that moved away from the stored ones; the events have moved
    already. What was counted without events stays."""
    if not counts:
        return
    emptied: list[sql.Row] = []
    unsure: list[sql.Row] = []
    for row in sql.fetch(_TAKE, _arrays(counts)):
        product, user, day, name, account, left, last_at, _ = row
        if left <= 0:
            emptied.append(row)
        elif last_at <= counts[product, user, day.toordinal(), name, account][1]:
            # Only who lost the last event of a day needs a look at what is left of it.
            unsure.append(row)
    if emptied:
        products = list({row[0] for row in emptied})
        sql.execute(_DELETE, {"places": [row[7] for row in emptied], "products": products})
    if unsure:
        sql.execute(
            _FIND_LAST,
            {
                "products": [row[0] for row in unsure],
                "users": [row[1] for row in unsure],
                "days": [row[2] for row in unsure],
                "names": [row[3] for row in unsure],
                "accounts": [row[4] for row in unsure],
            },
        )


def earliest_days(counts: CountsByKey) -> dict[int, int]:
    """Each product's earliest day among the counts, as an ordinal."""
    days: dict[int, int] = {}
    for product_id, _, day, _, _ in counts:
        if day < days.get(product_id, _NO_DAY):
            days[product_id] = day
    return days


def _arrays(counts: CountsByKey) -> dict[str, Collection[Any]]:
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
