"""NaN and Infinity, which JSON does not know and Python's json writes, cost what they must only."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from engagement.messages import Identify, Track
from ingestion.doors import lines
from ingestion.errors import IngestionError
from ingestion.models import DropReason
from ingestion.payloads import UnusableMessage
from tests.cases import each
from tests.ingestion.conftest import Accepted, Post
from tests.ingestion.examples import MINIMAL, PATHS, SEGMENT_MINIMAL, refusal

NUMBERS = ["NaN", "Infinity", "-Infinity"]
CALLS = [path for path, body in SEGMENT_MINIMAL.items() if "batch" not in body]
TRACK = {"type": "track", "userId": "ada", "event": "Opened"}
NOW = datetime(2026, 9, 24, 12, tzinfo=UTC)


def with_number(body: dict[str, Any], number: str, *place: str) -> bytes:
    """The body with the number at a place in it, as Python's json writes it."""
    *outer, last = place
    inner = body = json.loads(json.dumps(body))
    for name in outer:
        inner = inner.setdefault(name, {})
    inner[last] = float(number)
    return json.dumps(body).encode()


@each("number", NUMBERS)
@each("path", [*PATHS, *CALLS])
def test_where_a_value_is_ignored_it_costs_nothing(
    path: str, number: str, post: Post, accepted: list[Accepted]
) -> None:
    plain = MINIMAL.get(path) or SEGMENT_MINIMAL[path]
    key = {"HTTP_AUTHORIZATION": "Basic edk_one"}
    for place in (["properties", "price"], ["number"]):
        assert post(path, with_number(plain, number, *place), **key).status_code in {200, 202}
    odd = json.dumps(plain)[:-1] + f', "properties": [1,{number} ,[{number}],{{"a":{number}}}]}}'
    assert post(path, odd.encode(), **key).status_code in {200, 202}
    assert len(accepted) == 3


@each("number", NUMBERS)
@each("path", ["/v2/identify", "/v1/users", "/segment/v1/identify", "/segment"])
def test_in_traits_it_is_an_error_that_names_the_traits(
    path: str, number: str, post: Post, accepted: list[Accepted]
) -> None:
    plain = MINIMAL.get(path) or SEGMENT_MINIMAL[path]
    key = {"HTTP_AUTHORIZATION": "Basic edk_one"}
    response = post(path, with_number(plain, number, "traits", "age"), **key)
    error = json.loads(response.content)["error"]
    assert (response.status_code, error["code"], error["field"]) == (400, "invalid_field", "traits")
    assert (
        error["message"] == "traits contains a number that is out of range. Send a smaller number."
    )
    assert not accepted


@each("number", NUMBERS)
def test_in_a_batch_it_costs_its_own_message_at_most(
    number: str, post: Post, accepted: list[Accepted]
) -> None:
    identify = {"type": "identify", "userId": "ada"}
    batch = {
        "batch": [
            TRACK,
            TRACK | {"properties": {"price": float(number)}},
            identify | {"traits": {"age": float(number), "plan": "pro"}},
            identify | {"traits": {"plan": f'"{number}" and \\ {number}'}},
            TRACK | {"userId": float(number)},
            TRACK | {"timestamp": float(number)},
            float(number),
        ],
        "extra": float(number),
    }
    assert post("/segment/v1/batch", json.dumps(batch).encode()).status_code == 200
    good, with_properties, bad_trait, good_trait, bad_id, bad_time, no_object = (
        call.message for call in accepted
    )
    assert isinstance(good, Track) and isinstance(with_properties, Track)
    assert isinstance(good_trait, Identify)
    # What is text stays as it is.
    assert good_trait.traits == {"plan": f'"{number}" and \\ {number}'}
    for note, detail in (
        (bad_trait, "traits contains a number that is out of range. Send a smaller number."),
        (bad_id, "userId contains a number that is out of range. Send a smaller number."),
        (bad_time, "timestamp contains a number that is out of range. Send a smaller number."),
        (no_object, "A message must be a JSON object."),
    ):
        assert isinstance(note, UnusableMessage)
        assert (note.reason, note.detail) == (DropReason.INVALID, detail)


def test_a_batch_may_hold_half_an_emoji_as_well(post: Post, accepted: list[Accepted]) -> None:
    body = b'{"batch": [{"type": "identify", "userId": "a", "traits": {"a": "\\ud83d"}, "x": NaN}]}'
    assert post("/segment/v1/batch", body).status_code == 200
    assert [call.message.traits for call in accepted] == [{"a": "\ufffd"}]


@each(
    "text",
    [
        "nan",
        "NAN",
        "NaNa",
        "1NaN",
        "-NaN",
        "+Infinity",
        "--Infinity",
        "1-Infinity",
        "Infinity.5",
        "Inf",
        "NaN NaN",
        '"a"NaN',
        'NaN"',
        '"NaN',
        '"NaN\\',
    ],
)
@each("path", ["/v2/track", "/segment/v1/track"])
def test_nothing_else_becomes_json(text: str, path: str, post: Post) -> None:
    response = post(path, b'{"userId": "ada", "event": "x", "y": %s}' % text.encode())
    assert response.status_code == 400
    assert json.loads(response.content)["error"]["code"] == "invalid_json"


@each("path", PATHS)
@each("number", NUMBERS)
def test_it_is_no_identifier(path: str, number: str, post: Post) -> None:
    for field in ("userId", "user_id", "groupId", "group_id"):
        if field in MINIMAL[path]:
            response = post(path, with_number(MINIMAL[path], number, field))
            assert refusal(response) == (400, "invalid_field", field)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_line_of_a_file_is_read_alike(number: str) -> None:
    parsed_line = lines.parse(with_number(TRACK, number, "properties", "price").decode(), NOW)
    assert isinstance(parsed_line.statement, Track)
    with pytest.raises(IngestionError, match="out of range"):
        lines.parse(
            with_number({"type": "identify", "userId": "a"}, number, "traits", "x").decode(), NOW
        )


@each("text", ['"' + '\\"' * 500_000, '""' * 500_000, "-" * 1_000_000, '"' + "\\" * 1_000_000])
def test_looking_for_them_in_a_hostile_body_takes_one_pass(text: str, post: Post) -> None:
    # A pass that began anew at each character would take minutes.
    body = b'{"batch": [NaN, ' + text.encode()
    assert post("/segment/v1/batch", body[: 1024 * 1024]).status_code == 400
