"""A sender may name a message, in the body or in the Idempotency-Key header."""

from typing import Any

from tests.cases import each
from tests.ingestion.conftest import Accepted, Post
from tests.ingestion.examples import MINIMAL, PATHS, refusal


def field_of(path: str) -> str:
    return "messageId" if path.startswith("/v2") else "message_id"


@each("path", PATHS)
@each(
    ("in_body", "in_header", "expected"),
    [
        ({}, {}, None),
        ({"id": "m1"}, {}, "m1"),
        ({}, {"HTTP_IDEMPOTENCY_KEY": "h1"}, "h1"),
        ({"id": "m1"}, {"HTTP_IDEMPOTENCY_KEY": "h1"}, "m1"),
        ({"id": None}, {"HTTP_IDEMPOTENCY_KEY": "h1"}, "h1"),
        ({"id": "m1"}, {"HTTP_IDEMPOTENCY_KEY": "h" * 1000}, "m1"),
        ({}, {"HTTP_IDEMPOTENCY_KEY": ""}, None),
        ({"id": "é" * 100}, {}, "é" * 100),
        # As a WSGI server hands out UTF-8.
        ({}, {"HTTP_IDEMPOTENCY_KEY": "à".encode().decode("latin-1")}, "à"),
        ({}, {"HTTP_IDEMPOTENCY_KEY": "\xe9"}, "\xe9"),
    ],
)
def test_a_message_id_comes_from_the_body_or_else_the_header(
    path: str,
    in_body: dict[str, Any],
    in_header: dict[str, str],
    expected: str | None,
    post: Post,
    accepted: list[Accepted],
) -> None:
    named = {field_of(path): value for value in in_body.values()}
    assert post(path, MINIMAL[path] | named, **in_header).status_code == 202
    assert accepted[0].message.message_id == expected


@each("path", PATHS)
@each("value", ["", " ", "a" * 101, "a\0", 5, 10**30, [], {"a": 1}, False])
def test_a_message_id_has_1_to_100_characters(path: str, value: Any, post: Post) -> None:
    response = post(path, MINIMAL[path] | {field_of(path): value})
    assert refusal(response) == (400, "invalid_field", field_of(path))


@each("path", PATHS)
@each("value", [" ", "a" * 101, "a\0", "a\n"])
def test_a_header_is_held_to_the_same(path: str, value: str, post: Post) -> None:
    response = post(path, MINIMAL[path], HTTP_IDEMPOTENCY_KEY=value)
    assert refusal(response) == (400, "invalid_field", "Idempotency-Key")
