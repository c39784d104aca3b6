"""Marks of what must be computed again."""

from collections.abc import Collection
from datetime import date
from typing import LiteralString, NamedTuple

from engagement import sql


class Mark(NamedTuple):
    """A user or an account whose scores are out of date; or, with a day, a product whose counts of
    that day and of later ones changed."""

    product_id: int
    user_id: int | None
    account_id: int | None
    day: date | None = None


def user(product_id: int, user_id: int) -> Mark:
    return Mark(product_id, user_id, None)


def account(product_id: int, account_id: int) -> Mark:
    return Mark(product_id, None, account_id)


def since(product_id: int, day: date) -> Mark:
    return Mark(product_id, None, None, day)


_COPY: LiteralString = """
    COPY engagement_stalemark (product_id, user_id, account_id, day) FROM STDIN (FORMAT BINARY)
"""


def mark(marks: Collection[Mark]) -> None:
    """Append the marks, in the caller's transaction: they appear with what made them stale."""
    if marks:
        sql.copy(_COPY, ("int8", "int8", "int8", "date"), marks)
