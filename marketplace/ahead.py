"""Reading one thing ahead: what comes next is fetched while the one before it is worked on."""

from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, TypeVar

Place = TypeVar("Place", bound=Hashable)
Found = TypeVar("Found")


class Ahead(Generic[Place, Found]):
    """Calls *read* in one thread of its own, for one place at a time, in the order asked.

    *read* must not use the database: connections belong to threads. Leaving the block waits for
    what is under way, and its failure is nobody's any more.
    """

    def __init__(self, read: Callable[[Place], Found]) -> None:
        self._read = read
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reading-ahead")
        self._expected: dict[Place, Future[Found]] = {}

    def expect(self, place: Place) -> None:
        """Begin to read what is at *place*."""
        self._expected[place] = self._thread.submit(self._read, place)

    def read(self, place: Place) -> Found:
        """What is at *place*, begun now unless it was expected. Raises what *read* raises."""
        if place not in self._expected:
            self.expect(place)
        return self._expected.pop(place).result()

    def __enter__(self) -> "Ahead[Place, Found]":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._thread.shutdown(cancel_futures=True)
