"""Destinations and subscriptions, and a clock that a test moves."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from engagement.models import Product, Segment
from engagement.rescoring.rescore import rescore
from notifications.delivery import signing
from notifications.models import Destination, OutboxMessage, Subscription
from notifications.watching.sweep import sweep
from notifications.watching.watches import assign_watch
from tests.engagement.history import NOON


@dataclass
class Clock:
    """The time of a test. Each step is long enough for benchmarks and sweeps to be due."""

    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now

    def step(self, seconds: float = 60) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now


def settle(clock: Clock) -> None:
    """Score what has changed, and sweep."""
    for _ in range(3):
        rescore(clock.step())
    sweep(clock.step())


def a_destination(product: Product, url: str = "https://example.com/hook", **fields: Any) -> Any:
    values = {
        "kind": Destination.Kind.WEBHOOK,
        "name": "CRM",
        "address": url,
        "address_hint": "example.com",
        "signing_secrets": signing.generate_secret(),
        "state": Destination.State.ACTIVE,
        "verified_at": NOON,
        "site_url": "https://eds.example.com",
        **fields,
    }
    return Destination.objects.create(product=product, **values)


def a_segment(product: Product, *conditions: dict[str, Any], **fields: Any) -> Segment:
    return Segment.objects.create(
        workspace=product.workspaces.get(),
        **{"scope": "account", "name": "Paying", "conditions": list(conditions), **fields},
    )


def subscribe(
    destination: Destination, trigger: str = "segment_entered", **fields: Any
) -> Subscription:
    segment = fields.get("segment")
    workspace = segment.workspace if segment else fields.pop("workspace", None)
    subscription = Subscription.objects.create(
        product=destination.product,
        destination=destination,
        trigger=trigger,
        workspace=workspace,
        **{"quiet_hours": 0, **fields},
    )
    assign_watch(subscription)
    return subscription


def outbox_texts() -> list[str]:
    """The titles of all messages in the outbox, the oldest first."""
    return list(OutboxMessage.objects.order_by("pk").values_list("title", flat=True))
