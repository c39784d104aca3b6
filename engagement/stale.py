"""Marks of what must be scored again."""

from collections.abc import Collection
from typing import LiteralString, NamedTuple

from engagement import sql


class Mark(NamedTuple):
    """A user or an account whose scores are out of date."""

    product_id: int
    user_id: int | None
    account_id: int | None


def user(product_id: int, user_id: int) -> Mark:
    return Mark(product_id, user_id, None)


def account(product_id: int, account_id: int) -> Mark:
    return Mark(product_id, None, account_id)


_COPY: LiteralString = """
    COPY engagement_stalemark (product_id, user_id, account_id) FROM STDIN (FORMAT BINARY)
"""


def mark(marks: Collection[Mark]) -> None:
    """Append the marks, in the caller's transaction: they appear with what made them stale."""
    if marks:
        sql.copy(_COPY, ("int8", "int8", "int8"), marks)
