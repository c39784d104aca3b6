"""Recording a batch of messages in one transaction, for drains and file imports."""

import gc
import traceback
from collections.abc import Callable, Sequence
from typing import TypeVar

from django.db import transaction

from core.database import retries

# Large messages make a small batch: decoded, they take many times their size, all at once.
BATCH_BYTES = 8 * 1024 * 1024

Item = TypeVar("Item")


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
