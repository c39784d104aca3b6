"""The UTC day that a trait says, for texts that PostgreSQL reads like Python.

Filters compare such days in SQL (``engagement.rules.trait_filters.TraitDay``), and sentences say
them. Both use these patterns, so that they never disagree.
"""

import re
from datetime import date
from typing import Any

from engagement.tenure import parse_time

MAX_TEXT_LENGTH = 64
# Forms of ISO 8601 and of Unix time that parse_time() reads. Left out are forms that PostgreSQL
# reads differently, such as weeks, and years that are no dates of licenses.
ISO_TIME = (
    "^ *[1-8][0-9]{3}([0-9]{4}|-[0-9]{2}-[0-9]{2}("
    "[T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]{1,9})?)?"
    "(Z|[-+](0[0-9]|1[0-5])(:?[0-5][0-9])?)?)?) *$"
)
UNIX_TIME = "^ *[0-9]{9,15}([.][0-9]{1,9})? *$"


def parse_trait_day(value: Any) -> date | None:
    """The UTC day of a trait that is a date or a time, or None."""
    if isinstance(value, str) and not _is_time(value):
        return None
    time = parse_time(value)
    return time.date() if time else None


def _is_time(text: str) -> bool:
    return len(text) <= MAX_TEXT_LENGTH and any(
        re.fullmatch(pattern, text) for pattern in (ISO_TIME, UNIX_TIME)
    )
