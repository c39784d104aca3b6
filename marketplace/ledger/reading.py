"""Stored license events, for pages, the read API, and notifications."""

from django.db.models import QuerySet

from marketplace.ledger import event_texts
from marketplace.models import LicenseEvent


def events_of(product_id: int) -> QuerySet[LicenseEvent]:
    """The product's events, those that are withdrawn included."""
    return LicenseEvent.objects.filter(product=product_id)


def timeline(product_id: int, cloud_id: str, limit: int) -> list[LicenseEvent]:
    """The account's latest events, latest first."""
    events = events_of(product_id).filter(cloud_id=cloud_id)
    return list(events.order_by("-date", "-known_on", "license", "type", "anchor")[:limit])


def describe(event: LicenseEvent) -> str:
    """What happened, as a sentence."""
    return event_texts.describe(event.type, event.details)
