"""Stored license events, for pages, the read API, and notifications."""

from django.db.models import QuerySet

from engagement.rules import license_events
from marketplace.ledger import event_texts
from marketplace.models import LicenseEvent
from marketplace.models.ledger import EVENT_ID_HASH


def register() -> None:
    """Let segments, lists, the read API, and exports have the events."""
    labels = {type.value: title for type, title in event_texts.TITLES.items()}
    license_events.register(license_events.Source(events_of, describe, labels))


def events_of(product_id: int) -> QuerySet[LicenseEvent]:
    """The product's events, those that are withdrawn included, with a hash of their ids."""
    return LicenseEvent.objects.filter(product=product_id).annotate(id_hash=EVENT_ID_HASH)


def timeline(product_id: int, cloud_id: str, limit: int) -> list[LicenseEvent]:
    """The account's latest events, latest first."""
    events = events_of(product_id).filter(cloud_id=cloud_id)
    return list(events.order_by(*license_events.LATEST_FIRST)[:limit])


def describe(event: LicenseEvent) -> str:
    """What happened, as a sentence."""
    return event_texts.describe(event.type, event.details)
