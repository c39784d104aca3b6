"""A worker finds a lost broker soon after it is back, and copes with messages of other releases."""

import logging

import pytest
from kombu import Connection
from kombu.exceptions import OperationalError
from kombu.utils import functional

from config.celery import MAX_RECONNECT_DELAY, QuietConsumer, app
from tests.start.running import free_port

ATTEMPTS = 12


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long somebody would have waited."""
    waits: list[float] = []
    monkeypatch.setattr(functional, "sleep", waits.append)
    return waits


@pytest.mark.parametrize("kind", ["amqp", "redis"])
@pytest.mark.parametrize("role", [app.connection_for_read, app.connection_for_write])
def test_it_retries_every_few_seconds_until_the_broker_is_back(
    kind: str, role: type, slept: list[float]
) -> None:
    announced: list[float] = []
    connection = role(f"{kind}://127.0.0.1:{free_port()}")
    with pytest.raises(OperationalError):
        connection.ensure_connection(
            lambda error, wait: announced.append(wait), max_retries=ATTEMPTS
        )
    assert announced[:5] == [1, 2, 3, 4, MAX_RECONNECT_DELAY]
    assert set(announced[5:]) == {MAX_RECONNECT_DELAY}
    assert sum(slept) == sum(announced)


def test_a_task_of_another_release_is_discarded_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    consumer = QuietConsumer.__new__(QuietConsumer)
    consumer.connection_errors = ()
    with Connection("memory://") as broker, broker.SimpleQueue("other release") as queue:
        queue.put({}, headers={"task": "exports.tasks.new"})
        message = queue.get(timeout=1)
        with caplog.at_level(logging.WARNING):
            consumer.on_unknown_task({}, message, KeyError("exports.tasks.new"))
        assert message.acknowledged
    (record,) = caplog.records
    assert "the task exports.tasks.new" in record.getMessage() and record.exc_info is None
