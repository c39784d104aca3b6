"""Each id can be looked up, however long its address is, and a longer address gets a JSON error."""

from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from ingestion.doors.fields import MAX_ID_LENGTH
from tests.openapi.conftest import Shapes, described, shapes
from tests.openapi.walking import media, operations
from tests.start.running import web_worker

__all__ = ["described", "shapes"]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with web_worker() as port:
        yield port


def get(port: int, address: str) -> tuple[int, str, bytes]:
    with closing(HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request("GET", address)
        response = connection.getresponse()
        return response.status, response.headers.get("Content-Type", ""), response.read()


@pytest.mark.parametrize("character", ["a", "é", "漢", "🎉"])
def test_the_longest_id_can_be_looked_up(character: str, port: int) -> None:
    match = {"match_type": "tracking_id", "match_value": character * MAX_ID_LENGTH}
    query = urlencode({"workspace_id": 2**63 - 1, **match, "limit": 100, "offset": 0})
    assert get(port, f"/v2/accounts?{query}")[0] == 200


@pytest.mark.parametrize("length", [8_200, 20_000, 200_000, 2_000_000])
def test_a_longer_address_is_refused_in_the_documented_shape(
    length: int, port: int, described: dict[str, Any], shapes: Shapes
) -> None:
    status, content_type, body = get(port, f"/v2/users?match_value={'x' * length}")
    assert (status, content_type) == (414, "application/json")
    error = msgspec.json.decode(body)
    assert error["error"] == {
        "code": "uri_too_long",
        "message": "The method and the address must be at most 8,190 bytes. "
        "Ask for a shorter value.",
    }
    for method, path, description in operations(described):
        if method == "get" and path.startswith("/v"):
            assert shapes.faults(media(description["responses"]["414"])["schema"], error) == [], (
                path
            )
    # The server goes on.
    assert get(port, "/")[0] == 200
