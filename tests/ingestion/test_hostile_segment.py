"""Whatever is sent in Segment's name, each message becomes one that can be stored or is noted."""

import gzip
import json
from typing import Any

from django.test import Client
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ingestion.doors import Door, segment
from ingestion.errors import IngestionError
from ingestion.payloads import Payload, UnusableMessage, decode, encode
from tests.cases import each
from tests.ingestion.conftest import Post
from tests.ingestion.examples import SEGMENT_MINIMAL, SEGMENT_PATHS
from tests.ingestion.test_hostile_input import (
    CODES,
    NOW,
    assert_clean,
    assert_storable,
    at_any_pace,
    headers,
    texts,
    values,
)

CALLS: dict[str, Door] = {
    "identify": segment.identify,
    "group": segment.group,
    "track": segment.track,
    "page": segment.page,
    "screen": segment.screen,
    "alias": segment.alias,
}
DOORS: dict[str, Door] = {**CALLS, "": segment.webhook, "batch": segment.batch}
NAMES = ["type", "userId", "anonymousId", "groupId", "event", "name", "traits", "context"]
NAMES += ["timestamp", "originalTimestamp", "sentAt", "receivedAt", "messageId", "writeKey"]
FULL = {"userId": "ada", "event": "Opened", "groupId": "initech", "name": "Home"}

members = st.dictionaries(st.sampled_from([*NAMES, "properties"]) | texts, values, max_size=6)
kinds = st.sampled_from([*CALLS, "delete", None])
messages = st.builds(lambda kind, changes: FULL | {"type": kind} | changes, kinds, members)
doors = st.sampled_from(sorted(DOORS))
times = st.datetimes().map(lambda moment: moment.isoformat()) | st.sampled_from(
    ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1970-01-01", "24:00", ""]
)


def open_door(door: str, body: str, headers: dict[str, str]) -> list[Payload]:
    """What the door made of the body, after it was checked; nothing where it refused."""
    try:
        contents = DOORS[door](body, headers, NOW)
    except IngestionError as refused:
        assert refused.status in {400, 413}
        assert refused.code in CODES | {"payload_too_large"}
        refused.message.encode()
        return []
    assert "\0" not in contents.key
    for message in contents.messages:
        if isinstance(message, UnusableMessage):
            assert_noted(message)
        else:
            assert_storable(message)
    return list(contents.messages)


def assert_noted(note: UnusableMessage) -> None:
    assert decode(encode(note)) == note
    assert note.kind in {*segment.KINDS, "unknown"}
    for text in (note.event, note.message_id):
        assert_clean(text)
        assert text is None or 0 < len(text) <= 256
    assert note.detail == "" or note.detail.endswith(".")


@at_any_pace
@given(doors, st.text(), headers)
def test_any_text(door: str, body: str, headers: dict[str, str]) -> None:
    open_door(door, body, headers)


@at_any_pace
@given(doors, values, headers)
def test_any_json(door: str, body: Any, headers: dict[str, str]) -> None:
    open_door(door, json.dumps(body), headers)


@at_any_pace
@given(st.sampled_from([*CALLS, ""]), messages, headers)
@example("page", FULL | {"name": "\ud800"}, {})
@example("track", FULL | {"context": {"groupId": "\0", "traits": {"a": 10**400}}}, {})
@example("identify", FULL | {"context": {"traits": {"\ud800": float("inf")}}}, {})
@example("identify", FULL | {"traits": {str(i): i for i in range(300)}}, {})
def test_any_message_that_comes_alone(
    door: str, body: dict[str, Any], headers: dict[str, str]
) -> None:
    assert len(open_door(door, json.dumps(body), headers)) <= 1


@at_any_pace
@given(st.lists(messages | values, max_size=5), members, headers)
@example([10**4200, {"type": "track", "userId": 1e308 * 10}, None], {}, {})
@example([FULL], {"writeKey": float("inf"), "sentAt": 1e308 * 10}, {})
def test_in_a_batch_each_message_becomes_one(
    batch: list[Any], changes: dict[str, Any], headers: dict[str, str]
) -> None:
    # With NaN and Infinity, as Python writes them.
    body = json.dumps(changes | {"batch": batch})
    assert len(open_door("batch", body, headers)) == len(batch)


@at_any_pace
@given(st.lists(messages, min_size=1, max_size=3), st.data())
def test_a_batch_with_a_piece_cut_out_or_put_in(
    batch: list[dict[str, Any]], data: st.DataObject
) -> None:
    body = json.dumps({"batch": batch})
    start = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(start, len(body)))
    open_door("batch", body[:start] + data.draw(st.text(max_size=5)) + body[end:], {})


@at_any_pace
@given(times, times, st.none() | times)
def test_any_clocks(timestamp: str, sent_at: str, received_at: str | None) -> None:
    message = FULL | {"type": "track", "timestamp": timestamp, "receivedAt": received_at}
    (payload,) = open_door("batch", json.dumps({"batch": [message], "sentAt": sent_at}), {})
    assert payload.user_id is not None or isinstance(payload, UnusableMessage)


@at_any_pace
@given(st.sampled_from(SEGMENT_PATHS), st.sampled_from(["identity", "gzip"]), st.binary())
def test_any_bytes_over_http(path: str, encoding: str, body: bytes) -> None:
    # A view of nobody may be any object, and is listed as dropped: that one is not meant.
    assume(not is_object(body))
    response = Client().generic(
        "POST", path, body, "application/json", HTTP_CONTENT_ENCODING=encoding
    )
    assert response.status_code == 400


def is_object(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False


@each("path", SEGMENT_PATHS)
@each("position", range(0, 60, 6))
def test_gzip_damaged_anywhere_over_http(path: str, position: int, post: Post) -> None:
    body = bytearray(gzip.compress(json.dumps(SEGMENT_MINIMAL[path]).encode(), mtime=0))
    body[position % len(body)] ^= 0x5A
    response = post(path, bytes(body), HTTP_CONTENT_ENCODING="gzip")
    assert response.status_code in {200, 202, 400, 413}


@each("path", ["/segment//", "/segment/v1", "/segment/v2/batch", "/segment/v1/x"])
def test_an_address_that_is_none_is_said_so_in_json(path: str, post: Post) -> None:
    response = post(path, {"batch": []})
    assert response.status_code == 404
    assert json.loads(response.content)["error"]["code"] == "not_found"
