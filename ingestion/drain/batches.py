"""What everybody does who records whole batches of messages in one transaction each."""

import gc
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from django.db import transaction

from engagement.database import retries

# Large enough that a batch names a busy user many times but writes them once.
BATCH_SIZE = 10_000
# Large messages make a small batch: decoded they take many times their size, and all at once.
BATCH_BYTES = 8 * 1024 * 1024

Item = TypeVar("Item")


@contextmanager
def pause_gc() -> Iterator[None]:
    """Keep the garbage collector from running inside a batch.

    A batch makes some hundred thousand objects and no cycles: looking for cycles among them took
    a fifth of the time and found none. Where one fails it does (``process_or_split``).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def process_or_split(
    batch: Sequence[Item],
    settle: Callable[[Sequence[Item]], None],
    put_aside: Callable[[Item, Exception], None],
) -> None:
    """Settle the batch; where that fails on data, halve it until the guilty one is alone.

    That one is handed to *put_aside*, with what it failed on.
    """
    if (error := _failure(batch, settle)) is None:
        return
    if len(batch) == 1:
        put_aside(batch[0], error)
    _take_apart(error)
    del error
    # What is new since the last time is what the failed attempt made: a small part of its cost.
    gc.collect(0)
    if len(batch) == 1:
        return
    middle = len(batch) // 2
    process_or_split(batch[:middle], settle, put_aside)
    process_or_split(batch[middle:], settle, put_aside)


def _failure(batch: Sequence[Item], settle: Callable[[Sequence[Item]], None]) -> Exception | None:
    """What the batch failed on, if it did. Raises what is no message's fault."""
    try:
        with transaction.atomic():
            settle(batch)
    except Exception as error:
        if retries.is_transient(error):
            raise
        return error
    return None


def _take_apart(error: BaseException | None) -> None:
    """Empty the frames that the error came through: they hold all that the failed attempt made,
    and the next one needs as much again."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
