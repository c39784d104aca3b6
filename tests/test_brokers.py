"""A worker that lost its broker finds it again soon after it is back."""

import pytest
from kombu.exceptions import OperationalError
from kombu.utils import functional

from config.celery import MAX_RECONNECT_DELAY, app
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
