"""The admin pages of scheduled exports and their runs."""

from exports.admin import exports, runs

__all__ = ["exports", "runs"]
