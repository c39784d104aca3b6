"""Ids as text, in addresses and on command lines."""

# PostgreSQL's ids have at most 19 digits.
MAX_DIGITS = 18


def parse_id(text: str) -> int | None:
    """The number, if it is one that PostgreSQL's ids may have."""
    is_id = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    return int(text) if is_id else None
