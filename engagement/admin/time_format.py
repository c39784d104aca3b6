"""Times as people read them."""

from datetime import datetime, timedelta

from django.utils.formats import localize
from django.utils.html import format_html
from django.utils.safestring import SafeString

# Units, the largest first. Days go a long way: "63 days ago" says more than "2 months ago".
_UNITS = [
    ("year", timedelta(days=365)),
    ("day", timedelta(days=1)),
    ("hour", timedelta(hours=1)),
    ("minute", timedelta(minutes=1)),
]


def format_ago(at: datetime, now: datetime) -> SafeString:
    """How long ago it was, with the exact time for whoever points at it."""
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>', at.isoformat(), localize(at), _ago(now - at)
    )


def _ago(past: timedelta) -> str:
    for unit, length in _UNITS:
        if past >= length:
            number = past // length
            return f"1 {unit} ago" if number == 1 else f"{number} {unit}s ago"
    return "just now"
