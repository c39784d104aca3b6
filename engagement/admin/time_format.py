"""Times relative to now."""

from datetime import datetime, timedelta

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
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>',
        at.isoformat(),
        localize(at),
        _describe_age(now - at),
    )


def _describe_age(age: timedelta) -> str:
    for unit, length in _UNITS:
        if age >= length:
            number = age // length
            return f"1 {unit} ago" if number == 1 else f"{number} {unit}s ago"
    return "just now"
