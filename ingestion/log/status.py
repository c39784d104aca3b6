"""The ingestion status of a product: messages that wait, are quarantined, or were dropped."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.db.models import Count, Max

from ingestion.log import last_24h
from ingestion.models import DropCount, DroppedMessage, DropReason, QuarantinedMessage

# Including today.
CHART_DAYS = 30
MAX_SENDERS = 50


@dataclass(frozen=True)
class DailyDrops:
    """The number of dropped messages on each day, for each reason that occurred."""

    days: list[date]
    by_reason: dict[DropReason, list[int]]

    @property
    def total(self) -> int:
        return sum(sum(counts) for counts in self.by_reason.values())

    @property
    def today(self) -> int:
        return sum(counts[-1] for counts in self.by_reason.values())


@dataclass(frozen=True)
class IngestionStatus:
    """``waiting`` is None if counting takes too long. ``oldest`` is when the oldest waiting message
    was received."""

    waiting: int | None
    oldest: datetime | None
    quarantined: int
    drops: DailyDrops


@dataclass(frozen=True)
class UnknownSender:
    """Messages with the same unknown key, or with none."""

    key_hint: str
    reason: DropReason
    count: int
    last_at: datetime


def for_product(product_id: int, now: datetime) -> IngestionStatus:
    backlogs = last_24h.load_backlogs([product_id])
    backlog = backlogs and backlogs[product_id]
    return IngestionStatus(
        waiting=backlog.messages if backlog else None,
        oldest=backlog.oldest if backlog else None,
        quarantined=QuarantinedMessage.objects.filter(product=product_id).count(),
        drops=daily_drops(product_id, now),
    )


def daily_drops(product_id: int | None, now: datetime) -> DailyDrops:
    """The product's drops of the last days, or those without a valid key if it is None."""
    today = now.astimezone(UTC).date()
    days = [today - timedelta(days=back) for back in range(CHART_DAYS - 1, -1, -1)]
    rows = DropCount.objects.filter(product=product_id, day__gte=days[0], day__lte=today)
    counts: dict[DropReason, list[int]] = defaultdict(lambda: [0] * CHART_DAYS)
    for day, reason, count in rows.values_list("day", "reason", "count"):
        counts[DropReason(reason)][(day - days[0]).days] += count
    # In the order of declaration, so that each reason keeps its color.
    return DailyDrops(days, {reason: counts[reason] for reason in DropReason if reason in counts})


def unknown_senders() -> Sequence[UnknownSender]:
    """The senders with missing or unknown keys, the latest first. Only superusers may see them."""
    drops = DroppedMessage.objects.filter(product=None).values("key_hint", "reason")
    senders = drops.annotate(count=Count("*"), last_at=Max("received_at")).order_by("-last_at")
    return [
        UnknownSender(row["key_hint"], DropReason(row["reason"]), row["count"], row["last_at"])
        for row in senders[:MAX_SENDERS]
    ]
