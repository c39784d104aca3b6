"""Batches of messages, for drains and file imports: the size of one, and recording it in one
transaction.

A message that arrives during a batch waits until it ends. On a slow or busy machine a batch of
10,000 takes several seconds, and a message costs hardly less there than in a batch of 1,000. So a
batch of a drain lasts about a second.
"""

import gc
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from django.db import transaction

from core.database import retries

# Large messages make a small batch: decoded, they take many times their size, all at once.
BATCH_BYTES = 8 * 1024 * 1024

BATCH_SECONDS = 1.0
# Large enough that a batch mentions a busy user many times but writes them once.
MAX_BATCH_SIZE = 10_000
# Of a process's first batch, before anything is measured.
START_BATCH_SIZE = 2_000
# Each batch has fixed costs: in one of 500 a message costs twice as much.
MIN_BATCH_SIZE = 1_000

Item = TypeVar("Item")


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


def process_or_split(
    batch: Sequence[Item],
    process: Callable[[Sequence[Item]], None],
    reject: Callable[[Item, Exception], None],
) -> None:
    """Process the batch. If it fails on data, halve it until the faulty item is alone.

    That item goes to *reject*, with its error.
    """
    if (error := _failure(batch, process)) is None:
        return
    if len(batch) == 1:
        reject(batch[0], error)
    _clear_frames(error)
    del error
    # The youngest generation holds only what the failed attempt made, so this is cheap.
    gc.collect(0)
    if len(batch) == 1:
        return
    middle = len(batch) // 2
    process_or_split(batch[:middle], process, reject)
    process_or_split(batch[middle:], process, reject)


def _failure(batch: Sequence[Item], process: Callable[[Sequence[Item]], None]) -> Exception | None:
    """The error of the batch, or None. Raises errors that are no message's fault."""
    try:
        with transaction.atomic():
            process(batch)
    except Exception as error:
        if retries.is_transient(error):
            raise
        return error
    return None


def _clear_frames(error: BaseException | None) -> None:
    """Clear the frames of the error's traceback. They hold all objects of the failed attempt, and
    the next attempt needs as much memory again."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
