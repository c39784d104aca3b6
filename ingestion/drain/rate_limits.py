"""Keeps a product within its messages a second and a day.

The counts are read when a batch begins and added when it ends, so workers side by side do not wait
for each other, and may exceed a limit by a batch each. What exceeds one is not even decoded, except
for the few messages that are listed.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import LiteralString, NamedTuple

from core.database import sql
from engagement.limits.limits import Limits, ProductState
from ingestion.drain.claims import ClaimedMessage
from ingestion.drain.senders import SenderKey
from ingestion.models import DropReason

SECONDS = 60

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


class Batch:
    """The messages of a batch whose keys may send, by the digests of these keys.

    Mostly all of them are of one minute and within the limits. Then nothing looks at each message.
    """

    def __init__(
        self, claimed: Sequence[ClaimedMessage], senders: Mapping[bytes, SenderKey], now: datetime
    ) -> None:
        self._claimed, self._senders = claimed, senders
        times = [message.received_at for message in claimed] or [now]
        self._oldest, self._latest = min(times), max(times)
        self.first, self.last = start_of_minute(self._oldest), start_of_minute(self._latest)
        # Also those that a key's last day parts in two. The limits look at each message then.
        self.totals: Counter[int] = Counter()
        for digest, number in Counter(each.key_digest for each in claimed).items():
            sender = senders.get(digest)
            if sender is None or sender.product_id is None or not sender.may_send(self._oldest):
                continue
            self.totals[sender.product_id] += number

    def arrivals(self) -> Iterator[Arrival]:
        for message in self._claimed:
            sender = self._senders.get(message.key_digest)
            if (
                sender is not None
                and sender.product_id is not None
                and sender.may_send(message.received_at)
            ):
                yield Arrival(message.id, sender.product_id, message.received_at)

    def find_excess(self, states: Mapping[int, ProductState]) -> dict[int, DropReason]:
        """Why messages exceed a limit of their product, by their id. Mostly nothing."""
        if not self.totals:
            return {}
        day = self.last.astimezone(UTC).replace(hour=0, minute=0)
        products = list(self.totals)
        of_day: Counter[int] = Counter(dict(sql.fetch(_DAY, {"products": products, "day": day})))
        window = {"products": products, "first": self.first, "last": self.last}
        of_minute: MinuteCounts = Counter()
        fullest: Counter[int] = Counter()
        for product_id, minute, count in sql.fetch(_MINUTES, window):
            of_minute[product_id, minute] = count
            fullest[product_id] = max(fullest[product_id], count)
        busy = {
            product_id
            for product_id, total in self.totals.items()
            if fullest[product_id] + total > _per_minute(states[product_id].limits)
            or of_day[product_id] + total > states[product_id].limits.messages_per_day
        }
        excess: dict[int, DropReason] = {}
        for arrival in self.arrivals() if busy else ():
            if arrival.product_id in busy:
                reason = _take(arrival, states[arrival.product_id].limits, of_minute, of_day)
                if reason is not None:
                    excess[arrival.id] = reason
        return excess

    def count_by_minute(self, excess: Collection[int]) -> MinuteCounts:
        """The counts of those that are not in *excess*."""
        if self.first == self.last and not excess:
            return Counter({(pk, self.first): count for pk, count in self.totals.items()})
        return Counter(
            (arrival.product_id, start_of_minute(arrival.received_at))
            for arrival in self.arrivals()
            if arrival.id not in excess
        )


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
