"""Locks in the database that say which worker is doing what. A crash releases them.

A worker that takes several takes them in this order: the row of its job (``core.jobs``), scoring or
reattribution, products, users, accounts.

The lock on a product keeps recording apart from forgetting and deletion. Each transaction that
records messages first takes it with ``share_lock_products``. A transaction that forgets a subject
or deletes a product takes it with ``lock_product``, which waits for all of these and lets none
start. So a recording sees either nothing or all of what the other transaction did.
"""

from collections.abc import Collection
from typing import LiteralString

from core.database import nodes, sql

# Any numbers that no other advisory lock of the service uses.
SCORING = 0x5C0FE
REATTRIBUTION = 0x5C0FF
CLAIMING = 0xC1A1

_TRY: LiteralString = "SELECT pg_try_advisory_xact_lock(%(class)s, %(product)s::integer)"
_WAIT: LiteralString = "SELECT pg_advisory_xact_lock(%(class)s, %(product)s::integer)::text"


def try_lock_scoring(product_id: int) -> bool:
    """Try to be the only transaction that scores the product. Returns whether it is: False, too,
    while its node is missing."""
    return product_id not in nodes.missing_products() and _try(SCORING, product_id % 2**31)


def lock_scoring(product_id: int) -> None:
    """Wait until no other transaction scores the product; none starts until this one ends."""
    sql.fetch(_WAIT, {"class": SCORING, "product": product_id % 2**31})


def lock_claiming() -> None:
    """Wait until no other transaction claims messages; none starts until this one ends."""
    sql.fetch(_WAIT, {"class": CLAIMING, "product": 0})


def try_lock_reattribution() -> bool:
    """Try to be the only transaction that moves events in the background. Returns whether it is."""
    return _try(REATTRIBUTION, 0)


def _try(lock_class: int, product: int) -> bool:
    ((is_locked,),) = sql.fetch(_TRY, {"class": lock_class, "product": product})
    return bool(is_locked)


_SHARE_LOCK_PRODUCTS: LiteralString = """
    SELECT id FROM engagement_product
    WHERE id = ANY(%(products)b::bigint[]) AND deletion_requested_at IS NULL
    ORDER BY id
    FOR KEY SHARE
"""
_LOCK_PRODUCT: LiteralString = """
    SELECT id FROM engagement_product WHERE id = %(product)s FOR UPDATE
"""


def share_lock_products(product_ids: Collection[int]) -> set[int]:
    """Lock those of the products that are not being deleted. Returns their ids.

    Until this transaction ends, no other one deletes them or forgets a user or account of theirs.
    """
    if not product_ids:
        return set()
    return {id for (id,) in sql.fetch(_SHARE_LOCK_PRODUCTS, {"products": list(product_ids)})}


def lock_product(product_id: int) -> bool:
    """Wait until no other transaction shares the product's lock; none takes it until this one ends.

    Returns whether the product exists.
    """
    return bool(sql.fetch(_LOCK_PRODUCT, {"product": product_id}))
