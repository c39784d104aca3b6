from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import msgspec
import pytest
from pytest_django import Settings

from config.openapi import assembly
from notifications.watching import outbox
from tests.notifications.receiver import Receiver, receiving
from tests.notifications.rows import Clock
from tests.openapi.conftest import Shapes


@pytest.fixture(scope="session")
def api_description() -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(assembly.render_schema())
    return document


@pytest.fixture(scope="session")
def shapes(api_description: dict[str, Any]) -> Shapes:
    return Shapes(api_description)


@pytest.fixture(autouse=True)
def every_message_is_as_described(
    api_description: dict[str, Any], shapes: Shapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare each message that a test writes with the webhook of its type in the API
    description."""
    write = outbox._message

    def compare(destination: Any, subscription: Any, draft: Any, now: Any) -> Any:
        webhook = api_description["webhooks"][draft.payload["type"]]["post"]
        schema = webhook["requestBody"]["content"]["application/json"]["schema"]
        assert shapes.faults(schema, {"id": "msg_x", **draft.payload}) == []
        return write(destination, subscription, draft, now)

    monkeypatch.setattr(outbox, "_message", compare)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def receiver(settings: Settings) -> Iterator[Receiver]:
    """A receiver on this machine, whose network is allowed."""
    settings.WEBHOOK_ALLOWED_NETWORKS = [ip_network("127.0.0.0/8")]
    with receiving() as receiver:
        yield receiver
