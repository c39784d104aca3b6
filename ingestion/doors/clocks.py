"""When a message in Segment's format happened, corrected for the sender's clock."""

from datetime import datetime
from typing import Any, NamedTuple

from ingestion import timestamps
from ingestion.errors import IngestionError


class SentAt(NamedTuple):
    """The time on the sender's clock when it sent a request."""

    moment: datetime
    has_zone: bool


class Clock(NamedTuple):
    """Our time of receipt, and the sender's time of sending if the batch has it."""

    received_at: datetime
    sent_at: SentAt | None = None


def read_sent_at(value: object) -> SentAt | None:
    """The time of ``sentAt``, or None if it is invalid. That rejects no message."""
    if not isinstance(value, str):
        return None
    try:
        return SentAt(*timestamps.read_iso(value))
    except IngestionError:
        return None


def read_time(value: Any, sent_at: SentAt | None, received_at: datetime) -> datetime:
    """The time of a message's *value*, corrected by the time of sending.

    Raises IngestionError. If only one of the two has a zone, it stays uncorrected: Segment's SDK
    for Flutter sends ``sentAt`` in local time without saying so.
    """
    if isinstance(value, str):
        moment, has_zone = timestamps.read_iso(value)
    else:
        moment, has_zone = timestamps.from_number(value), True
    if sent_at is not None and sent_at.has_zone == has_zone:
        moment = timestamps.correct_clock_skew(moment, sent_at.moment, received_at)
    return timestamps.clamp_to_receipt(moment, received_at)
