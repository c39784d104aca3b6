"""What people want to be told, where to, what is to be told, and what became of it."""

from notifications.models.destinations import Destination
from notifications.models.outbox import Delivery, OutboxMessage
from notifications.models.subscriptions import Subscription, Watch, WatchedMember

__all__ = [
    "Delivery",
    "Destination",
    "OutboxMessage",
    "Subscription",
    "Watch",
    "WatchedMember",
]
