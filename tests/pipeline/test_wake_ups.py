"""Workers are asked soon and not too often, and a broker that is away delays nobody."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from config.celery import app
from core import wakeups as engagement_wakeups
from engagement import tasks as engagement_tasks
from engagement.models import Product
from harness.ports import free_port
from ingestion import tasks
from ingestion.inbox import drain_requests
from tests.engagement.history import track
from tests.pipeline.conftest import Post
from tests.pipeline.waiting import at_once, counts, wait, waiting


@contextmanager
def queue() -> Iterator[Any]:
    """The broker's queue, which is in this process's memory."""
    with app.connection_for_write() as broker:
        channel: Any = broker.default_channel
        for name in ("default", "scoring"):
            channel.queue_declare(name)
        yield channel


def published() -> int:
    """How many messages were published since this was last asked."""
    with queue() as channel:
        count = 0
        for name in ("default", "scoring"):
            while channel.basic_get(name, no_ack=True):
                count += 1
        return count


class Broken:
    """Stands for a task whose broker is on a loopback port where nobody listens, or elsewhere."""

    def __init__(self, task: Any, address: str = "") -> None:
        self.address = address or f"amqp://127.0.0.1:{free_port()}//"
        self.task = task
        self.attempts = 0

    def apply_async(self, **options: Any) -> None:
        self.attempts += 1
        self.task.apply_async(connection=app.connection_for_write(self.address), **options)


@pytest.fixture(autouse=True)
def nothing_published(monkeypatch: pytest.MonkeyPatch) -> None:
    # What earlier tests asked for goes out after a pause, and would be taken for what ours do.
    deadline = time.monotonic() + 2 * drain_requests.PAUSE_AFTER_FAILURE
    while drain_requests._requester._requested.is_set():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    monkeypatch.setattr(engagement_wakeups, "_broker_is_away", False)
    published()


@pytest.fixture
def broken_broker(monkeypatch: pytest.MonkeyPatch) -> Broken:
    broker = Broken(drain_requests.DRAIN_TASK)
    monkeypatch.setattr(drain_requests, "DRAIN_TASK", broker)
    return broker


def ask_for(seconds: float, request: Callable[[], None]) -> float:
    """Request all the time; the seconds that it took."""
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        request()
        time.sleep(0.001)
    return time.monotonic() - started


def until(look: Callable[[], object], meanwhile: Callable[[], None] = lambda: None) -> None:
    """Call *meanwhile* until *look* returns a true value."""
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline
        meanwhile()
        time.sleep(0.005)


def test_a_request_wakes_a_worker_at_once() -> None:
    drain_requests.DrainRequester().request_drain()
    until(published)


def test_many_requests_wake_at_most_five_times_a_second() -> None:
    requester = drain_requests.DrainRequester()
    took = max(at_once(*[lambda: ask_for(0.9, requester.request_drain)] * 8))
    time.sleep(2 * drain_requests.PAUSE)
    number = published()
    # The last request is never lost: it is published after the pause.
    assert 2 <= number <= (took + drain_requests.PAUSE) / drain_requests.PAUSE + 1


def test_where_messages_keep_coming_workers_are_woken_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain_requests, "PAUSE", 0.02)
    monkeypatch.setattr(drain_requests, "MAX_PAUSE", 0.2)
    requester = drain_requests.DrainRequester()
    took = ask_for(1.2, requester.request_drain)
    time.sleep(2 * drain_requests.MAX_PAUSE)
    # Pauses of 0.02, 0.04, 0.08 and 0.16 s, from then on of 0.2 s.
    assert 4 <= published() <= 5 + took / drain_requests.MAX_PAUSE


def test_without_requests_nobody_is_woken() -> None:
    requester = drain_requests.DrainRequester()
    requester.request_drain()
    until(published)
    time.sleep(2 * drain_requests.PAUSE)
    assert published() == 0


def test_a_wake_up_carries_nothing_and_expires() -> None:
    drain_requests.DrainRequester().request_drain()
    messages: list[Any] = []
    with queue() as channel:

        def has_come() -> bool:
            message = channel.basic_get("default", no_ack=True)
            messages.extend([message] if message else [])
            return bool(messages)

        until(has_come)
        (message,) = messages
        assert message.payload[:2] == [[], {}]
        assert message.headers["task"] == "ingestion.tasks.drain"
        assert message.headers["expires"]


@pytest.mark.django_db(transaction=True)
def test_a_broker_that_refuses_connections_delays_no_answer(
    broken_broker: Broken,
    post: Post,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(
        drain_requests, "request_drain", drain_requests.DrainRequester().request_drain
    )
    monkeypatch.setattr(drain_requests, "PAUSE_AFTER_FAILURE", 0.05)
    body = {"userId": "ada", "event": "opened"}
    assert post("/v2/track", body).status_code == 202

    def seconds_of_50_answers() -> float:
        started = time.monotonic()
        assert [post("/v2/track", body).status_code for _ in range(50)] == [202] * 50
        return time.monotonic() - started

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drain_requests, "request_drain", lambda: None)
        usual = seconds_of_50_answers()
    # What a busy machine takes for them alone is not the broker's fault.
    assert seconds_of_50_answers() < max(10, 4 * usual)
    until(lambda: broken_broker.attempts > 1, drain_requests.request_drain)
    (line,) = caplog.messages
    assert line.startswith("The broker takes no wake-ups (")
    assert len(waiting()) == 101


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("address", ["redis://127.0.0.1:{}/0", "amqp://127.0.0.1:{}//"])
def test_a_silent_broker_blocks_nobody(address: str) -> None:
    """Such as one whose machine is frozen: neither wake-ups nor beat may wait for it for ever."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        broken_broker = Broken(tasks.drain, address.format(silent.getsockname()[1]))
        assert not engagement_wakeups.enqueue(broken_broker, 5)  # type: ignore[arg-type]


