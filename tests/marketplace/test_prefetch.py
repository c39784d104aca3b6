"""The prefetcher."""

import threading
from collections.abc import Callable

import pytest

from marketplace.source.prefetch import Prefetcher


class Broken(Exception):
    """A page cannot be read."""


class Pages:
    """Numbers from 1 to *last*, each of which is a page. The *broken* one cannot be read."""

    def __init__(self, last: int, broken_page: int = 0) -> None:
        self.reads: list[int] = []
        self._last, self._broken = last, broken_page
        self._changed = threading.Condition()

    def read(self, position: int) -> int:
        with self._changed:
            self.reads.append(position)
            self._changed.notify_all()
        if position == self._broken:
            raise Broken
        return position

    def next_position(self, page: int) -> int | None:
        return page + 1 if page < self._last else None

    def prefetcher(self, limit: int = 1) -> Prefetcher[int, int]:
        return Prefetcher(self.read, self.next_position, 1, limit)

    def wait_for(self, *reads: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.reads == list(reads), timeout=20)


def take(prefetcher: Prefetcher[int, int], number: int) -> list[int]:
    """This many pages, each of which allows another one."""
    offsets: list[int] = []
    while len(offsets) < number:
        pages = prefetcher.get_ready()
        prefetcher.allow(len(pages))
        offsets += pages
    return offsets


@pytest.mark.parametrize("limit", [1, 4])
def test_all_pages_are_read_once_and_in_order(limit: int) -> None:
    pages = Pages(last=10)
    with pages.prefetcher(limit) as prefetcher:
        assert take(prefetcher, 10) == list(range(1, 11))
    assert pages.reads == list(range(1, 11))


def test_the_next_page_is_read_while_the_caller_is_busy() -> None:
    pages = Pages(last=3)
    with pages.prefetcher() as prefetcher:
        assert prefetcher.get_ready() == [1]
        prefetcher.allow(1)
        pages.wait_for(1, 2)
        assert prefetcher.get_ready() == [2]


def test_pages_that_arrived_in_the_meantime_are_returned_together() -> None:
    pages = Pages(last=9)
    with pages.prefetcher(limit=3) as prefetcher:
        # The third may not have arrived yet.
        pages.wait_for(1, 2, 3)
        assert prefetcher.get_ready()[:2] == [1, 2]


def test_no_more_pages_are_read_than_allowed() -> None:
    pages = Pages(last=9)
    with pages.prefetcher(limit=2) as prefetcher:
        pages.wait_for(1, 2)
        offsets: list[int] = []
        while len(offsets) < 2:
            offsets += prefetcher.get_ready()
        assert offsets == [1, 2]
    assert pages.reads == [1, 2]


def test_a_failure_is_raised_after_the_pages_before_it() -> None:
    pages = Pages(last=9, broken_page=3)
    with pages.prefetcher(limit=4) as prefetcher:
        pages.wait_for(1, 2, 3)
        assert take(prefetcher, 2) == [1, 2]
        for _ in range(2):
            with pytest.raises(Broken):
                prefetcher.get_ready()
    assert pages.reads == [1, 2, 3], "nothing after it"


def test_leaving_the_block_ignores_a_failure() -> None:
    pages = Pages(last=9, broken_page=1)
    with pages.prefetcher():
        pages.wait_for(1)


def test_leaving_the_block_waits_for_the_page_that_is_being_read() -> None:
    may_return, has_returned = threading.Event(), threading.Event()

    def read(_: int) -> int:
        assert may_return.wait(timeout=20)
        has_returned.set()
        return 1

    next_position: Callable[[int], int | None] = lambda _: 2  # noqa: E731
    with pytest.raises(Broken), Prefetcher(read, next_position, 1, 1):
        threading.Timer(0.05, may_return.set).start()
        raise Broken
    assert has_returned.is_set()
