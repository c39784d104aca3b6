"""What a door answers besides 202: refusals in one shape, and 503 while nothing can be stored."""

import json

import pytest
from django.test import Client

from ingestion.inbox import group_commit as inbox
from tests.cases import each
from tests.ingestion.conftest import Accepted, Post
from tests.ingestion.examples import MINIMAL, PATHS, refusal


def test_an_error_says_what_is_wrong_and_where(post: Post) -> None:
    response = post("/v2/identify", {})
    assert json.loads(response.content) == {
        "error": {
            "code": "missing_field",
            "message": "userId is required and must be a non-empty string.",
            "field": "userId",
        }
    }


def test_an_error_without_a_field_has_no_field(post: Post) -> None:
    assert json.loads(post("/v2/identify", []).content) == {
        "error": {"code": "not_an_object", "message": "The body must be a JSON object."}
    }


@each("path", PATHS)
def test_nothing_of_a_rejected_request_is_queued(
    path: str, post: Post, accepted: list[Accepted]
) -> None:
    assert post(path, MINIMAL[path] | {"timestamp": "never"}).status_code == 400
    assert accepted == []


@each("path", PATHS)
@each("accept", ["text/html", "application/xml", "nonsense", "*/*;q=0", "é"])
def test_the_answer_does_not_depend_on_what_the_client_says_it_accepts(
    path: str, accept: str, post: Post
) -> None:
    assert post(path, MINIMAL[path], HTTP_ACCEPT=accept).status_code == 202
    assert post(path + "?format=xml", MINIMAL[path], HTTP_ACCEPT=accept).status_code == 202
    assert refusal(post(path, [], HTTP_ACCEPT=accept)) == (400, "not_an_object", None)
    assert post(path + "?format=xml&%00=%ff", []).status_code == 400


@each("path", PATHS)
def test_202_has_no_body_and_no_type(path: str, post: Post) -> None:
    response = post(path, MINIMAL[path])
    assert response.content == b""
    assert response["Content-Length"] == "0"
    assert not response.has_header("Content-Type")
    assert not response.cookies


@each("path", PATHS)
@each("method", ["GET", "PUT", "PATCH", "DELETE", "TRACE", "BREW", "post_"])
def test_other_methods_are_not_allowed(path: str, method: str, client: Client) -> None:
    response = client.generic(method, path, b"{}")
    assert refusal(response) == (405, "method_not_allowed", None)
    assert response["Allow"] == "POST, OPTIONS"


@each("path", PATHS)
def test_head_is_not_allowed_either(path: str, client: Client) -> None:
    response = client.head(path)
    assert (response.status_code, response["Allow"]) == (405, "POST, OPTIONS")


@pytest.mark.parametrize("path", PATHS)
def test_503_says_when_to_try_again(path: str, post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    def accept(*arguments: object) -> None:
        raise inbox.InboxUnavailable(7)

    monkeypatch.setattr(inbox, "accept", accept)
    response = post(path, MINIMAL[path])
    assert refusal(response) == (503, "unavailable", None)
    assert response["Retry-After"] == "7"


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (
            "/v2/track",
            {"user_id": "a", "event": "x"},
            "You sent user_id; this endpoint expects userId.",
        ),
        ("/v2/identify", {"UserID": "a"}, "You sent UserID; this endpoint expects userId."),
        ("/v2/group", {"group-id": "a"}, "You sent group-id; this endpoint expects groupId."),
        ("/v1/users", {"userId": "a"}, "You sent userId; this endpoint expects user_id."),
    ],
)
def test_a_field_in_another_spelling_is_pointed_out(
    path: str, body: dict[str, str], message: str, post: Post
) -> None:
    error = json.loads(post(path, body).content)["error"]
    assert error["code"] == "missing_field"
    assert error["message"].endswith(f"must be a non-empty string. {message}")


@pytest.mark.parametrize(
    "body", [{}, {"": 1}, {"u" * 99: 1}, {"userId": ""}, {"user id": "secret"}]
)
def test_nothing_else_that_was_sent_is_quoted(body: dict[str, str], post: Post) -> None:
    error = json.loads(post("/v2/identify", body).content)["error"]
    assert error["message"] == "userId is required and must be a non-empty string."


def test_broken_json_says_where(post: Post) -> None:
    error = json.loads(post("/v2/track", b'{"userId": oops}').content)["error"]
    assert error["message"] == "The body is not valid JSON at byte 11."
