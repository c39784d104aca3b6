"""When a message's event happened: timestamp formats, and clocks that run fast."""

import re
from datetime import UTC, datetime, timedelta
from typing import cast

from ingestion import iso_forms
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

# What nearly all senders write. datetime.fromisoformat reads more than this, and more with each
# Python version, so ingestion.iso_forms reads everything else.
_USUAL_SHAPE = re.compile(
    r"\d{4}-\d\d-\d\d"
    r"(?:[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:Z|[+-]\d\d(?::?[0-5]\d)?)?)?",
    re.ASCII,
)


def from_iso(text: str | None, received_at: datetime) -> datetime:
    """The UTC time of an ISO 8601 *text*, or *received_at* if there is none."""
    if text is None:
        return received_at
    return clamp_to_receipt(read_iso(text)[0], received_at)


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
    """The UTC time of *text*, as ``read_iso`` reads it. Raises IngestionError."""
    return read_iso(text)[0]


def read_iso(text: str) -> tuple[datetime, bool]:
    """The UTC time of *text*, and whether it says which zone it is in. Raises IngestionError.

    The text is in any form of ISO 8601 that docs/sending-data.md lists. A fraction of any length
    is cut to microseconds. A text without a zone is in UTC, and a date alone is its midnight.
    """
    try:
        if _USUAL_SHAPE.fullmatch(text):
            moment = datetime.fromisoformat(text)
            has_zone = moment.tzinfo is not None
            if not has_zone:
                moment = moment.replace(tzinfo=UTC)
            elif moment.tzinfo is not UTC:
                moment = moment.astimezone(UTC)
        else:
            moment, has_zone = iso_forms.read(text)
    except (ValueError, OverflowError):
        raise invalid_timestamp(ISO_RULE) from None
    if moment < EPOCH:
        raise invalid_timestamp(ISO_RULE)
    return moment, has_zone


def invalid_timestamp(rule: str) -> IngestionError:
    return IngestionError(400, "invalid_timestamp", rule, "timestamp")
