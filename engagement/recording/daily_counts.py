"""Adds events to the daily counts, and subtracts the events that move to another account."""

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any, LiteralString, TypeAlias

from core.database import sql
from engagement.models.activity import NO_ACCOUNT
from engagement.scores import rescore_queue
from engagement.scores.rescore_queue import RescoreItem

# Product, user, day as an ordinal (a date is slow to hash), event name, account.
CountKey: TypeAlias = tuple[int, int, int, int, int]
# How many events, and when the last of them happened.
CountsByKey: TypeAlias = Mapping[CountKey, tuple[int, datetime]]
# Later than every day.
_NO_DAY = date.max.toordinal() + 1

_COUNTS: LiteralString = """
    unnest(
        %(products)b::bigint[], %(users)b::bigint[], %(days)b::integer[], %(names)b::bigint[],
        %(accounts)b::bigint[], %(counts)b::integer[], %(last)b::timestamptz[])
        AS k(product_id, user_id, day, event_name_id, account_id, count, last_at)
"""
_DAY: LiteralString = "date '0001-01-01' + (day - 1)"
_ADD: LiteralString = f"""
    INSERT INTO engagement_dailycount AS d
        (product_id, user_id, day, event_name_id, account_id, count, last_at)
    SELECT product_id, user_id, {_DAY}, event_name_id, account_id, count, last_at
    FROM {_COUNTS}
    ON CONFLICT (product_id, user_id, day, event_name_id, account_id) DO UPDATE
    SET count = d.count + EXCLUDED.count, last_at = GREATEST(d.last_at, EXCLUDED.last_at)
"""


def add(counts: CountsByKey) -> None:
    """Add the counts to the stored ones."""
    if counts:
        sql.execute(_ADD, _arrays(counts))


# An upsert finds its rows by the key. For a join on a new product, which the statistics do not know
# yet, the planner may compare all rows with all: 5 s where this takes 20 ms.
_SUBTRACT: LiteralString = f"""
    INSERT INTO engagement_dailycount AS d
        (product_id, user_id, day, event_name_id, account_id, count, last_at)
    SELECT product_id, user_id, {_DAY}, event_name_id, account_id, -count, last_at
    FROM {_COUNTS}
    ON CONFLICT (product_id, user_id, day, event_name_id, account_id) DO UPDATE
    SET count = d.count + EXCLUDED.count
    RETURNING d.product_id, d.user_id, d.day, d.event_name_id, d.account_id,
              d.count, d.last_at, d.ctid::text
"""
_DELETE: LiteralString = f"""
    DELETE FROM engagement_dailycount d
    WHERE ctid = ANY(%(places)b::text[]::tid[]) AND product_id = ANY(%(products)b::bigint[])
      AND {sql.on_node("d")}
"""
# Reads each day once, however many of its counts are updated.
_SET_LAST_AT: LiteralString = f"""
    INSERT INTO engagement_dailycount AS d
        (product_id, user_id, day, event_name_id, account_id, count, last_at)
    WITH wanted AS MATERIALIZED (
        SELECT * FROM unnest(
            %(products)b::bigint[], %(users)b::bigint[], %(days)b::date[], %(names)b::bigint[],
            %(accounts)b::bigint[])
            AS k(product_id, user_id, day, event_name_id, account_id)),
    latest AS MATERIALIZED (
        SELECT w.product_id, w.user_id, w.day, e.event_name_id, e.account_id,
               max(e.occurred_at) AS last_at
        FROM (SELECT DISTINCT product_id, user_id, day FROM wanted) w
        CROSS JOIN LATERAL (
            SELECT event_name_id, COALESCE(account_id, 0) AS account_id, occurred_at
            FROM engagement_event e
            WHERE e.product_id = w.product_id AND e.user_id = w.user_id
              AND e.occurred_at >= w.day::timestamp AT TIME ZONE 'UTC'
              AND e.occurred_at < (w.day + 1)::timestamp AT TIME ZONE 'UTC'
              AND {sql.on_node("e")}
            OFFSET 0) e
        GROUP BY 1, 2, 3, 4, 5)
    SELECT product_id, user_id, day, event_name_id, account_id, 0, last_at
    FROM latest
    WHERE (product_id, user_id, day, event_name_id, account_id) IN (SELECT * FROM wanted)
    ON CONFLICT (product_id, user_id, day, event_name_id, account_id) DO UPDATE
    SET last_at = EXCLUDED.last_at
"""


def subtract(counts: CountsByKey) -> None:
    """Subtract the counts of events that have moved away.

    Counts that were recorded without events stay.
    """
    if not counts:
        return
    emptied: list[sql.Row] = []
    outdated: list[sql.Row] = []
    for row in sql.fetch(_SUBTRACT, _arrays(counts)):
        product, user, day, name, account, count, last_at, _ = row
        if count <= 0:
            emptied.append(row)
        elif last_at <= counts[product, user, day.toordinal(), name, account][1]:
            # The day lost its last event, so last_at comes from the events that are left.
            outdated.append(row[:5])
    if emptied:
        products = list({row[0] for row in emptied})
        sql.execute(_DELETE, {"places": [row[7] for row in emptied], "products": products})
    if outdated:
        arrays = sql.arrays(outdated, "products", "users", "days", "names", "accounts")
        sql.execute(_SET_LAST_AT, arrays)


def rescore_items(keys: Iterable[CountKey]) -> set[RescoreItem]:
    """What to score again after these counts changed: each user and each account, with their first
    days, and the first day of each product, of which scoring decides whether it is late."""
    users: dict[tuple[int, int], int] = {}
    accounts: dict[tuple[int, int], int] = {}
    for product, user, day, _, account in keys:
        if day < users.get((product, user), _NO_DAY):
            users[product, user] = day
        if day < accounts.get((product, account), _NO_DAY):
            accounts[product, account] = day
    items = {
        rescore_queue.rescore_user(*user, date.fromordinal(day)) for user, day in users.items()
    }
    products: dict[int, int] = {}
    for (product, account), day in accounts.items():
        products[product] = min(day, products.get(product, day))
        if account != NO_ACCOUNT:
            items.add(rescore_queue.rescore_account(product, account, date.fromordinal(day)))
    for product, day in products.items():
        items.add(rescore_queue.rescore_days_since(product, date.fromordinal(day)))
    return items


def _arrays(counts: CountsByKey) -> dict[str, list[Any]]:
    # Sorted by the key, so that two workers that count the same users cannot deadlock.
    rows = [(*key, *count) for key, count in sorted(counts.items())]
    return sql.arrays(rows, "products", "users", "days", "names", "accounts", "counts", "last")
