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
        per_minute: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        at_once: int | None = None,
    ) -> None:
        self._per_minute, self._clock = per_minute, clock
        self._at_once = per_minute if at_once is None else at_once
        # When the sender has all requests again.
        self._full_at: dict[Hashable, float] = {}

    def wait(self, sender: Hashable) -> int:
        """Count a request. Returns 0, or the whole seconds after which one is allowed again."""
        now, cost = self._clock(), MINUTE / self._per_minute
        full_at = max(self._full_at.get(sender, now), now)
        missing = full_at + cost - now - self._at_once * cost
        if missing > 1e-9:
            return max(1, math.ceil(missing))
        if len(self._full_at) >= MAX_SENDERS and sender not in self._full_at:
            self._full_at.clear()
        self._full_at[sender] = full_at + cost
        return 0
