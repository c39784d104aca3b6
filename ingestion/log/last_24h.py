"""The outcome of the messages of the last 24 hours, and what still waits."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import LiteralString

from django.db.models import Sum

from core.database import sql
from ingestion.log.hours import RECORDED, start_of_hour
from ingestion.models import DropReason, HourCount, IngestionKey, RefusedCount

# The current hour is the last of them.
HOURS = 24
# Limit for counting a deep inbox or quarantine.
COUNT_TIMEOUT_SECONDS = 1.0

ByHour = list[int]


def _zeros() -> ByHour:
    return [0] * HOURS


@dataclass
class Backlog:
    """A product's messages in the inbox: their number, when the oldest was received, and their
    number by hour."""

    messages: int = 0
    oldest: datetime | None = None
    hours: dict[datetime, int] = field(default_factory=dict)


@dataclass
class Last24Hours:
    """A product's messages by outcome and hour of receipt, the newest hour last.

    ``waiting`` is None if counting the inbox takes too long, and ``quarantined`` if counting the
    quarantine does. Then these are not in the hours either.
    """

    hours: list[datetime]
    recorded: ByHour = field(default_factory=_zeros)
    dropped: dict[DropReason, ByHour] = field(default_factory=dict)
    in_quarantine: ByHour = field(default_factory=_zeros)
    in_inbox: ByHour = field(default_factory=_zeros)
    waiting: Backlog | None = None
    quarantined: int | None = None

    @property
    def accepted(self) -> int:
        """The number of messages that got 202. Each has one outcome."""
        outcomes = [self.recorded, *self.dropped.values(), self.in_quarantine, self.in_inbox]
        return sum(map(sum, outcomes))


def for_products(product_ids: Collection[int], now: datetime) -> dict[int, Last24Hours]:
    """The last 24 hours of each product, in four queries."""
    hours = _hours(now)
    products = {product_id: Last24Hours(hours) for product_id in product_ids}
    indexes = {hour: index for index, hour in enumerate(hours)}
    _add_processed(products, indexes)
    _add_quarantined(products, indexes)
    _add_waiting(products, indexes)
    return products


def _hours(now: datetime) -> list[datetime]:
    newest = start_of_hour(now)
    return [newest - timedelta(hours=back) for back in range(HOURS - 1, -1, -1)]


def _add_processed(products: dict[int, Last24Hours], indexes: dict[datetime, int]) -> None:
    counts = HourCount.objects.filter(product__in=products, hour__in=indexes)
    for product_id, hour, reason, count in counts.values_list("product", "hour", "reason", "count"):
        last_24h = products[product_id]
        if reason == RECORDED:
            by_hour = last_24h.recorded
        else:
            by_hour = last_24h.dropped.setdefault(DropReason(reason), _zeros())
        by_hour[indexes[hour]] += count
    for last_24h in products.values():
        # In the order of declaration, wherever they are shown.
        last_24h.dropped = {
            reason: last_24h.dropped[reason] for reason in DropReason if reason in last_24h.dropped
        }


def count_recorded(product_id: int, now: datetime) -> int:
    """How many messages of the product were recorded in the last 24 hours."""
    counts = HourCount.objects.filter(product=product_id, hour__gte=_hours(now)[0], reason=RECORDED)
    return sum(counts.values_list("count", flat=True))


def count_refused(product_id: int, now: datetime) -> dict[str, int]:
    """The number of refused requests of the last 24 hours by code, the most frequent first."""
    counts = RefusedCount.objects.filter(product=product_id, hour__gte=_hours(now)[0])
    by_code = counts.values("code").annotate(total=Sum("count")).order_by("-total", "code")
    return dict(by_code.values_list("code", "total"))


_QUARANTINED: LiteralString = """
    SELECT product_id, date_trunc('hour', received_at, 'UTC'), count(*)
    FROM ingestion_quarantinedmessage WHERE product_id = ANY(%(products)b::bigint[])
    GROUP BY 1, 2
"""


def _add_quarantined(products: dict[int, Last24Hours], indexes: dict[datetime, int]) -> None:
    try:
        with sql.statement_timeout(COUNT_TIMEOUT_SECONDS):
            rows = sql.fetch(_QUARANTINED, {"products": list(products)})
    except sql.StatementTimeout:
        return
    for last_24h in products.values():
        last_24h.quarantined = 0
    for product_id, hour, count in rows:
        last_24h = products[product_id]
        last_24h.quarantined = (last_24h.quarantined or 0) + count
        if hour in indexes:
            last_24h.in_quarantine[indexes[hour]] += count


def _add_waiting(products: dict[int, Last24Hours], indexes: dict[datetime, int]) -> None:
    backlogs = load_backlogs(products)
    if backlogs is None:
        return
    for product_id, last_24h in products.items():
        last_24h.waiting = backlogs[product_id]
        for hour, count in last_24h.waiting.hours.items():
            if hour in indexes:
                last_24h.in_inbox[indexes[hour]] += count


_WAITING: LiteralString = """
    SELECT key_digest, date_trunc('hour', received_at, 'UTC'), count(*), min(received_at)
    FROM ingestion_inboxmessage WHERE key_digest = ANY(%(digests)b::bytea[])
    GROUP BY 1, 2
"""


def load_backlogs(product_ids: Iterable[int]) -> dict[int, Backlog] | None:
    """Each product's messages in the inbox, or None if counting takes too long."""
    backlogs = {product_id: Backlog() for product_id in product_ids}
    keys = IngestionKey.objects.filter(product__in=backlogs).values_list("digest", "product")
    owners = {bytes(digest): product_id for digest, product_id in keys}
    try:
        with sql.statement_timeout(COUNT_TIMEOUT_SECONDS):
            rows = sql.fetch(_WAITING, {"digests": list(owners)})
    except sql.StatementTimeout:
        return None
    for digest, hour, count, oldest in rows:
        backlog = backlogs[owners[bytes(digest)]]
        backlog.messages += count
        backlog.oldest = min(backlog.oldest or oldest, oldest)
        backlog.hours[hour] = backlog.hours.get(hour, 0) + count
    return backlogs


_OLDEST: LiteralString = """
    SELECT received_at FROM ingestion_inboxmessage
    WHERE key_digest = ANY(%(digests)b::bytea[]) ORDER BY id LIMIT 1
"""


def oldest_waiting(product_id: int) -> datetime | None:
    """When the product's first message in the inbox came; None if none waits.

    Counts nothing, so that a deep inbox takes no longer. Raises StatementTimeout if the messages of
    others are too many to look through.
    """
    keys = IngestionKey.objects.filter(product=product_id)
    digests = [bytes(digest) for digest in keys.values_list("digest", flat=True)]
    with sql.statement_timeout(COUNT_TIMEOUT_SECONDS):
        rows = sql.fetch(_OLDEST, {"digests": digests})
    return rows[0][0] if rows else None
