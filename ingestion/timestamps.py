"""When a message's event happened: timestamp formats, and clocks that run fast."""

import re
from datetime import UTC, datetime, timedelta
from typing import cast

from ingestion.errors import IngestionError

# A client's clock may run this far ahead of ours.
CLOCK_TOLERANCE = timedelta(minutes=5)
# A later timestamp becomes the time of receipt minus this offset. A message without a timestamp
# gets the time of receipt itself, so the log can tell the two apart without an extra column.
FUTURE_OFFSET = timedelta(microseconds=1)

ISO_RULE = (
    "timestamp must be an ISO 8601 date and time such as 2026-09-24T10:11:12Z, "
    "between the years 1970 and 9999."
)
MILLISECONDS_RULE = (
    "timestamp must be Unix time in milliseconds, an integer such as 1790244672000, "
    "between the years 1970 and 9999."
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MILLISECOND = 253_402_300_799_999
# The years 2000 to 2100.
PLAUSIBLE_SECONDS = range(946_684_800, 4_102_444_801)

# Numbers below are Unix seconds, up to the year 5138. Milliseconds reach them in March 1973.
FIRST_MILLISECONDS = 100_000_000_000

# datetime.fromisoformat accepts more than we promise, and more with each Python version: week
# dates, mixed forms, any character between date and time, 24:00, and offsets with seconds.
_ISO_SHAPE = re.compile(
    r"\d{4}-\d\d-\d\d"
    r"(?:[T ](?:[01]\d|2[0-3]):\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d(?::?[0-5]\d)?)?)?",
    re.ASCII,
)
# Less common: lower-case letters, a comma before the fraction, and the basic form.
_OTHER_ISO_SHAPE = re.compile(
    r"\d{4}-\d\d-\d\d"
    r"(?:[T ](?:[01]\d|2[0-3]):\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d(?::?[0-5]\d)?)?)?"
    r"|\d{8}(?:T(?:[01]\d|2[0-3])\d\d(?:\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d(?::?[0-5]\d)?)?)?",
    re.ASCII,
)
_OFFSET = re.compile(r"[+-]\d\d(?::?\d\d)?\Z", re.ASCII)
# The characters of a date, in which an offset cannot be.
_DATE_LENGTH = 10


def from_iso(text: str | None, received_at: datetime) -> datetime:
    """The UTC time of an ISO 8601 *text*, or *received_at* if there is none."""
    if text is None:
        return received_at
    return clamp_to_receipt(parse_iso(text), received_at)


def from_milliseconds(milliseconds: int | None, received_at: datetime) -> datetime:
    """The UTC time of Unix *milliseconds*, or *received_at* if there are none."""
    if milliseconds is None:
        return received_at
    if not 0 <= milliseconds <= LAST_MILLISECOND:
        raise invalid_timestamp(MILLISECONDS_RULE)
    return clamp_to_receipt(EPOCH + timedelta(milliseconds=milliseconds), received_at)


def from_number(number: object) -> datetime:
    """The UTC time of Unix seconds or milliseconds, told apart by size. Raises IngestionError."""
    if (
        type(number) not in (int, float)
        or not 0 <= (value := cast(float, number)) <= LAST_MILLISECOND
    ):
        raise invalid_timestamp(ISO_RULE)
    in_seconds = value < FIRST_MILLISECONDS
    return EPOCH + (timedelta(seconds=value) if in_seconds else timedelta(milliseconds=value))


def has_zone(text: str) -> bool:
    """Whether the valid timestamp *text* says which zone it is in."""
    return text[-1:] in ("Z", "z") or _OFFSET.search(text, _DATE_LENGTH) is not None


def clamp_to_receipt(moment: datetime, received_at: datetime) -> datetime:
    """*moment*, or the time of receipt if *moment* is beyond the clock tolerance."""
    return received_at - FUTURE_OFFSET if moment - received_at > CLOCK_TOLERANCE else moment


def was_clamped(moment: datetime, received_at: datetime) -> bool:
    """Whether ``clamp_to_receipt`` replaced the original timestamp by *moment*."""
    return received_at - moment == FUTURE_OFFSET


def looks_like_seconds(moment: datetime) -> bool:
    """Whether *moment* comes from Unix seconds that were read as milliseconds."""
    return (moment - EPOCH) // timedelta(milliseconds=1) in PLAUSIBLE_SECONDS


def correct_clock_skew(moment: datetime, sent_at: datetime, received_at: datetime) -> datetime:
    """*moment*, corrected for a sender whose clock showed *sent_at* at the time of receipt.

    Segment's rule: received - (sentAt - timestamp). If the result is before 1970, the clock is too
    wrong to be useful, and *moment* stays as it is.
    """
    try:
        corrected = received_at - (sent_at - moment)
    except OverflowError:
        return moment
    return moment if corrected < EPOCH else corrected


def parse_iso(text: str) -> datetime:
    """The UTC time of *text*, in the extended or basic form. Raises IngestionError.

    Seconds are optional. A fraction of any length is cut to microseconds. A text without a zone is
    in UTC, and a date alone is its midnight. Leap seconds and 24:00 are invalid.
    """
    if not _ISO_SHAPE.fullmatch(text):
        text = text.upper()
        if not _OTHER_ISO_SHAPE.fullmatch(text):
            raise invalid_timestamp(ISO_RULE)
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        elif moment.tzinfo is not UTC:
            moment = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise invalid_timestamp(ISO_RULE) from None
    if moment < EPOCH:
        raise invalid_timestamp(ISO_RULE)
    return moment


def invalid_timestamp(rule: str) -> IngestionError:
    return IngestionError(400, "invalid_timestamp", rule, "timestamp")
