"""When a message is first sent: at once, or with the next digest."""

from datetime import UTC, datetime, time, timedelta

from notifications.models import Destination

# Digests are sent at this hour, UTC; those of a week on Mondays.
DIGEST_HOUR = 7


def first_attempt(destination: Destination, now: datetime) -> datetime:
    if destination.digest == Destination.Digest.NONE:
        return now
    at = datetime.combine(now.astimezone(UTC).date(), time(DIGEST_HOUR), UTC)
    if at <= now:
        at += timedelta(days=1)
    if destination.digest == Destination.Digest.WEEKLY:
        at += timedelta(days=-at.weekday() % 7)
    return at
