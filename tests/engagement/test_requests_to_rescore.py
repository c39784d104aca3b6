"""Rescoring is asked for soon after data came, and not too often."""

from datetime import datetime
from typing import Any

import pytest

from engagement import tasks
from engagement.core import wakeups
from engagement.rescoring import rescore


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """After how many seconds each request that was sent is due, by a clock that stands at 100."""
    countdowns: list[float] = []

    def ask(task: object, expires: float, countdown: float = 0.0) -> bool:
        assert task is tasks.rescore
        countdowns.append(countdown)
        return True

    monkeypatch.setattr(wakeups, "enqueue", ask)
    monkeypatch.setattr(tasks, "_next_turn", 0.0)
    set_clock(monkeypatch, 100.0)
    return countdowns


def set_clock(monkeypatch: pytest.MonkeyPatch, now: float) -> None:
    monkeypatch.setattr("engagement.tasks.time.monotonic", lambda: now)


def test_the_first_request_is_sent_at_once(asked: list[float]) -> None:
    tasks.request_rescore()
    assert asked == [0.0]


def test_a_request_soon_after_another_is_put_off_and_not_forgotten(
    asked: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks.request_rescore()
    set_clock(monkeypatch, 100.5)
    tasks.request_rescore()
    assert asked == [0.0, tasks.RESCORE_INTERVAL - 0.5]


def test_many_requests_send_one_for_each_pause(
    asked: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    for tenths in range(101):
        set_clock(monkeypatch, 100 + tenths / 10)
        tasks.request_rescore()
    assert len(asked) == 10 / tasks.RESCORE_INTERVAL + 1


def test_after_a_quiet_time_it_is_sent_at_once_again(
    asked: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks.request_rescore()
    set_clock(monkeypatch, 160)
    tasks.request_rescore()
    assert asked == [0.0, 0.0]


@pytest.mark.django_db
@pytest.mark.parametrize(("seconds", "again"), [(0.1, []), (9.9, []), (10.1, [0.0])])
def test_a_rescoring_that_ran_out_of_time_asks_for_another(
    asked: list[float], monkeypatch: pytest.MonkeyPatch, seconds: float, again: list[float]
) -> None:
    def work(now: datetime, *, out_of_time: Any) -> int:
        set_clock(monkeypatch, 100 + seconds)
        return 0

    monkeypatch.setattr(rescore, "rescore", work)
    tasks.rescore()
    assert asked == again
