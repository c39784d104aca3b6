"""Rate limit headers, validators, and compression."""

import gzip
from typing import Any

import pytest
from django.test import Client

from engagement.models import Workspace
from tests.readapi.conftest import Reads
from tests.readapi.rows import make_account


@pytest.fixture
def address(workspace: Workspace) -> str:
    for number in range(20):
        make_account(workspace, f"account-{number}", number)
    return f"/v2/accounts?workspace_id={workspace.pk}"


@pytest.fixture
def client(acme_token: str) -> Client:
    return Client(headers={"authorization": f"Bearer {acme_token}"})


def test_every_answer_to_a_token_says_what_is_left(
    address: str, acme_reads: Reads, settings: Any
) -> None:
    settings.READ_REQUESTS_PER_MINUTE = 3
    for url, status, expected_remaining in (
        (address, 200, 2),
        ("/v2/accounts", 400, 1),
        (address.replace("=", "=99999"), 404, 0),
        (address, 429, 0),
    ):
        response = acme_reads(url)
        assert response.status_code == status
        assert response.headers["RateLimit-Policy"] == '"minute";q=3;w=60'
        name, remaining, reset = response.headers["RateLimit"].split(";")
        assert (name, remaining) == ('"minute"', f"r={expected_remaining}")
        assert 1 <= int(reset.removeprefix("t=")) <= 60
    assert response.headers["Retry-After"] == reset.removeprefix("t=")


def test_without_a_limit_or_a_token_there_is_no_rate_limit(
    address: str, acme_reads: Reads, settings: Any
) -> None:
    assert "RateLimit" not in Client().get(address).headers
    settings.READ_REQUESTS_PER_MINUTE = 0
    assert "RateLimit" not in acme_reads(address).headers


def test_an_unchanged_response_is_not_sent_again(
    address: str, client: Client, workspace: Workspace
) -> None:
    first = client.get(address)
    etag = first.headers["ETag"]
    assert etag.startswith('W/"')
    assert first.headers["Cache-Control"] == "private, no-cache"
    for header in (etag, f'"other", {etag}', etag.removeprefix("W/") + f", {etag}", "*"):
        again = client.get(address, headers={"if-none-match": header})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["ETag"] == etag
        assert again.headers["Cache-Control"] == "private, no-cache"
        assert "RateLimit" in again.headers and "Content-Type" not in again.headers
        assert "Content-Length" not in again.headers
    make_account(workspace, "another", 50)
    changed = client.get(address, headers={"if-none-match": etag})
    assert changed.status_code == 200 and changed.headers["ETag"] != etag


def test_an_error_has_no_validator(client: Client) -> None:
    response = client.get("/v2/accounts", headers={"if-none-match": "*"})
    assert response.status_code == 400 and "ETag" not in response.headers
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5, *;q=0", True),
        ("deflate,gzip", True),
        ("", False),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000, br", False),
    ],
)
def test_json_is_compressed_for_clients_that_accept_it(
    accepted: str, compressed: bool, address: str, client: Client
) -> None:
    plain = client.get(address)
    response = client.get(address, headers={"accept-encoding": accepted})
    assert (response.headers.get("Content-Encoding") == "gzip") is compressed
    assert response.headers["Content-Length"] == str(len(response.content))
    content = gzip.decompress(response.content) if compressed else response.content
    assert content == plain.content
    assert response.headers["ETag"] == plain.headers["ETag"]
    assert "Accept-Encoding" in response.headers["Vary"]


def test_a_small_response_is_not_compressed(client: Client) -> None:
    response = client.get("/v2/accounts", headers={"accept-encoding": "gzip"})
    assert "Content-Encoding" not in response.headers
