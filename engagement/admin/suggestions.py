"""The names of traits and events that forms suggest."""

from dataclasses import dataclass
from typing import LiteralString

from engagement.database import sql
from engagement.metric_names import Scope
from engagement.models import EventName

# Of each kind. Other names can be typed.
MAX_SUGGESTIONS = 500
# Trait names come from at most this many users, accounts, and traits.
SUBJECTS_SAMPLED = 500
TRAITS_SAMPLED = 10_000

# The order of an index makes a large table as cheap as a small one. Traits of more than a megabyte
# are older than the limits.
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
_USER_TRAITS = _TRAITS.format(table="engagement_user")
_ACCOUNT_TRAITS = _TRAITS.format(table="engagement_account")


@dataclass(frozen=True)
class Suggestions:
    """Names of user traits, account traits, and events."""

    user_traits: list[str]
    account_traits: list[str]
    events: list[str]


def load_suggestions(product_id: int) -> Suggestions:
    parameters = {
        "product": product_id,
        "subjects": SUBJECTS_SAMPLED,
        "traits": TRAITS_SAMPLED,
        "limit": MAX_SUGGESTIONS,
    }
    events = EventName.objects.filter(product_id=product_id).values_list("name", flat=True)
    return Suggestions(
        [name for (name,) in sql.fetch(_USER_TRAITS, parameters)],
        [name for (name,) in sql.fetch(_ACCOUNT_TRAITS, parameters)],
        list(events[:MAX_SUGGESTIONS]),
    )


def trait_names(product_id: int, scope: Scope, limit: int = 100) -> list[str]:
    """The names of some traits of the product's users or accounts."""
    statement = _USER_TRAITS if scope == "user" else _ACCOUNT_TRAITS
    parameters = {
        "product": product_id,
        "subjects": SUBJECTS_SAMPLED,
        "traits": TRAITS_SAMPLED,
        "limit": limit,
    }
    return [name for (name,) in sql.fetch(statement, parameters)]
