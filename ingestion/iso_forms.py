"""The forms of ISO 8601 that standard libraries print beside the usual one, as UTC times.

``ingestion.timestamps`` reads the usual form itself, and asks here for all others.
"""

import re
from datetime import UTC, date, datetime, time, timedelta

# Hyphens between the parts of the date stand with colons between those of the time, or neither.
# Java's date formats put an offset after a date alone, and historical offsets have seconds. Java
# and JavaScript put the zone's name after the offset, Go its abbreviation and a monotonic clock.
_WITH_DAY = re.compile(
    r"""
    (?:\+0{0,5}(?=\d{4}-))?(?P<year>\d{4})(?P<hyphen>-)?
    (?:
        (?P<month>\d\d)(?(hyphen)-)(?P<day>\d\d)
      | (?P<ordinal>\d{3})
      | W(?P<week>\d\d)(?(hyphen)-)(?P<weekday>\d)
    )
    (?:
        (?(hyphen)[T ]|T)(?P<hour>\d\d)
        (?:(?(hyphen):)(?P<minute>\d\d)(?:(?(hyphen):)(?P<second>\d\d))?)?
        (?:[.,](?P<fraction>\d+))?
    )?
    (?P<zone>
        Z | \ ?(?P<offset>[+-]\d\d(?::?\d\d(?::?\d\d)?)?)
    )?
    (?(zone)
        (?:\[!?[A-Z0-9._+/:-]{1,64}\])?
        (?:\ (?:[A-Z]{1,6}|[+-]\d{2,4}))?
        (?:\ m=[+-]\d{1,20}\.\d{9})?
    )
    (?:\[!?[A-Z0-9_-]{1,64}=[A-Z0-9-]{1,64}\]){0,4}
    """,
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)
_WITHOUT_DAY = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d\d)|-?W(?P<week>\d\d))?", re.ASCII | re.IGNORECASE
)
_HOUR, _MINUTE, _SECOND = 3_600_000_000, 60_000_000, 1_000_000
# A longer fraction is cut: no clock counts as far.
_MAX_FRACTION = 100
_LAST_MOMENT = time(23, 59, 59, 999_999)


def read(text: str) -> tuple[datetime, bool]:
    """The UTC time of *text*, and whether it says which zone it is in. Raises ValueError or
    OverflowError if it is not a time.

    A text without a zone is in UTC. A day, week, month, or year alone is its first moment. A leap
    second is the last microsecond of its day: it neither leaves the day nor overtakes anything.
    """
    match = _WITH_DAY.fullmatch(text) or _WITHOUT_DAY.fullmatch(text)
    if match is None:
        raise ValueError("The text is in no form that we read.")
    parts = match.groupdict()
    midnight = datetime.combine(_day(parts), time.min, UTC)
    moment = midnight + _since_midnight(parts) - _offset(parts.get("offset"))
    if parts.get("second") == "60" and moment.time() != _LAST_MOMENT:
        raise ValueError("Leap seconds are at the end of a UTC day.")
    return moment, parts.get("zone") is not None


def _day(parts: dict[str, str | None]) -> date:
    year = int(parts["year"] or 0)
    if week := parts["week"]:
        return date.fromisocalendar(year, int(week), int(parts.get("weekday") or 1))
    if ordinal := parts.get("ordinal"):
        day = date(year, 1, 1) + timedelta(days=int(ordinal) - 1)
        if day.year != year:
            raise ValueError("The year has no such day.")
        return day
    return date(year, int(parts["month"] or 1), int(parts.get("day") or 1))


def _since_midnight(parts: dict[str, str | None]) -> timedelta:
    """The time of day. The fraction is that of its last part, cut to microseconds."""
    hour, minute, second = (int(parts.get(name) or 0) for name in ("hour", "minute", "second"))
    unit = _SECOND if parts.get("second") else _MINUTE if parts.get("minute") else _HOUR
    digits = (parts.get("fraction") or "0")[:_MAX_FRACTION]
    fraction = int(digits) * unit // 10 ** len(digits)
    if second == 60:
        second, fraction = 59, _SECOND - 1
    since = timedelta(microseconds=hour * _HOUR + minute * _MINUTE + second * _SECOND + fraction)
    if minute > 59 or second > 59 or since > timedelta(days=1):
        raise ValueError("The day has no such time.")
    return since


def _offset(text: str | None) -> timedelta:
    if text is None:
        return timedelta(0)
    digits = text[1:].replace(":", "")
    hours, minutes, seconds = int(digits[:2]), int(digits[2:4] or 0), int(digits[4:] or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError("No zone has such an offset.")
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return -offset if text[0] == "-" else offset
