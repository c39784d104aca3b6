"""How ingestion stands for one product: what waits, what is put aside, and what was dropped."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import LiteralString

from django.db.models import Count, Max

from engagement import sql
from ingestion.models import (
    DropCount,
    DroppedMessage,
    DropReason,
    IngestionKey,
    QuarantinedMessage,
)

# The chart shows so many days, today included.
DAYS = 30
# Seconds that counting in a deep inbox may take.
PATIENCE = 1.0
# So many kinds of unknown senders are listed.
SENDERS = 50

_WAITING: LiteralString = """
    SELECT count(*), min(received_at) FROM ingestion_inboxmessage
    WHERE key_digest = ANY(%(digests)b::bytea[])
"""


@dataclass(frozen=True)
class Drops:
    """How many messages were dropped on each of the days, for each reason that occurred."""

    days: list[date]
    by_reason: dict[DropReason, list[int]]

    @property
    def total(self) -> int:
        return sum(sum(counts) for counts in self.by_reason.values())

    @property
    def today(self) -> int:
        return sum(counts[-1] for counts in self.by_reason.values())


@dataclass(frozen=True)
class Standing:
    """``waiting`` is None where counting takes too long; ``oldest`` is when the oldest of those
    that wait was received."""

    waiting: int | None
    oldest: datetime | None
    quarantined: int
    drops: Drops


@dataclass(frozen=True)
class UnknownSender:
    """Messages that came with a key that no product has, or with none."""

    key_hint: str
    reason: DropReason
    count: int
    last_at: datetime


def of_product(product_id: int, now: datetime) -> Standing:
    waiting, oldest = _waiting(product_id)
    quarantined = QuarantinedMessage.objects.filter(product=product_id).count()
    return Standing(waiting, oldest, quarantined, drops(product_id, now))


def drops(product_id: int | None, now: datetime) -> Drops:
    """The last days' drops of the product; of messages with unknown keys where it is None."""
    today = now.astimezone(UTC).date()
    days = [today - timedelta(days=back) for back in range(DAYS - 1, -1, -1)]
    rows = DropCount.objects.filter(product=product_id, day__gte=days[0], day__lte=today)
    counts: dict[DropReason, list[int]] = defaultdict(lambda: [0] * DAYS)
    for day, reason, count in rows.values_list("day", "reason", "count"):
        counts[DropReason(reason)][(day - days[0]).days] += count
    # In the order in which the reasons are declared, so that each keeps its colour.
    return Drops(days, {reason: counts[reason] for reason in DropReason if reason in counts})


def unknown_senders() -> Sequence[UnknownSender]:
    """Who sends with unknown keys, the latest first. For superusers: nobody else may see them."""
    rows = DroppedMessage.objects.filter(product=None).values("key_hint", "reason")
    counted = rows.annotate(count=Count("*"), last_at=Max("received_at")).order_by("-last_at")
    return [
        UnknownSender(row["key_hint"], DropReason(row["reason"]), row["count"], row["last_at"])
        for row in counted[:SENDERS]
    ]


def _waiting(product_id: int) -> tuple[int | None, datetime | None]:
    digests = IngestionKey.objects.filter(product=product_id).values_list("digest", flat=True)
    try:
        with sql.time_limit(PATIENCE):
            parameters = {"digests": [bytes(one) for one in digests]}
            ((count, oldest),) = sql.fetch(_WAITING, parameters)
            return count, oldest
    except sql.TookTooLong:
        return None, None
