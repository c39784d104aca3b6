"""Threads that work as long as a block runs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from typing import TypeVar

Sample = TypeVar("Sample")
# Seconds between two looks whether a server is to end.
END_INTERVAL = 0.02


@contextmanager
def working(*functions: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run each function in a thread. The event that it gets is set when the block ends."""
    over = threading.Event()
    threads = [threading.Thread(target=work, args=(over,), daemon=True) for work in functions]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


@contextmanager
def serving(server: BaseServer) -> Iterator[None]:
    """Serve in a thread. When the block ends, the server is closed."""
    thread = threading.Thread(target=server.serve_forever, args=(END_INTERVAL,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def repeating(function: Callable[[], object], times: int = 1, pause: float = 0) -> Iterator[None]:
    """Call the function again and again in as many threads as *times*, until the block ends."""

    def repeat(over: threading.Event) -> None:
        while not over.wait(pause):
            function()

    with working(*[repeat] * times):
        yield


@contextmanager
def sampled(look: Callable[[], Sample], interval: float) -> Iterator[list[Sample]]:
    """What *look* returned, at the beginning of the block and at each *interval* inside it."""
    samples = [look()]
    with repeating(lambda: samples.append(look()), pause=interval):
        yield samples
