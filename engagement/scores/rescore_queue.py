"""The rescore queue: what must be scored again."""

from collections.abc import Collection
from datetime import date
from typing import LiteralString, NamedTuple

from core.database import sql
from engagement.models import RescoreRequest

# The day of a request about a subject of which no count changed.
UNCHANGED = date.max

AccountChange = RescoreRequest.AccountChange


class RescoreItem(NamedTuple):
    """A user or an account to score again.

    With a day: what counts of it changed on that day or later ones, and on no earlier day. Without
    one it may have changed on any. A day with neither of them says so of the product.
    ``account_change`` is an ``AccountChange``.
    """

    product_id: int
    user_id: int | None
    account_id: int | None
    day: date | None = None
    account_change: int | None = None


def rescore_user(product_id: int, user_id: int, day: date | None = None) -> RescoreItem:
    return RescoreItem(product_id, user_id, None, day)


def rescore_account(
    product_id: int, account_id: int, day: date | None = None, change: int | None = None
) -> RescoreItem:
    return RescoreItem(product_id, None, account_id, day, change)


def rescore_days_since(product_id: int, day: date) -> RescoreItem:
    return RescoreItem(product_id, None, None, day)


_COPY: LiteralString = """
    COPY engagement_stalemark (product_id, user_id, account_id, day, account_change)
    FROM STDIN (FORMAT BINARY)
"""


def enqueue(items: Collection[RescoreItem]) -> None:
    """Append the items in the caller's transaction, so that they commit with their cause."""
    if items:
        sql.copy(_COPY, ("int8", "int8", "int8", "date", "int2"), items)
