"""The admin pages of record destinations and their runs."""

from destinations.admin import destinations, runs

__all__ = ["destinations", "runs"]
