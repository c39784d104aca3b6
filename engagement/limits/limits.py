"""The limits of products, and what they use of them."""

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import LiteralString, NamedTuple

from django.conf import settings

from core.database import nodes, sql
from engagement.models import (
    Account,
    EventName,
    Product,
    ProductUsage,
    Segment,
    TraitName,
    User,
)

# From this share on, pages say that a limit is near.
NEAR = 0.8
# Usage is counted this often, and a product far from its limits less often.
COUNT_INTERVAL = timedelta(minutes=10)
CALM_COUNT_INTERVAL = timedelta(hours=1)
CALM = 0.5


class Limits(NamedTuple):
    messages_per_second: int
    messages_per_day: int
    event_names: int
    trait_names: int
    subjects: int
    segments: int


class Usage(NamedTuple):
    """The numbers that were last counted."""

    event_names: int = 0
    trait_names: int = 0
    subjects: int = 0
    segments: int = 0


class ProductState(NamedTuple):
    """``is_counted`` is whether the usage was ever counted. Before, it is zero."""

    limits: Limits
    usage: Usage
    is_counted: bool

    @property
    def is_full(self) -> bool:
        """Whether there is no room for new users and accounts."""
        return self.usage.subjects >= self.limits.subjects


LABELS = {
    "messages_per_second": "Messages a second",
    "messages_per_day": "Messages a day",
    "event_names": "Event names",
    "trait_names": "Trait names",
    "subjects": "Users and accounts",
    "segments": "Segments",
}


class UsedLimit(NamedTuple):
    """How much of a limit is used, for pages."""

    label: str
    used: int
    limit: int

    @property
    def is_near(self) -> bool:
        return self.used >= NEAR * self.limit


_LOAD: LiteralString = """
    SELECT p.id, l.messages_per_second, l.messages_per_day,
           l.event_names, l.trait_names, l.subjects, l.segments,
           COALESCE(u.event_names, 0), COALESCE(u.trait_names, 0),
           COALESCE(u.subjects, 0), COALESCE(u.segments, 0), u.product_id IS NOT NULL
    FROM unnest(%(products)b::bigint[]) AS p(id)
    LEFT JOIN engagement_productlimits l ON l.product_id = p.id
    LEFT JOIN engagement_productusage u ON u.product_id = p.id
"""


def default_limits() -> Limits:
    return Limits(
        settings.MAX_MESSAGES_PER_SECOND,
        settings.MAX_MESSAGES_PER_DAY,
        settings.MAX_EVENT_NAMES,
        settings.MAX_TRAIT_NAMES,
        settings.MAX_SUBJECTS,
        settings.MAX_SEGMENTS,
    )


def load(product_ids: Collection[int]) -> dict[int, ProductState]:
    """The limits and the usage of the products. One statement."""
    if not product_ids:
        return {}
    defaults, size = default_limits(), len(Limits._fields)
    states = {}
    for product_id, *columns, is_counted in sql.fetch(_LOAD, {"products": list(product_ids)}):
        own = zip(columns[:size], defaults, strict=True)
        limits = Limits(*(default if limit is None else limit for limit, default in own))
        states[product_id] = ProductState(limits, Usage(*columns[size:]), is_counted)
    return states


def used_limits(state: ProductState) -> Iterator[UsedLimit]:
    """What is used of the limits that are counted in the background."""
    for name in Usage._fields:
        yield UsedLimit(LABELS[name], getattr(state.usage, name), getattr(state.limits, name))


def segments_left(product_id: int) -> int:
    """How many segments may still be added."""
    limit = load([product_id])[product_id].limits.segments
    return limit - _segments(product_id)


# --- Counting ---------------------------------------------------------------------------------


def count_usage(now: datetime) -> None:
    """Count what each product has, unless the last count is recent enough."""
    stored_usage = {usage.product_id: usage for usage in ProductUsage.objects.all()}
    products = nodes.reachable(Product.objects.filter(deletion_requested_at=None), "pk")
    ids = list(products.values_list("pk", flat=True))
    states = load(ids)
    for product_id in ids:
        usage = stored_usage.get(product_id)
        if usage is None or now - usage.counted_at >= _interval(states[product_id]):
            _count(product_id, now)


def _interval(state: ProductState) -> timedelta:
    is_calm = all(usage.used < CALM * usage.limit for usage in used_limits(state))
    return CALM_COUNT_INTERVAL if is_calm else COUNT_INTERVAL


def _count(product_id: int, now: datetime) -> None:
    kinds = (User, Account)
    subjects = sum(kind.objects.filter(product=product_id).count() for kind in kinds)
    ProductUsage.objects.update_or_create(
        product_id=product_id,
        defaults={
            "event_names": EventName.objects.filter(product=product_id).count(),
            "trait_names": TraitName.objects.filter(product=product_id).count(),
            "subjects": subjects,
            "segments": _segments(product_id),
            "counted_at": now,
        },
    )


def _segments(product_id: int) -> int:
    return Segment.objects.filter(workspace__product=product_id, is_default=False).count()
