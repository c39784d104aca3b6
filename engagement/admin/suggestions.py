"""The names that a product's senders use, for forms to suggest."""

from dataclasses import dataclass
from typing import LiteralString

from engagement import sql
from engagement.models import EventName

# So many event names are suggested; any other can be typed.
SUGGESTED_EVENTS = 500
# The names of traits are taken from so many users and accounts.
LOOKED_AT = 500

# In the order of an index, so that a large table costs no more than a small one.
_TRAITS: LiteralString = """
    SELECT DISTINCT jsonb_object_keys(first.traits) FROM (
        SELECT traits FROM {table} WHERE product_id = %(product)s
        ORDER BY external_id LIMIT %(limit)s) first
    ORDER BY 1
"""
_OF_USERS = _TRAITS.format(table="engagement_user")
_OF_ACCOUNTS = _TRAITS.format(table="engagement_account")


@dataclass(frozen=True)
class Suggestions:
    """Names of traits of users and of accounts, and of events."""

    user_traits: list[str]
    account_traits: list[str]
    events: list[str]


def suggestions(product_id: int) -> Suggestions:
    looked_at = {"product": product_id, "limit": LOOKED_AT}
    events = EventName.objects.filter(product_id=product_id).values_list("name", flat=True)
    return Suggestions(
        [name for (name,) in sql.fetch(_OF_USERS, looked_at)],
        [name for (name,) in sql.fetch(_OF_ACCOUNTS, looked_at)],
        list(events[:SUGGESTED_EVENTS]),
    )
