"""Marks of what must be computed again."""

from collections.abc import Collection, Iterable
from datetime import date
from typing import LiteralString, NamedTuple

from engagement.database import sql
from engagement.models.activity import NO_ACCOUNT


class Mark(NamedTuple):
    """A user or an account whose scores are out of date; or, with a day, a product whose counts of
    that day and of later ones changed."""

    product_id: int
    user_id: int | None
    account_id: int | None
    day: date | None = None


class Touched(NamedTuple):
    """Whose counts changed; ``account_id`` is 0 for counts in no account."""

    product_id: int
    user_id: int
    account_id: int


def user(product_id: int, user_id: int) -> Mark:
    return Mark(product_id, user_id, None)


def account(product_id: int, account_id: int) -> Mark:
    return Mark(product_id, None, account_id)


def since(product_id: int, day: date) -> Mark:
    return Mark(product_id, None, None, day)


def counts(touched: Iterable[Touched]) -> set[Mark]:
    """The marks of everybody whose counts changed."""
    marks = set()
    for product_id, user_id, account_id in touched:
        marks.add(user(product_id, user_id))
        if account_id != NO_ACCOUNT:
            marks.add(account(product_id, account_id))
    return marks


_COPY: LiteralString = """
    COPY engagement_stalemark (product_id, user_id, account_id, day) FROM STDIN (FORMAT BINARY)
"""


def mark(marks: Collection[Mark]) -> None:
    """Append the marks, in the caller's transaction: they appear with what made them stale."""
    if marks:
        sql.copy(_COPY, ("int8", "int8", "int8", "date"), marks)
