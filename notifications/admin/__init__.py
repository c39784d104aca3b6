"""The admin pages of subscriptions, digests, destinations, and the delivery log."""

from notifications.admin import destinations, digests, log, subscriptions

__all__ = ["destinations", "digests", "log", "subscriptions"]
