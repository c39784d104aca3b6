"""Subscriptions, destinations, messages to send, and what became of them."""

from notifications.models.destinations import Destination
from notifications.models.digests import Digest, DigestIssue
from notifications.models.outbox import Delivery, OutboxMessage
from notifications.models.subscriptions import Subscription, Watch, WatchedMember

__all__ = [
    "Delivery",
    "Destination",
    "Digest",
    "DigestIssue",
    "OutboxMessage",
    "Subscription",
    "Watch",
    "WatchedMember",
]
