"""What everybody does who records whole batches of messages in one transaction each."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from django.db import transaction

from engagement import failures

# Large enough that a batch names a busy user many times but writes them once.
BATCH_SIZE = 10_000
# Large messages make a small batch: decoded they take many times their size, and all at once.
BATCH_BYTES = 8 * 1024 * 1024

One = TypeVar("One")


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from running inside a batch.

    A batch makes some hundred thousand objects and no cycles: looking for cycles among them took
    a fifth of the time and found none.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def settle_or_split(
    batch: Sequence[One],
    settle: Callable[[Sequence[One]], None],
    put_aside: Callable[[One, Exception], None],
) -> None:
    """Settle the batch; where that fails on data, halve it until the guilty one is alone.

    That one is handed to *put_aside*, with what it failed on.
    """
    try:
        with transaction.atomic():
            settle(batch)
    except Exception as error:
        if failures.is_transient(error):
            raise
        if len(batch) == 1:
            put_aside(batch[0], error)
            return
        middle = len(batch) // 2
        settle_or_split(batch[:middle], settle, put_aside)
        settle_or_split(batch[middle:], settle, put_aside)
