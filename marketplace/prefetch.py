"""Reading ahead: what comes next is fetched while what was read before it is worked on."""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Generic, TypeVar

PositionT = TypeVar("PositionT")
PageT = TypeVar("PageT")


class Prefetcher(Generic[PositionT, PageT]):
    """Reads one place after the other, in a thread of its own.

    *following* is the place after what was found, None at the end. At most *at_once* places are
    read without being asked for; ``go_on`` says how many more may be. *read* must not use the
    database: connections belong to threads. Leaving the block waits for what is under way, and its
    failure is nobody's any more.
    """

    def __init__(
        self,
        read: Callable[[PositionT], PageT],
        following: Callable[[PageT], PositionT | None],
        first: PositionT,
        at_once: int,
    ) -> None:
        self._read, self._following = read, following
        self._room = threading.Semaphore(at_once)
        self._found: SimpleQueue[PageT | _Failed] = SimpleQueue()
        self._failed: _Failed | None = None
        self._is_over = False
        self._thread = threading.Thread(target=self._run, args=[first], name="reading-ahead")

    def take(self) -> list[PageT]:
        """All that was read meanwhile, at least one: waits for that. Raises what *read* raises,
        once everything before it was taken."""
        taken: list[PageT] = []
        while not self._failed and not (taken and self._found.empty()):
            found = self._found.get()
            if isinstance(found, _Failed):
                self._failed = found
            else:
                taken.append(found)
        if self._failed and not taken:
            raise self._failed.error
        return taken

    def go_on(self, number: int) -> None:
        """Let so many more places be read."""
        self._room.release(number)

    def _run(self, first: PositionT) -> None:
        place: PositionT | None = first
        while place is not None:
            self._room.acquire()
            if self._is_over:
                return
            try:
                found = self._read(place)
                place = self._following(found)
            except Exception as error:
                # Raised where its place is asked for.
                self._found.put(_Failed(error))
                return
            self._found.put(found)

    def __enter__(self) -> "Prefetcher[PositionT, PageT]":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._is_over = True
        self._room.release()
        self._thread.join()


class _Failed:
    def __init__(self, error: Exception) -> None:
        self.error = error
