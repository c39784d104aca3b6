"""Locks in the database that say who is at work, freed by a crash.

Whoever takes several takes them in this order: the right to score a product or to move events, the
product, users, accounts.
"""

from collections.abc import Collection
from typing import LiteralString

from engagement.database import sql

# Any numbers that no other advisory lock of the service uses.
SCORING = 0x5C0FE
REATTRIBUTION = 0x5C0FF
CLAIMING = 0xC1A1

_TRY: LiteralString = "SELECT pg_try_advisory_xact_lock(%(class)s, %(product)s::integer)"
_WAIT: LiteralString = "SELECT pg_advisory_xact_lock(%(class)s, %(product)s::integer)::text"


def try_lock_scoring(product_id: int) -> bool:
    """Whether this transaction is now the one that scores the product, until it ends."""
    ((mine,),) = sql.fetch(_TRY, {"class": SCORING, "product": product_id % 2**31})
    return bool(mine)


def lock_scoring(product_id: int) -> None:
    """Wait for whoever scores the product, and let nobody begin until this transaction ends."""
    sql.fetch(_WAIT, {"class": SCORING, "product": product_id % 2**31})


def try_lock_reattribution() -> bool:
    """Whether this transaction is now the one that moves events in the background, until it
    ends."""
    ((mine,),) = sql.fetch(_TRY, {"class": REATTRIBUTION, "product": 0})
    return bool(mine)


_WAIT_TO_CLAIM: LiteralString = "SELECT pg_advisory_xact_lock(%(class)s, 0)::text"


def lock_claiming() -> None:
    """Wait for whoever chooses messages to record, and let nobody choose until this transaction
    ends."""
    sql.fetch(_WAIT_TO_CLAIM, {"class": CLAIMING})


_HOLD_PRODUCTS: LiteralString = """
    SELECT id FROM engagement_product
    WHERE id = ANY(%(products)b::bigint[]) AND deletion_requested_at IS NULL
    ORDER BY id
    FOR KEY SHARE
"""
_CLOSE_PRODUCT: LiteralString = """
    SELECT id FROM engagement_product WHERE id = %(product)s FOR UPDATE
"""


def share_lock_products(product_ids: Collection[int]) -> set[int]:
    """Of these products those that are there to stay: until this transaction ends nobody of them
    is forgotten, and none of them is deleted."""
    if not product_ids:
        return set()
    return {id for (id,) in sql.fetch(_HOLD_PRODUCTS, {"products": list(product_ids)})}


def lock_product(product_id: int) -> bool:
    """Wait for whoever holds the product, and let nobody hold it until this transaction ends;
    whether there is such a product."""
    return bool(sql.fetch(_CLOSE_PRODUCT, {"product": product_id}))
