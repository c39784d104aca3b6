"""The marketplace connection in the admin."""

from marketplace.admin import connections

__all__ = ["connections"]
