"""Reads pages ahead: the next pages are fetched while the caller works on the previous ones."""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Generic, TypeVar

PositionT = TypeVar("PositionT")
PageT = TypeVar("PageT")


class Prefetcher(Generic[PositionT, PageT]):
    """Reads one page after the other in a thread of its own.

    *next_position* returns the position after a page, None at the end. The thread reads *limit*
    pages, and further ones as ``allow`` permits. *read* must not use the database, because database
    connections belong to threads. Leaving the block waits for the page that is being read and
    ignores its failure.
    """

    def __init__(
        self,
        read: Callable[[PositionT], PageT],
        next_position: Callable[[PageT], PositionT | None],
        first: PositionT,
        limit: int,
    ) -> None:
        self._read, self._next_position = read, next_position
        self._permits = threading.Semaphore(limit)
        self._results: SimpleQueue[PageT | _Failure] = SimpleQueue()
        self._failure: _Failure | None = None
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, args=[first], name="prefetch")

    def get_ready(self) -> list[PageT]:
        """The pages that are ready, at least one: wait for it if necessary.

        Raises what *read* raised, after the pages before it were returned.
        """
        pages: list[PageT] = []
        while not self._failure and not (pages and self._results.empty()):
            result = self._results.get()
            if isinstance(result, _Failure):
                self._failure = result
            else:
                pages.append(result)
        if self._failure and not pages:
            raise self._failure.error
        return pages

    def allow(self, number: int) -> None:
        """Permit the thread to read this many more pages."""
        self._permits.release(number)

    def _run(self, first: PositionT) -> None:
        position: PositionT | None = first
        while position is not None:
            self._permits.acquire()
            if self._is_stopped:
                return
            try:
                page = self._read(position)
                position = self._next_position(page)
            except Exception as error:
                # ``get_ready`` raises it.
                self._results.put(_Failure(error))
                return
            self._results.put(page)

    def __enter__(self) -> "Prefetcher[PositionT, PageT]":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_stopped = True
        self._permits.release()
        self._thread.join()


class _Failure:
    def __init__(self, error: Exception) -> None:
        self.error = error
