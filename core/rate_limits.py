"""A limit of actions a minute for each sender or other key, within one process."""

import math
import time
from collections.abc import Callable, Hashable

# Senders that are remembered. With more, all of them start again.
MAX_SENDERS = 10_000
MINUTE = 60.0


class RateLimit:
    """Allows *at_once* requests, by default *per_minute*, which come back evenly, *per_minute* in a
    minute."""

    def __init__(
        self,
        per_minute: float,
        clock: Callable[[], float] | None = None,
        *,
        at_once: int | None = None,
    ) -> None:
        self._cost, self._clock = MINUTE / per_minute, clock or time.monotonic
        self._at_once = int(per_minute) if at_once is None else at_once
        # When the sender has all requests again.
        self._full_at: dict[Hashable, float] = {}

    def take(self, sender: Hashable, requests: int) -> int:
        """Count up to as many requests as are allowed now. Returns their number."""
        now = self._clock()
        full_at = max(self._full_at.get(sender, now), now)
        allowed = int(self._at_once - (full_at - now) / self._cost + 1e-9)
        number = min(requests, allowed)
        if number > 0:
            if len(self._full_at) >= MAX_SENDERS and sender not in self._full_at:
                self._full_at.clear()
            self._full_at[sender] = full_at + number * self._cost
        return number

    def wait(self, sender: Hashable) -> int:
        """Count a request. Returns 0, or the whole seconds after which one is allowed again."""
        if self.take(sender, 1):
            return 0
        missing = self._full_at[sender] - self._clock() - (self._at_once - 1) * self._cost
        return max(1, math.ceil(missing))
