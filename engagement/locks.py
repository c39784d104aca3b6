"""Locks in the database that say who is at work, freed by a crash."""

from typing import LiteralString

from engagement import sql

# Any number that no other advisory lock of the service uses.
SCORING = 0x5C0FE

_TRY: LiteralString = "SELECT pg_try_advisory_xact_lock(%(class)s, %(product)s::integer)"


def hold_scoring(product_id: int) -> bool:
    """Whether this transaction is now the one that scores the product, until it ends."""
    ((mine,),) = sql.fetch(_TRY, {"class": SCORING, "product": product_id % 2**31})
    return bool(mine)
