"""How many messages a batch takes, so that it lasts about a second.

A message that arrives during a batch waits until it ends. On a slow or busy machine a batch of
10,000 takes several seconds, and a message costs hardly less there than in a batch of 1,000.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

BATCH_SECONDS = 1.0
# Large enough that a batch mentions a busy user many times but writes them once.
MAX_BATCH_SIZE = 10_000
# Of a process's first batch, before anything is measured.
START_BATCH_SIZE = 2_000
# Each batch has fixed costs: in one of 500 a message costs twice as much.
MIN_BATCH_SIZE = 1_000


class BatchSizer:
    """Adapts the batch size of one process to how long its last batch took.

    *timer* returns seconds, as ``time.monotonic`` does.
    """

    def __init__(self, timer: Callable[[], float] = time.monotonic) -> None:
        self.size = START_BATCH_SIZE
        self._timer = timer

    @contextmanager
    def timed(self, messages: int) -> Iterator[None]:
        """Adapt the size to how long the block takes, which records that many messages."""
        started = self._timer()
        yield
        seconds = self._timer() - started
        # The time of a smaller batch is mostly its fixed costs.
        if messages >= MIN_BATCH_SIZE:
            fitting = int(messages * BATCH_SECONDS / max(seconds, 0.001))
            self.size = min(MAX_BATCH_SIZE, max(MIN_BATCH_SIZE, fitting))
