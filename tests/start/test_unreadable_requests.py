"""What is no valid HTTP request gets a JSON error with the security headers, and no line of log."""

import json
import socket
from collections.abc import Iterator
from http.client import HTTPResponse

import pytest

from config.server import security_headers
from tests.start.running import web_worker


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with web_worker() as port:
        yield port


def send(port: int, head: bytes) -> HTTPResponse:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(head)
        response = HTTPResponse(client)
        response.begin()
        response.body = response.read()  # type: ignore[attr-defined]
        return response


@pytest.mark.parametrize(
    ("head", "status", "code"),
    [
        (b"GET x HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad_request"),
        (b"<script>\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/9\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nNo colon\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 500 + b"\r\n", 431, "headers_too_large"),
        (
            b"POST /v2/track HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: tea\r\n\r\n",
            501,
            "not_implemented",
        ),
        (
            b"POST /v2/track HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n",
            417,
            "expectation_failed",
        ),
    ],
)
def test_the_error_is_json_and_repeats_nothing(
    head: bytes, status: int, code: str, port: int
) -> None:
    response = send(port, head)
    assert response.status == status
    error = json.loads(response.body)["error"]  # type: ignore[attr-defined]
    assert error["code"] == code
    assert "script" not in error["message"]
    assert response.headers["Content-Type"] == "application/json"
    for name, value in security_headers.HEADERS:
        assert response.headers[name] == value
