"""The notices before a key or token expires."""

from datetime import datetime, timedelta
from typing import NamedTuple

from django.utils.formats import date_format

# How long before the end a notice says so, and from when on it is urgent.
NOTICE_BEFORE, URGENT_BEFORE = timedelta(days=30), timedelta(days=7)


class ExpiryNotice(NamedTuple):
    """That something expires soon, or has expired. *level* is warning or bad."""

    level: str
    text: str


def describe(expires_at: datetime | None, now: datetime) -> ExpiryNotice | None:
    """The notice, from ``NOTICE_BEFORE`` on."""
    if expires_at is None or expires_at - now > NOTICE_BEFORE:
        return None
    on = date_format(expires_at, "DATE_FORMAT")
    if expires_at <= now:
        return ExpiryNotice("bad", f"Expired on {on}")
    days = (expires_at - now).days
    level = "bad" if expires_at - now <= URGENT_BEFORE else "warning"
    when = f"in {days} day{'s' if days > 1 else ''}" if days else "within a day"
    return ExpiryNotice(level, f"Expires {when}, on {on}")
