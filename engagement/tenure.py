"""Says when a subject was created, and how many days ago."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

# Traits that say when a user or account was created; the first usable one counts.
CREATED_TRAITS = ("createdAt", "created_at")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Numbers from here on are in milliseconds. In seconds this is after the year 5000; in milliseconds
# it is the spring of 1973.
_MILLISECONDS_FROM = 100_000_000_000
# Eight digits are a date without dashes. More digits are Unix time that was sent as text.
_UNIX_TIME = re.compile(r"[0-9]{9,15}(\.[0-9]{1,9})?", re.ASCII)
_MAX_TEXT_LENGTH = 64


def created_at(traits: Mapping[str, Any], first_seen_at: datetime) -> datetime:
    """When the subject was created, in UTC: what a trait says, or when it was first seen.

    The traits ``createdAt`` and ``created_at`` hold ISO 8601 (in UTC if there is no time zone) or
    Unix time in seconds or milliseconds. Other values are ignored.
    """
    return parse_created_at(traits) or first_seen_at.astimezone(UTC)


def parse_created_at(traits: Mapping[str, Any]) -> datetime | None:
    """When the subject was created according to its traits; None if they do not say."""
    for name in CREATED_TRAITS:
        value = traits.get(name)
        if value is not None and (created_at := parse_time(value)) is not None:
            return created_at
    return None


def tenure_days(created_at: datetime, today: date) -> int:
    """Whole UTC days from the day of creation to *today*; 0 for a day in the future."""
    return max(0, (today - created_at.astimezone(UTC).date()).days)


def parse_time(value: Any) -> datetime | None:
    """The time in UTC that a trait's value says, or None if it is not a time."""
    try:
        if isinstance(value, str):
            return _from_text(value.strip())
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _from_unix_time(value)
    except (ValueError, OverflowError):
        # No date, or one beyond the calendar.
        return None
    return None


def _from_text(text: str) -> datetime | None:
    if len(text) > _MAX_TEXT_LENGTH:
        return None
    if _UNIX_TIME.fullmatch(text):
        return _from_unix_time(float(text))
    parsed = datetime.fromisoformat(text)
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)


def _from_unix_time(number: float) -> datetime | None:
    """The time; None for zero and negative numbers, with which senders say "unknown"."""
    if not number > 0:
        return None
    milliseconds = number if number >= _MILLISECONDS_FROM else number * 1000
    return _EPOCH + timedelta(milliseconds=milliseconds)
