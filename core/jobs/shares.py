"""How much of the time work may take: at once, and over time."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta


def time_limit(seconds: float) -> Callable[[], bool]:
    """A function that returns whether more than *seconds* have passed since this call."""
    deadline = time.monotonic() + seconds
    return lambda: time.monotonic() > deadline


def rest_until(ended_at: datetime, seconds: float, share: float) -> datetime:
    """When work that took *seconds* may run again, if it may take *share* (0 to 1) of the time."""
    return ended_at + timedelta(seconds=seconds / share)
