"""Pages of any origin may send data."""

import pytest
from django.test import Client

from ingestion import inbox
from tests.ingestion.conftest import Post
from tests.ingestion.examples import MINIMAL, PATHS

ORIGIN = "https://app.example.com"


@pytest.mark.parametrize("path", PATHS)
def test_a_preflight_is_answered(path: str, client: Client) -> None:
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
    assert response["Access-Control-Allow-Headers"] == (
        "Authorization, Content-Type, Content-Encoding, Idempotency-Key"
    )
    assert not response.has_header("Access-Control-Allow-Credentials")


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_may_be_read_by_the_page(
    path: str, post: Post, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [
        post(path, MINIMAL[path], HTTP_ORIGIN=ORIGIN),
        post(path, b"{", HTTP_ORIGIN=ORIGIN),
        post(path, b" " * 70_000, HTTP_ORIGIN=ORIGIN),
        post(path, b"{}", HTTP_CONTENT_ENCODING="br"),
        client.get(path),
        client.options(path),
    ]

    def accept(*arguments: object) -> None:
        raise inbox.Unavailable(1)

    monkeypatch.setattr(inbox, "accept", accept)
    answers.append(post(path, MINIMAL[path]))
    assert [answer.status_code for answer in answers] == [202, 400, 413, 415, 405, 200, 503]
    assert {answer["Access-Control-Allow-Origin"] for answer in answers} == {"*"}
