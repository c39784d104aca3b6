"""What became of the messages that products sent, counted by the hour in which they were received.

The counts are for a glance at the last day. What still waits or is in quarantine is not in them: it
is counted where it lies, so that a message that moves on is in one place at any time.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import LiteralString

from engagement.database import sql
from engagement.messages import ReceivedMessage
from ingestion.log.drops import Drop

# What stands for a reason where the message was recorded.
RECORDED = ""

# By product, hour and reason.
HourlyCounts = Counter[tuple[int, datetime, str]]


def count_by_hour(
    recorded: Sequence[ReceivedMessage],
    forgotten: Sequence[ReceivedMessage],
    dropped: Sequence[Drop],
) -> HourlyCounts:
    """The messages that were handed over to be recorded, less those of somebody *forgotten*, and
    those that were dropped. Whose product nobody knows is in no product's counts."""
    counts = _by_hour(recorded)
    counts.subtract(_by_hour(forgotten))
    counts.update(
        (one.product_id, start_of_hour(one.received_at), one.reason.value)
        for one in dropped
        if one.product_id is not None
    )
    return counts


def _by_hour(received: Sequence[ReceivedMessage]) -> HourlyCounts:
    times = [one.received_at for one in received]
    if not times:
        return Counter()
    hour = start_of_hour(min(times))
    if start_of_hour(max(times)) == hour:
        # Nearly always; a tenth of the time of asking each message for its hour.
        products = Counter(map(attrgetter("product_id"), received))
        return Counter({(pk, hour, RECORDED): count for pk, count in products.items()})
    return Counter((one.product_id, start_of_hour(one.received_at), RECORDED) for one in received)


def start_of_hour(at: datetime) -> datetime:
    """When the hour of the time begins."""
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
    for some in counts:
        total.update(some)
    # Sorted, so that two workers that record messages of the same products cannot deadlock.
    rows = sorted((place, count) for place, count in total.items() if count)
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
