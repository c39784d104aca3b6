"""Rescoring is requested soon after data arrives, but not too often."""

from datetime import datetime
from typing import Any

import pytest

from core import wakeups
from engagement import tasks
from engagement.rescoring import rescore


@pytest.fixture
def countdowns(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The countdowns in seconds of the tasks that were sent. The clock stands at 100."""
    delays: list[float] = []

    def enqueue(task: object, expires: float, countdown: float = 0.0) -> bool:
        assert task is tasks.rescore
        delays.append(countdown)
        return True

    monkeypatch.setattr(wakeups, "enqueue", enqueue)
    monkeypatch.setattr(tasks, "_next_turn", 0.0)
    set_clock(monkeypatch, 100.0)
    return delays


def set_clock(monkeypatch: pytest.MonkeyPatch, now: float) -> None:
    monkeypatch.setattr("engagement.tasks.time.monotonic", lambda: now)


def test_the_first_request_is_sent_at_once(countdowns: list[float]) -> None:
    tasks.request_rescore()
    assert countdowns == [0.0]


def test_a_second_request_is_delayed(
    countdowns: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks.request_rescore()
    set_clock(monkeypatch, 100.5)
    tasks.request_rescore()
    assert countdowns == [0.0, tasks.RESCORE_INTERVAL - 0.5]


def test_many_requests_send_one_task_per_interval(
    countdowns: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    for tenths in range(101):
        set_clock(monkeypatch, 100 + tenths / 10)
        tasks.request_rescore()
    assert len(countdowns) == 10 / tasks.RESCORE_INTERVAL + 1


def test_a_request_after_a_pause_is_sent_at_once(
    countdowns: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks.request_rescore()
    set_clock(monkeypatch, 160)
    tasks.request_rescore()
    assert countdowns == [0.0, 0.0]


@pytest.mark.django_db
@pytest.mark.parametrize(("seconds", "again"), [(0.1, []), (9.9, []), (10.1, [0.0])])
def test_rescoring_that_runs_out_of_time_requests_another(
    countdowns: list[float], monkeypatch: pytest.MonkeyPatch, seconds: float, again: list[float]
) -> None:
    def work(now: datetime, *, out_of_time: Any) -> int:
        set_clock(monkeypatch, 100 + seconds)
        return 0

    monkeypatch.setattr(rescore, "rescore", work)
    tasks.rescore()
    assert countdowns == again
