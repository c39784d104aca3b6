"""Every wire format becomes the same three messages."""

import json
from datetime import UTC, datetime
from typing import Any

from engagement.messages import Group, Identify, Message, Track
from tests.cases import each
from tests.ingestion.conftest import Accepted, Post
from tests.ingestion.examples import MINIMAL

AT = datetime(2026, 3, 1, 10, 30, tzinfo=UTC)
ISO, MILLISECONDS = "2026-03-01T10:30:00Z", 1772361000000
TRAITS = {"plan": "pro", "seats": 12, "trial": False, "left": None, "tags": ["a", {"b": 1.5}]}

COMPLETE: list[tuple[str, dict[str, Any], Message]] = [
    (
        "/v2/identify",
        {
            "userId": "ada",
            "traits": TRAITS,
            "groupId": "initech",
            "timestamp": ISO,
            "messageId": "m1",
        },
        Identify("ada", AT, TRAITS, "initech", "m1"),
    ),
    (
        "/v2/group",
        {
            "groupId": "initech",
            "traits": TRAITS,
            "userId": "ada",
            "timestamp": ISO,
            "messageId": "m1",
        },
        Group("initech", AT, TRAITS, "ada", "m1"),
    ),
    (
        "/v2/track",
        {
            "userId": "ada",
            "event": "Report exported",
            "timestamp": ISO,
            "context": {"groupId": "initech", "page": {"url": "https://example.com"}},
            "messageId": "m1",
        },
        Track("ada", "Report exported", AT, "initech", "m1"),
    ),
    (
        "/v1/users",
        {
            "api_key": "edk_one",
            "user_id": "ada",
            "traits": TRAITS,
            "group_id": "initech",
            "timestamp": MILLISECONDS,
            "message_id": "m1",
        },
        Identify("ada", AT, TRAITS, "initech", "m1"),
    ),
    (
        "/v1/groups",
        {
            "api_key": "edk_one",
            "group_id": "initech",
            "traits": TRAITS,
            "user_id": "ada",
            "timestamp": MILLISECONDS,
            "message_id": "m1",
        },
        Group("initech", AT, TRAITS, "ada", "m1"),
    ),
    (
        "/v1/events",
        {
            "api_key": "edk_one",
            "user_id": "ada",
            "event": "Report exported",
            "timestamp": MILLISECONDS,
            "message_id": "m1",
        },
        Track("ada", "Report exported", AT, None, "m1"),
    ),
]


@each(("path", "body", "message"), COMPLETE)
def test_a_complete_body_becomes_its_message(
    path: str, body: dict[str, Any], message: Message, post: Post, accepted: list[Accepted]
) -> None:
    response = post(path, body)
    assert (response.status_code, response.content) == (202, b"")
    assert [call.message for call in accepted] == [message]


@each(("path", "body"), MINIMAL.items())
def test_what_is_optional_may_be_absent_or_null(
    path: str, body: dict[str, Any], post: Post, accepted: list[Accepted]
) -> None:
    optional = ["userId", "groupId", "user_id", "group_id", "traits", "timestamp", "context"]
    optional += ["messageId", "message_id", "api_key"]
    nulls = dict.fromkeys(optional)
    assert post(path, body).status_code == 202
    assert post(path, nulls | body).status_code == 202
    absent, null = accepted
    assert absent.message.timestamp == absent.received_at
    assert null.message.timestamp == null.received_at
    same = {"timestamp": absent.received_at}
    assert {**_fields(null.message), **same} == {**_fields(absent.message), **same}


@each(("path", "body"), MINIMAL.items())
def test_properties_and_unknown_keys_are_ignored_whatever_they_hold(
    path: str, body: dict[str, Any], post: Post, accepted: list[Accepted]
) -> None:
    extra = b'"properties": {"price": 1e999, "deep": ' + b"[" * 100 + b"]" * 100 + b"}, "
    extra += b'"anonymousId": 5, "type": [], "\\ud800": "\\ud800", "integrations": {"All": true}'
    response = post(path, b"{" + extra + b', "' + _text(body)[2:])
    assert response.status_code == 202
    values = [value for name, value in _fields(accepted[0].message).items() if name != "timestamp"]
    assert [value for value in values if value] == list(body.values())


def test_v1_has_no_context(post: Post, accepted: list[Accepted]) -> None:
    body = {"user_id": "ada", "event": "Opened", "context": {"groupId": "g", "group_id": "g"}}
    assert post("/v1/events", body).status_code == 202
    assert _fields(accepted[0].message)["group_id"] is None


@each("context", [{}, {"groupId": None}, {"group_id": "initech"}])
def test_a_context_without_a_group_links_nothing(
    context: dict[str, Any], post: Post, accepted: list[Accepted]
) -> None:
    post("/v2/track", MINIMAL["/v2/track"] | {"context": context})
    assert _fields(accepted[0].message)["group_id"] is None


def test_of_a_repeated_key_the_last_value_counts(post: Post, accepted: list[Accepted]) -> None:
    post("/v2/identify", b'{"userId": "eve", "userId": "ada"}')
    assert _fields(accepted[0].message)["user_id"] == "ada"


def _fields(message: Message) -> dict[str, Any]:
    return {name: getattr(message, name) for name in message.__struct_fields__}


def _text(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()
