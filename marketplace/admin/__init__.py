"""The marketplace connection in the admin."""

from marketplace.admin import account_licenses, connections

__all__ = ["account_licenses", "connections"]
