"""Counts of recorded and dropped messages, by the hour of receipt.

They summarize the last 24 hours. Messages in the inbox or in quarantine are not included: those are
counted in their own tables, so that each message is in one place at any time.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import LiteralString

from core.database import sql
from engagement.messages import ReceivedMessage
from ingestion.log.drops import Drop

# Stands for a reason if the message was recorded.
RECORDED = ""

# By product, hour and reason.
HourlyCounts = Counter[tuple[int, datetime, str]]


def count_by_hour(
    recorded: Sequence[ReceivedMessage],
    rejected: Sequence[ReceivedMessage],
    dropped: Sequence[Drop],
) -> HourlyCounts:
    """The counts of *recorded* messages, without those that were *rejected*, and of *dropped*
    ones. Messages without a product are not counted."""
    counts = _by_hour(recorded)
    counts.subtract(_by_hour(rejected))
    counts.update(
        (drop.product_id, start_of_hour(drop.received_at), drop.reason.value)
        for drop in dropped
        if drop.product_id is not None
    )
    return counts


def _by_hour(received: Sequence[ReceivedMessage]) -> HourlyCounts:
    times = [message.received_at for message in received]
    if not times:
        return Counter()
    hour = start_of_hour(min(times))
    if start_of_hour(max(times)) == hour:
        # Nearly always, and in a tenth of the time of looking at each message.
        products = Counter(map(attrgetter("product_id"), received))
        return Counter({(pk, hour, RECORDED): count for pk, count in products.items()})
    return Counter(
        (message.product_id, start_of_hour(message.received_at), RECORDED) for message in received
    )


def start_of_hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


_ADD: LiteralString = """
    INSERT INTO ingestion_hourcount AS c (product_id, hour, reason, count)
    SELECT * FROM unnest(%(products)b::bigint[], %(hours)b::timestamptz[], %(reasons)b::text[],
                         %(counts)b::bigint[])
    ON CONFLICT (product_id, hour, reason) DO UPDATE SET count = c.count + EXCLUDED.count
"""


def add_counts(counts: Sequence[HourlyCounts]) -> None:
    """Add the counts to the stored ones, in the caller's transaction."""
    total: HourlyCounts = Counter()
    for batch_counts in counts:
        total.update(batch_counts)
    # Sorted, so that two workers that record messages of the same products cannot deadlock.
    rows = sorted((key, count) for key, count in total.items() if count)
    if rows:
        sql.execute(
            _ADD,
            {
                "products": [product for (product, _, _), _ in rows],
                "hours": [hour for (_, hour, _), _ in rows],
                "reasons": [reason for (_, _, reason), _ in rows],
                "counts": [count for _, count in rows],
            },
        )
