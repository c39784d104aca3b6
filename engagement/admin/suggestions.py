"""The names that a product's senders use, for forms to suggest."""

from dataclasses import dataclass
from typing import LiteralString

from engagement.database import sql
from engagement.models import EventName

# So many names are suggested of each kind; any other can be typed.
MAX_SUGGESTIONS = 500
# The names of traits are taken from so many users and accounts, and from so many of their traits.
SUBJECTS_SAMPLED = 500
TRAITS_SAMPLED = 10_000

# In the order of an index, so that a large table costs no more than a small one. Traits that take a
# megabyte are of somebody who had them before there were limits.
_TRAITS: LiteralString = """
    SELECT DISTINCT name FROM (
        SELECT jsonb_object_keys(first.traits) AS name FROM (
            SELECT traits FROM {table} WHERE product_id = %(product)s
            ORDER BY external_id LIMIT %(subjects)s) first
        WHERE pg_column_size(first.traits) < 1024 * 1024
        LIMIT %(traits)s) names
    ORDER BY name
    LIMIT %(limit)s
"""
_OF_USERS = _TRAITS.format(table="engagement_user")
_OF_ACCOUNTS = _TRAITS.format(table="engagement_account")


@dataclass(frozen=True)
class Suggestions:
    """Names of traits of users and of accounts, and of events."""

    user_traits: list[str]
    account_traits: list[str]
    events: list[str]


def load_suggestions(product_id: int) -> Suggestions:
    looked_at = {
        "product": product_id,
        "subjects": SUBJECTS_SAMPLED,
        "traits": TRAITS_SAMPLED,
        "limit": MAX_SUGGESTIONS,
    }
    events = EventName.objects.filter(product_id=product_id).values_list("name", flat=True)
    return Suggestions(
        [name for (name,) in sql.fetch(_OF_USERS, looked_at)],
        [name for (name,) in sql.fetch(_OF_ACCOUNTS, looked_at)],
        list(events[:MAX_SUGGESTIONS]),
    )
