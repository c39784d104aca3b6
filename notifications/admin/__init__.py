"""The admin pages of subscriptions, destinations, and the delivery log."""

from notifications.admin import destinations, log, subscriptions

__all__ = ["destinations", "log", "subscriptions"]
