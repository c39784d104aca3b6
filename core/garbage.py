"""When Python looks for garbage."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_gc() -> Iterator[None]:
    """Keep the garbage collector from running inside a batch.

    A batch makes some hundred thousand objects and no cycles: looking for cycles took a fifth of
    a drain's time, and a twelfth of a license sync's. Only a failed batch leaves some.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
