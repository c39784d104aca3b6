"""How long to wait after a failure."""

import random
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class Backoff:
    """Waits *first* after the first failure, *factor* times as long after each other one, and
    *longest* at most.

    A wait varies by *jitter*, a share of it, so that what failed together is not tried together.
    After *give_up* failures in a row there is no other attempt; None: it is tried forever.
    """

    first: timedelta
    factor: float
    longest: timedelta
    jitter: float = 0.0
    give_up: int | None = None

    def delay(self, failures: int) -> timedelta:
        """The wait after this many failures in a row, 1 at least."""
        # Bounded before it is multiplied: a float overflows after a thousand failures.
        seconds = self.first.total_seconds() * self.factor ** min(failures - 1, 64)
        wait = min(seconds, self.longest.total_seconds())
        return timedelta(seconds=wait * random.uniform(1 - self.jitter, 1 + self.jitter))

    def gives_up(self, failures: int) -> bool:
        """Whether this many failures in a row were the last."""
        return self.give_up is not None and failures >= self.give_up
