"""Marks of what must be computed again."""

from collections.abc import Collection, Iterable
from datetime import date
from typing import LiteralString, NamedTuple

from engagement.database import sql
from engagement.models.activity import NO_ACCOUNT


class RescoreItem(NamedTuple):
    """A user or an account whose scores are out of date; or, with a day, a product whose counts of
    that day and of later ones changed."""

    product_id: int
    user_id: int | None
    account_id: int | None
    day: date | None = None


class ChangedCount(NamedTuple):
    """Whose counts changed; ``account_id`` is 0 for counts in no account."""

    product_id: int
    user_id: int
    account_id: int


def rescore_user(product_id: int, user_id: int) -> RescoreItem:
    return RescoreItem(product_id, user_id, None)


def rescore_account(product_id: int, account_id: int) -> RescoreItem:
    return RescoreItem(product_id, None, account_id)


def rescore_days_since(product_id: int, day: date) -> RescoreItem:
    return RescoreItem(product_id, None, None, day)


def rescore_changed_counts(touched: Iterable[ChangedCount]) -> set[RescoreItem]:
    """The marks of everybody whose counts changed."""
    marks = set()
    for product_id, user_id, account_id in touched:
        marks.add(rescore_user(product_id, user_id))
        if account_id != NO_ACCOUNT:
            marks.add(rescore_account(product_id, account_id))
    return marks


_COPY: LiteralString = """
    COPY engagement_stalemark (product_id, user_id, account_id, day) FROM STDIN (FORMAT BINARY)
"""


def enqueue(marks: Collection[RescoreItem]) -> None:
    """Append the marks, in the caller's transaction: they appear with what made them stale."""
    if marks:
        sql.copy(_COPY, ("int8", "int8", "int8", "date"), marks)
