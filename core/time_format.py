"""Times relative to now."""

from datetime import UTC, datetime, timedelta

from django.utils import timezone
from django.utils.formats import localize
from django.utils.html import format_html
from django.utils.safestring import SafeString

# Largest first. There are no months: "63 days ago" says more than "2 months ago".
_UNITS = [
    ("year", timedelta(days=365)),
    ("day", timedelta(days=1)),
    ("hour", timedelta(hours=1)),
    ("minute", timedelta(minutes=1)),
]


def format_ago(at: datetime, now: datetime) -> SafeString:
    """How long ago it was, with the exact time in the tooltip."""
    distance = _describe(at, now)
    return _time_element(at, f"{distance} ago" if distance else "just now")


def format_until(at: datetime, now: datetime) -> SafeString:
    """How long it takes until then, with the exact time in the tooltip."""
    distance = _describe(now, at)
    return _time_element(at, f"in {distance}" if distance else "in a moment")


def format_exact(at: datetime) -> str:
    """The time with its zone: that of the login who reads the page."""
    return str(localize(timezone.localtime(at)))


def _time_element(at: datetime, text: str) -> SafeString:
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', at.isoformat(), format_exact(at), text
    )


def _describe(earlier: datetime, later: datetime) -> str:
    """The distance in its largest unit. Empty if it is less than a minute.

    From a day on, it counts the UTC days between both dates, as insights and scores do.
    """
    distance = later - earlier
    if distance >= timedelta(days=1):
        distance = timedelta(
            days=(later.astimezone(UTC).date() - earlier.astimezone(UTC).date()).days
        )
    for unit, length in _UNITS:
        if distance >= length:
            number = distance // length
            return f"1 {unit}" if number == 1 else f"{number} {unit}s"
    return ""
