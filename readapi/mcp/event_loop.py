"""Runs a coroutine that waits for nothing but functions of its caller.

The web workers serve each request in a greenlet, but asyncio runs one loop in each thread. So this
loop never waits for the network, and never lets another greenlet run. A function that reads the
database runs while the loop is stopped: in the caller's greenlet, with its connections and limits.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from selectors import BaseSelector, SelectorKey
from typing import Any, NoReturn, TypeVar

_Result = TypeVar("_Result")
# Runs the function outside the loop, and returns or raises what it does.
RunOutside = Callable[[Callable[[], Any]], Awaitable[Any]]

# In case that another greenlet runs after all, for example while this one waits to log a line.
_one_loop = threading.Lock()


class _NoNetwork(BaseSelector):
    """A selector of nothing. A loop that has to wait would wait for ever."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        return SelectorKey(fileobj, -1, events, data)

    def unregister(self, fileobj: Any) -> SelectorKey:
        return SelectorKey(fileobj, -1, 0, None)

    def get_key(self, fileobj: Any) -> NoReturn:
        raise KeyError(fileobj)

    def get_map(self) -> dict[Any, SelectorKey]:
        return {}

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        if timeout != 0:
            raise RuntimeError("The coroutine waits for something that nobody does.")
        return []


def run(main: Callable[[RunOutside], Coroutine[Any, Any, _Result]]) -> _Result:
    """The coroutine's result. An error of a function that it asked for ends it."""
    runner = asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(_NoNetwork()))
    waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
    try:
        loop = runner.get_loop()

        def run_outside(function: Callable[[], Any]) -> asyncio.Future[Any]:
            waiting.append((function, loop.create_future()))
            loop.stop()
            return waiting[-1][1]

        task = loop.create_task(main(run_outside))
        task.add_done_callback(lambda _: loop.stop())
        while not task.done():
            with _one_loop:
                loop.run_forever()
            while waiting:
                function, future = waiting.pop()
                future.set_result(function())
        return task.result()
    finally:
        with _one_loop:
            runner.close()
