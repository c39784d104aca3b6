"""Keeps a product within its messages a second and a day.

The counts are read when a batch begins and added when it ends, so workers side by side do not wait
for each other, and may exceed a limit by a batch each. What exceeds one is not even decoded, except
for the few messages that are listed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import LiteralString, NamedTuple

from engagement.database import sql
from engagement.limits.limits import Limits, ProductState
from ingestion.models import DropReason

SECONDS = 60
# Counts of older minutes are deleted. Messages that waited for longer are not limited by them.
RETENTION = timedelta(days=2)

# Product id, and the start of a minute of receipt.
MinuteCounts = Counter[tuple[int, datetime]]

_DAY: LiteralString = """
    SELECT product_id, sum(count) FROM ingestion_hourcount
    WHERE product_id = ANY(%(products)b::bigint[]) AND hour >= %(day)s
      AND hour < %(day)s + interval '1 day' AND reason = ''
    GROUP BY product_id
"""
_MINUTES: LiteralString = """
    SELECT product_id, minute, count FROM ingestion_minutecount
    WHERE product_id = ANY(%(products)b::bigint[]) AND minute BETWEEN %(first)s AND %(last)s
"""


class Arrival(NamedTuple):
    """A message of a product that may send."""

    id: int
    product_id: int
    received_at: datetime


def find_excess(
    arrivals: list[Arrival], states: Mapping[int, ProductState]
) -> dict[int, DropReason]:
    """Why messages exceed a limit of their product, by their id. Mostly nothing."""
    if not arrivals:
        return {}
    totals = Counter([arrival.product_id for arrival in arrivals])
    times = [arrival.received_at for arrival in arrivals]
    first, last = start_of_minute(min(times)), start_of_minute(max(times))
    day = last.astimezone(UTC).replace(hour=0, minute=0)
    products = list(totals)
    of_day: Counter[int] = Counter(dict(sql.fetch(_DAY, {"products": products, "day": day})))
    window = {"products": products, "first": first, "last": last}
    of_minute: MinuteCounts = Counter()
    fullest: Counter[int] = Counter()
    for product_id, minute, count in sql.fetch(_MINUTES, window):
        of_minute[product_id, minute] = count
        fullest[product_id] = max(fullest[product_id], count)
    busy = {
        product_id
        for product_id, total in totals.items()
        if fullest[product_id] + total > _per_minute(states[product_id].limits)
        or of_day[product_id] + total > states[product_id].limits.messages_per_day
    }
    excess: dict[int, DropReason] = {}
    for arrival in arrivals if busy else ():
        if arrival.product_id in busy:
            reason = _take(arrival, states[arrival.product_id].limits, of_minute, of_day)
            if reason is not None:
                excess[arrival.id] = reason
    return excess


def _take(
    arrival: Arrival, limits: Limits, of_minute: MinuteCounts, of_day: "Counter[int]"
) -> DropReason | None:
    """Count the message, or say why it exceeds a limit."""
    product_id, minute = arrival.product_id, start_of_minute(arrival.received_at)
    if of_day[product_id] >= limits.messages_per_day:
        return DropReason.DAILY_LIMIT
    if of_minute[product_id, minute] >= _per_minute(limits):
        return DropReason.TOO_FAST
    of_minute[product_id, minute] += 1
    of_day[product_id] += 1
    return None


def _per_minute(limits: Limits) -> int:
    return limits.messages_per_second * SECONDS


def start_of_minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def count_by_minute(arrivals: Sequence[Arrival]) -> MinuteCounts:
    if not arrivals:
        return Counter()
    times = [arrival.received_at for arrival in arrivals]
    first = start_of_minute(min(times))
    if start_of_minute(max(times)) == first:
        # Mostly, and in a fifth of the time.
        products = Counter([arrival.product_id for arrival in arrivals])
        return Counter({(pk, first): count for pk, count in products.items()})
    return Counter(
        [(arrival.product_id, start_of_minute(arrival.received_at)) for arrival in arrivals]
    )


_ADD: LiteralString = """
    INSERT INTO ingestion_minutecount AS c (product_id, minute, count)
    SELECT * FROM unnest(%(products)b::bigint[], %(minutes)b::timestamptz[], %(counts)b::bigint[])
    ON CONFLICT (product_id, minute) DO UPDATE SET count = c.count + EXCLUDED.count
"""


def add_counts(counts: MinuteCounts) -> None:
    """Add the counts to the stored ones, in the caller's transaction."""
    # Sorted, so that two workers that count the same products cannot deadlock.
    rows = sorted(counts.items())
    if rows:
        sql.execute(
            _ADD,
            {
                "products": [product_id for (product_id, _), _ in rows],
                "minutes": [minute for (_, minute), _ in rows],
                "counts": [count for _, count in rows],
            },
        )