def test_a_broker_that_comes_back_is_used_again(
    broken_broker: Broken, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(drain_requests, "PAUSE_AFTER_FAILURE", 0.05)
    requester = drain_requests.DrainRequester()
    until(lambda: broken_broker.attempts > 1, requester.request_drain)
    monkeypatch.setattr(drain_requests, "DRAIN_TASK", broken_broker.task)
    until(published, requester.request_drain)
    until(lambda: caplog.messages[-1] == "The broker takes wake-ups again.")
    assert len(caplog.messages) == 2


def test_waiting_for_the_broker_blocks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def hang(*arguments: object) -> bool:
        return release.wait(60)

    monkeypatch.setattr(engagement_wakeups, "enqueue", hang)
    requester = drain_requests.DrainRequester()
    started = time.monotonic()
    for _ in range(1_000):
        requester.request_drain()
    assert time.monotonic() - started < 30
    release.set()


# --- From the worker ------------------------------------------------------------------------


def test_a_drain_that_runs_out_of_time_asks_for_the_next_one(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait(acme_key, track("ada"))
    monkeypatch.setattr(tasks, "DRAIN_SECONDS", -1.0)
    tasks.drain()
    assert (published(), len(waiting())) == (1, 1)


def test_a_drain_that_empties_the_inbox_asks_for_scores_alone(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engagement_tasks, "_next_turn", 0.0)
    wait(acme_key, track("ada"))
    tasks.drain()
    assert (published(), waiting()) == (1, [])


def test_a_drain_goes_on_while_the_broker_is_away(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engagement_tasks, "_next_turn", 0.0)
    monkeypatch.setattr(engagement_tasks, "rescore", Broken(engagement_tasks.rescore))
    wait(acme_key, *[track("ada")] * 3)
    tasks.drain()
    assert counts(acme) == {("ada", "opened"): 3}
