"""License events of a test's choosing."""

from datetime import UTC, date, datetime
from typing import Any

from engagement.models import Product
from marketplace.models import LicenseEvent

RECORDED_AT = datetime(2026, 3, 1, tzinfo=UTC)


def add_event(product: Product, type: str, day: str | date, **fields: Any) -> LicenseEvent:
    """An event of the license E-1 on the site site-a, unless *fields* say otherwise."""
    on = date.fromisoformat(str(day))
    values: dict[str, Any] = {
        "license": "E-1",
        "anchor": str(on),
        "cloud_id": "site-a",
        "date": on,
        "known_on": on,
        "details": {},
        "sources": ["sync"],
        "recorded_at": RECORDED_AT,
        "changed_at": RECORDED_AT,
        **fields,
    }
    return LicenseEvent.objects.create(product=product, type=type, **values)
