"""Days, numbers, and percentages as the sentences of insights write them."""

from collections.abc import Sequence
from datetime import date


def format_day(day: date) -> str:
    return f"{day.day} {day:%b %Y}"


def format_days(number: int) -> str:
    return "1 day" if number == 1 else f"{number:,} days"


def format_in_days(number: int) -> str:
    return {0: "today", 1: "tomorrow"}.get(number, f"in {number:,} days")


def format_days_ago(number: int) -> str:
    return {0: "today", 1: "yesterday"}.get(number, f"{number:,} days ago")


def format_number(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:,}"


def format_percent(share: float) -> str:
    """The share in percent. A part is never shown as 0% or 100%."""
    if 0 < share < 0.01:
        return "less than 1%"
    if 0.99 < share < 1:
        return "more than 99%"
    return f"{100 * share:.0f}%"


def join_texts(items: Sequence[str]) -> str:
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"
