"""How long work rests so that it takes no more than its share of the time."""

from datetime import datetime, timedelta


def rest_until(ended_at: datetime, seconds: float, share: float) -> datetime:
    """When work that took *seconds* may run again, if it may take *share* (0 to 1) of the time."""
    return ended_at + timedelta(seconds=seconds / share)
