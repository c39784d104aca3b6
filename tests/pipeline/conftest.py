"""Clients that post to the real inbox, with Acme's key."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from django.test import Client

from ingestion.drain import claims
from tests.ingestion.examples import Response

Post = Callable[..., Response]


@pytest.fixture(autouse=True)
def unfinished_batches_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "CLAIM_GRACE_SECONDS", 0.0)


@pytest.fixture
def post(acme_key: str) -> Post:
    """Post a body, given as bytes or as what JSON is made from; v2 paths with Acme's key."""

    def send(path: str, body: Any, **headers: Any) -> Response:
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        headers = {"HTTP_AUTHORIZATION": f"Basic {acme_key}", **headers}
        # A client for each request: tests post from several threads.
        return Client().generic("POST", path, data, "application/json", **headers)

    return send
