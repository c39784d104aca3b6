"""Reading ahead."""

import threading
from collections.abc import Callable

import pytest

from marketplace.prefetch import Prefetcher


class Broken(Exception):
    """What is wrong with one place."""


class Pages:
    """Numbers from 1 to *last*, each of which is a page; *broken* ones cannot be read."""

    def __init__(self, last: int, broken: int = 0) -> None:
        self.asked: list[int] = []
        self._last, self._broken = last, broken
        self._changed = threading.Condition()

    def read(self, place: int) -> int:
        with self._changed:
            self.asked.append(place)
            self._changed.notify_all()
        if place == self._broken:
            raise Broken
        return place

    def following(self, found: int) -> int | None:
        return found + 1 if found < self._last else None

    def ahead(self, at_once: int = 1) -> Prefetcher[int, int]:
        return Prefetcher(self.read, self.following, 1, at_once)

    def wait_for(self, *asked: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.asked == list(asked), timeout=20)


def take(ahead: Prefetcher[int, int], number: int) -> list[int]:
    """So many, in as many turns as they take."""
    taken: list[int] = []
    while len(taken) < number:
        some = ahead.take()
        ahead.go_on(len(some))
        taken += some
    return taken


@pytest.mark.parametrize("at_once", [1, 4])
def test_all_is_read_once_and_in_order(at_once: int) -> None:
    pages = Pages(last=10)
    with pages.ahead(at_once) as ahead:
        assert take(ahead, 10) == list(range(1, 11))
    assert pages.asked == list(range(1, 11))


def test_the_next_one_is_read_while_the_caller_does_something_else() -> None:
    pages = Pages(last=3)
    with pages.ahead() as ahead:
        assert ahead.take() == [1]
        ahead.go_on(1)
        pages.wait_for(1, 2)
        assert ahead.take() == [2]


def test_what_was_read_meanwhile_is_taken_together() -> None:
    pages = Pages(last=9)
    with pages.ahead(at_once=3) as ahead:
        # The third need not be there yet.
        pages.wait_for(1, 2, 3)
        assert ahead.take()[:2] == [1, 2]


def test_nothing_more_is_read_than_was_asked_for() -> None:
    pages = Pages(last=9)
    with pages.ahead(at_once=2) as ahead:
        pages.wait_for(1, 2)
        assert take_without_going_on(ahead, 2) == [1, 2]
    assert pages.asked == [1, 2]


def take_without_going_on(ahead: Prefetcher[int, int], number: int) -> list[int]:
    taken: list[int] = []
    while len(taken) < number:
        taken += ahead.take()
    return taken


def test_a_failure_is_raised_after_what_came_before_it_was_taken() -> None:
    pages = Pages(last=9, broken=3)
    with pages.ahead(at_once=4) as ahead:
        pages.wait_for(1, 2, 3)
        assert take(ahead, 2) == [1, 2]
        for _ in range(2):
            with pytest.raises(Broken):
                ahead.take()
    assert pages.asked == [1, 2, 3], "nothing after it"


def test_a_failure_that_nobody_asks_for_any_more_is_dropped() -> None:
    pages = Pages(last=9, broken=1)
    with pages.ahead():
        pages.wait_for(1)


def test_at_the_end_nothing_is_under_way() -> None:
    may_answer, answered = threading.Event(), threading.Event()

    def read(_: int) -> int:
        assert may_answer.wait(timeout=20)
        answered.set()
        return 1

    one: Callable[[int], int | None] = lambda _: 2  # noqa: E731
    with pytest.raises(Broken), Prefetcher(read, one, 1, 1):
        threading.Timer(0.05, may_answer.set).start()
        raise Broken
    assert answered.is_set()
