"""Reading one thing ahead."""

import threading

import pytest

from marketplace.ahead import Ahead


class Broken(Exception):
    """What is wrong with one place."""


def test_what_is_expected_is_read_while_the_caller_does_something_else() -> None:
    is_read, is_awaited = threading.Event(), []

    def read(place: int) -> str:
        is_read.set()
        return f"page {place}"

    with Ahead(read) as pages:
        pages.expect(1)
        is_awaited.append(is_read.wait(timeout=20))
        assert pages.read(1) == "page 1"
    assert is_awaited == [True]


def test_what_nobody_expected_is_read_when_it_is_asked_for() -> None:
    with Ahead[int, str](lambda place: f"page {place}") as pages:
        assert [pages.read(place) for place in (3, 1)] == ["page 3", "page 1"]


def test_each_place_is_read_once_and_in_the_order_asked_for() -> None:
    asked: list[int] = []
    with Ahead[int, None](asked.append) as pages:
        for place in range(3):
            pages.expect(place)
        for place in range(4):
            pages.read(place)
    assert asked == [0, 1, 2, 3]


def test_a_failure_is_raised_when_its_turn_has_come() -> None:
    def read(place: int) -> int:
        if place == 2:
            raise Broken
        return place

    with Ahead(read) as pages:
        pages.expect(1)
        pages.expect(2)
        assert pages.read(1) == 1
        with pytest.raises(Broken):
            pages.read(2)


def test_a_failure_that_nobody_asks_for_any_more_is_dropped() -> None:
    def read(_: int) -> None:
        raise Broken

    with Ahead(read) as pages:
        pages.expect(1)


def test_at_the_end_nothing_is_under_way() -> None:
    may_answer, answered = threading.Event(), threading.Event()

    def read(_: int) -> None:
        assert may_answer.wait(timeout=20)
        answered.set()

    with pytest.raises(Broken), Ahead(read) as pages:
        pages.expect(1)
        threading.Timer(0.05, may_answer.set).start()
        raise Broken
    assert answered.is_set()
