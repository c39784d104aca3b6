"""What became of the messages that products sent in the last day, and what still waits."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import LiteralString

from engagement.database import sql
from ingestion.log.hours import RECORDED, start_of_hour
from ingestion.models import DropReason, HourCount, IngestionKey

# The hour that has begun is the last of them.
HOURS = 24
# Seconds that counting in a deep inbox or quarantine may take.
COUNT_TIMEOUT_SECONDS = 1.0

ByHour = list[int]


def _none() -> ByHour:
    return [0] * HOURS


@dataclass
class Backlog:
    """What of a product waits in the inbox: how many messages, when the oldest was received, and
    how many there are of each hour."""

    messages: int = 0
    oldest: datetime | None = None
    hours: dict[datetime, int] = field(default_factory=dict)


@dataclass
class Last24Hours:
    """A product's messages by the hour in which they were received, the newest hour last, and by
    what became of them. ``waiting`` is None where counting the inbox takes too long, and
    ``quarantined`` where counting the quarantine does; neither is then in the hours."""

    hours: list[datetime]
    recorded: ByHour = field(default_factory=_none)
    dropped: dict[DropReason, ByHour] = field(default_factory=dict)
    in_quarantine: ByHour = field(default_factory=_none)
    in_inbox: ByHour = field(default_factory=_none)
    waiting: Backlog | None = None
    quarantined: int | None = None

    @property
    def accepted(self) -> int:
        """All that was answered with 202: each message is in one of the places."""
        parts = [self.recorded, *self.dropped.values(), self.in_quarantine, self.in_inbox]
        return sum(map(sum, parts))


def for_products(product_ids: Collection[int], now: datetime) -> dict[int, Last24Hours]:
    """The last day of each of the products, in four queries."""
    newest = start_of_hour(now)
    hours = [newest - timedelta(hours=back) for back in range(HOURS - 1, -1, -1)]
    found = {product_id: Last24Hours(hours) for product_id in product_ids}
    place = {hour: index for index, hour in enumerate(hours)}
    _add_settled(found, place)
    _add_quarantined(found, place)
    _add_waiting(found, place)
    return found


def _add_settled(found: dict[int, Last24Hours], place: dict[datetime, int]) -> None:
    counts = HourCount.objects.filter(product__in=found, hour__in=place)
    for product_id, hour, reason, count in counts.values_list("product", "hour", "reason", "count"):
        one = found[product_id]
        if reason == RECORDED:
            by_hour = one.recorded
        else:
            by_hour = one.dropped.setdefault(DropReason(reason), _none())
        by_hour[place[hour]] += count
    for one in found.values():
        # In the order in which the reasons are declared, wherever they are shown.
        one.dropped = {
            reason: one.dropped[reason] for reason in DropReason if reason in one.dropped
        }


def count_recorded(product_id: int, now: datetime) -> int:
    """How many messages of the product were recorded in the last day."""
    since = start_of_hour(now) - timedelta(hours=HOURS - 1)
    counts = HourCount.objects.filter(product=product_id, hour__gte=since, reason=RECORDED)
    return sum(counts.values_list("count", flat=True))


_QUARANTINED: LiteralString = """
    SELECT product_id, date_trunc('hour', received_at, 'UTC'), count(*)
    FROM ingestion_quarantinedmessage WHERE product_id = ANY(%(products)b::bigint[])
    GROUP BY 1, 2
"""


def _add_quarantined(found: dict[int, Last24Hours], place: dict[datetime, int]) -> None:
    try:
        with sql.statement_timeout(COUNT_TIMEOUT_SECONDS):
            rows = sql.fetch(_QUARANTINED, {"products": list(found)})
    except sql.StatementTimeout:
        return
    for one in found.values():
        one.quarantined = 0
    for product_id, hour, count in rows:
        one = found[product_id]
        one.quarantined = (one.quarantined or 0) + count
        if hour in place:
            one.in_quarantine[place[hour]] += count


def _add_waiting(found: dict[int, Last24Hours], place: dict[datetime, int]) -> None:
    backlogs = load_backlogs(found)
    if backlogs is None:
        return
    for product_id, one in found.items():
        one.waiting = backlogs[product_id]
        for hour, count in one.waiting.hours.items():
            if hour in place:
                one.in_inbox[place[hour]] += count


_WAITING: LiteralString = """
    SELECT key_digest, date_trunc('hour', received_at, 'UTC'), count(*), min(received_at)
    FROM ingestion_inboxmessage WHERE key_digest = ANY(%(digests)b::bytea[])
    GROUP BY 1, 2
"""


def load_backlogs(product_ids: Iterable[int]) -> dict[int, Backlog] | None:
    """What of each product waits in the inbox; None where counting takes too long."""
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
