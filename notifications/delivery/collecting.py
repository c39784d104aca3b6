"""When a message is first sent: at once, or with all others of its day or week."""

from datetime import UTC, datetime, time, timedelta

from notifications.models import Destination

# Collected messages are sent at this hour, UTC; those of a week on Mondays.
COLLECTED_HOUR = 7


def first_attempt(destination: Destination, now: datetime) -> datetime:
    if destination.digest == Destination.Digest.NONE:
        return now
    at = datetime.combine(now.astimezone(UTC).date(), time(COLLECTED_HOUR), UTC)
    if at <= now:
        at += timedelta(days=1)
    if destination.digest == Destination.Digest.WEEKLY:
        at += timedelta(days=-at.weekday() % 7)
    return at
