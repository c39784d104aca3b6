"""Identifiers and event names are strings, kept exactly as they were sent."""

from typing import Any

from engagement.messages import Track
from tests.cases import each
from tests.ingestion.conftest import Accepted, Post
from tests.ingestion.examples import IDENTIFIERS, MINIMAL, OPTIONAL, REQUIRED, refusal

VERBATIM = [
    "0",
    "null",
    " ada ",
    "Ada@Example.com",
    "Ada Lovelace",
    "adá/…?&#%00",
    "日本語",
    "👩‍👩‍👧",
    "a\u2028b",
    "\ufffd",
    "\uffff",
    "\ue000",
    "a\u00a0b",
    "\\ud800",
]
CONTROL_CHARACTERS = ["a\0", "\n a", "a\tb", "a\x1b", "a\x7f", "a\x85b"]


@each(("path", "field"), IDENTIFIERS)
@each("value", VERBATIM)
def test_a_text_is_kept_verbatim(
    path: str, field: str, value: str, post: Post, accepted: list[Accepted]
) -> None:
    assert post(path, MINIMAL[path] | {field: value}).status_code == 202
    name = {"userId": "user_id", "groupId": "group_id"}.get(field, field)
    assert getattr(accepted[0].message, name) == value


@each(("path", "field"), REQUIRED)
@each("value", [None, "", " ", "\t\n", "\u3000"])
def test_what_is_required_must_not_be_blank(
    path: str, field: str, value: str | None, post: Post
) -> None:
    assert refusal(post(path, MINIMAL[path] | {field: value})) == (400, "missing_field", field)


@each(("path", "field"), REQUIRED)
def test_what_is_required_must_be_there(path: str, field: str, post: Post) -> None:
    body = {name: value for name, value in MINIMAL[path].items() if name != field}
    response = post(path, body)
    assert refusal(response) == (400, "missing_field", field)
    assert f"{field} is required and must be a non-empty string." in response.content.decode()


@each(("path", "field"), OPTIONAL)
@each("value", ["", " "])
def test_what_is_optional_must_not_be_blank(path: str, field: str, value: str, post: Post) -> None:
    assert refusal(post(path, MINIMAL[path] | {field: value})) == (400, "invalid_field", field)


@each(("path", "field"), IDENTIFIERS)
@each("value", [5, 1.5, True, [], {}, ["ada"], 10**30])
def test_nothing_but_a_string_will_do(path: str, field: str, value: Any, post: Post) -> None:
    assert refusal(post(path, MINIMAL[path] | {field: value})) == (400, "invalid_field", field)


@each(("path", "field"), IDENTIFIERS)
@each("value", CONTROL_CHARACTERS)
def test_control_characters_are_rejected(path: str, field: str, value: str, post: Post) -> None:
    assert refusal(post(path, MINIMAL[path] | {field: value})) == (400, "invalid_field", field)


@each(("path", "field"), IDENTIFIERS)
@each("escape", [b"\\ud800", b"\\uDFFF", b"\\ud83d\\ud83d\\ude00"])
def test_lone_surrogates_are_rejected(path: str, field: str, escape: bytes, post: Post) -> None:
    body = b"{%s}" % b", ".join(
        b'"%s": "%s"' % (name.encode(), escape if name == field else value.encode())
        for name, value in (MINIMAL[path] | {field: ""}).items()
    )
    assert refusal(post(path, body)) == (400, "invalid_field", field)


def test_a_surrogate_pair_is_one_character(post: Post, accepted: list[Accepted]) -> None:
    post("/v2/track", b'{"userId": "\\ud83d\\ude00", "event": "e", "x": "\\ud800"}')
    message = accepted[0].message
    assert isinstance(message, Track)
    assert message.user_id == "😀"


@each(("path", "field"), IDENTIFIERS)
def test_lengths_count_characters(path: str, field: str, post: Post) -> None:
    limit = 256 if field == "event" else 512
    fits, too_long = "😀" * limit, "a" * (limit + 1)
    assert post(path, MINIMAL[path] | {field: fits}).status_code == 202
    response = post(path, MINIMAL[path] | {field: too_long})
    assert refusal(response) == (400, "invalid_field", field)
    assert str(limit) in response.content.decode()


@each("value", ["", "\0", "a" * 513, 5])
def test_the_group_of_a_context_is_checked_too(value: Any, post: Post) -> None:
    response = post("/v2/track", MINIMAL["/v2/track"] | {"context": {"groupId": value}})
    assert refusal(response) == (400, "invalid_field", "context.groupId")


@each("value", ["initech", 5, [], True])
def test_a_context_is_an_object(value: Any, post: Post) -> None:
    response = post("/v2/track", MINIMAL["/v2/track"] | {"context": value})
    assert refusal(response) == (400, "invalid_field", "context")
