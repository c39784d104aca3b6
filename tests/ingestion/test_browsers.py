"""Pages of any origin may send data."""

import pytest
from django.test import Client

from ingestion.doors.bodies import MAX_BATCH_BODY_BYTES
from ingestion.inbox import group_commit as inbox
from tests.cases import each
from tests.ingestion.conftest import Post
from tests.ingestion.examples import MINIMAL, PATHS, SEGMENT_MINIMAL, SEGMENT_PATHS

ORIGIN = "https://app.example.com"
EVERY_MINIMAL = MINIMAL | SEGMENT_MINIMAL
ALLOWED = (
    "Authorization, Content-Type, Content-Encoding, Idempotency-Key, X-Request-ID, "
    "X-Retry-Count, AnonymousId, SentAt, traceparent, tracestate"
)
KEY = {"HTTP_ORIGIN": ORIGIN, "HTTP_AUTHORIZATION": "Basic edk_one"}


@each("path", PATHS + SEGMENT_PATHS)
def test_a_preflight_request_gets_the_cors_headers(path: str, client: Client) -> None:
    response = client.options(
        path,
        HTTP_ORIGIN=ORIGIN,
        HTTP_ACCESS_CONTROL_REQUEST_METHOD="POST",
        HTTP_ACCESS_CONTROL_REQUEST_HEADERS="authorization,content-type,idempotency-key",
    )
    assert (response.status_code, response.content) == (200, b"")
    assert response["Access-Control-Allow-Origin"] == "*"
    assert response["Access-Control-Allow-Methods"] == "POST"
    assert response["Access-Control-Max-Age"] == "86400"
    assert response["Access-Control-Allow-Headers"] == ALLOWED
    assert not response.has_header("Access-Control-Allow-Credentials")


def test_a_preflight_request_allows_what_rudderstacks_sdk_sends(client: Client) -> None:
    def allowed(requested: str) -> str:
        response = client.options("/v1/track", HTTP_ACCESS_CONTROL_REQUEST_HEADERS=requested)
        assert response["Vary"] == "Access-Control-Request-Headers"
        return str(response["Access-Control-Allow-Headers"])

    retries = ["rsa-retry-attempt", "Rsa-Time-Since-Last-Attempt"]
    assert allowed(f"anonymousid, sentat,{','.join(retries)}") == ", ".join([ALLOWED, *retries])
    for other in ("cookie", "x-rsa-a", "rsa-", "rsa-a1", "rsa-" + "a" * 41, "rsa-a\xe9", "*", ","):
        assert allowed(other) == ALLOWED
    assert allowed("rsa-a," * 1000).count("rsa-a") == 20


@pytest.mark.parametrize("path", PATHS + SEGMENT_PATHS)
def test_every_answer_may_be_read_by_the_page(
    path: str, post: Post, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [
        post(path, EVERY_MINIMAL[path], **KEY),
        post(path, b"{", **KEY),
        post(path, b" " * (MAX_BATCH_BODY_BYTES + 1), **KEY),
        post(path, b"{}", HTTP_CONTENT_ENCODING="br"),
        client.get(path),
        client.options(path),
    ]

    def accept(*arguments: object) -> None:
        raise inbox.InboxUnavailable(1)

    monkeypatch.setattr(inbox, "accept", accept)
    answers.append(post(path, EVERY_MINIMAL[path], **KEY))
    accepted, *others = [answer.status_code for answer in answers]
    assert accepted in {200, 202}
    assert others == [400, 413, 415, 405, 200, 503]
    assert {answer["Access-Control-Allow-Origin"] for answer in answers} == {"*"}
    # Segment's SDK for browsers waits as long as it is told.
    exposed = {answer["Access-Control-Expose-Headers"] for answer in answers}
    assert exposed == {"Retry-After, X-Request-ID"}
