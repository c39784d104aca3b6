"""How long to wait after a failure."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class Backoff:
    """Waits *first* after the first failure, *factor* times as long after each other one, and
    *longest* at most."""

    first: timedelta
    factor: float
    longest: timedelta

    def delay(self, failures: int) -> timedelta:
        """The wait after this many failures in a row, 1 at least."""
        # Bounded before it is multiplied: a float overflows after a thousand failures.
        seconds = self.first.total_seconds() * self.factor ** min(failures - 1, 64)
        return timedelta(seconds=min(seconds, self.longest.total_seconds()))
