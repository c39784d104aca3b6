"""The rescore queue: what must be scored again."""

from collections.abc import Collection, Iterable
from datetime import date
from typing import LiteralString, NamedTuple

from core.database import sql
from engagement.models import RescoreRequest
from engagement.models.activity import NO_ACCOUNT

AccountChange = RescoreRequest.AccountChange


class RescoreItem(NamedTuple):
    """A user or an account to score again.

    With a day and neither of them: the product's counts changed on that day or later ones.
    ``account_change`` is an ``AccountChange``.
    """

    product_id: int
    user_id: int | None
    account_id: int | None
    day: date | None = None
    account_change: int | None = None


class ChangedCount(NamedTuple):
    """The user and the account of a daily count that changed; NO_ACCOUNT for none."""

    product_id: int
    user_id: int
    account_id: int


def rescore_user(product_id: int, user_id: int) -> RescoreItem:
    return RescoreItem(product_id, user_id, None)


def rescore_account(product_id: int, account_id: int, change: int | None = None) -> RescoreItem:
    return RescoreItem(product_id, None, account_id, account_change=change)


def rescore_days_since(product_id: int, day: date) -> RescoreItem:
    return RescoreItem(product_id, None, None, day)


def rescore_changed_counts(counts: Iterable[ChangedCount]) -> set[RescoreItem]:
    """An item for each user and account whose counts changed."""
    items = set()
    for product_id, user_id, account_id in counts:
        items.add(rescore_user(product_id, user_id))
        if account_id != NO_ACCOUNT:
            items.add(rescore_account(product_id, account_id))
    return items


_COPY: LiteralString = """
    COPY engagement_stalemark (product_id, user_id, account_id, day, account_change)
    FROM STDIN (FORMAT BINARY)
"""


def enqueue(items: Collection[RescoreItem]) -> None:
    """Append the items in the caller's transaction, so that they commit with their cause."""
    if items:
        sql.copy(_COPY, ("int8", "int8", "int8", "date", "int2"), items)
