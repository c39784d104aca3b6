"""A door with nothing behind it: what it hands to the inbox is kept in a list."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import pytest
from django.test import Client

from ingestion.inbox import group_commit as inbox
from ingestion.payloads import Payload
from tests.ingestion.examples import Response


class Accepted(NamedTuple):
    # Whatever the door made; tests say what it must be.
    message: Any
    key: str
    received_at: datetime


@pytest.fixture
def accepted(monkeypatch: pytest.MonkeyPatch) -> list[Accepted]:
    """What the doors handed to the inbox, in place of the inbox itself."""
    messages: list[Accepted] = []

    def accept(
        payloads: Sequence[Payload], key: str, received_at: datetime, *ids_and_trace: str | None
    ) -> None:
        messages.extend(Accepted(message, key, received_at) for message in payloads)

    monkeypatch.setattr(inbox, "accept", accept)
    return messages


Post = Callable[..., Response]


@pytest.fixture
def post(accepted: list[Accepted], client: Client) -> Post:
    """Post a body, given as bytes or as what JSON is made from, with headers as WSGI names them."""

    def send(path: str, body: Any, **headers: Any) -> Response:
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return client.generic("POST", path, data, "application/json", **headers)

    return send
