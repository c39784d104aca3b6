"""Whatever is sent, a door answers with messages that can be stored or with its own refusal."""

import gzip
import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

from django.test import Client
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engagement.messages import Identify, Message, Track
from ingestion import timestamps
from ingestion.doors import Door, v1, v2
from ingestion.errors import IngestionError
from ingestion.payloads import UnusableMessage, decode, encode
from proofs.hostile_input import TEXTS
from tests.cases import each
from tests.ingestion.conftest import Post
from tests.ingestion.examples import MINIMAL, PATHS

NOW = datetime(2026, 9, 24, 12, tzinfo=UTC)
DOORS: dict[str, Door] = {
    "/v2/identify": v2.identify,
    "/v2/group": v2.group,
    "/v2/track": v2.track,
    "/v1/users": v1.user,
    "/v1/groups": v1.group,
    "/v1/events": v1.event,
}
CODES = {"invalid_json", "not_an_object", "missing_field", "invalid_field", "invalid_timestamp"}

CONTROL = {chr(code) for code in (*range(32), *range(127, 160))}

# Texts with everything that JSON can carry, lone surrogates and NUL included.
texts = st.text(st.characters(codec=None), max_size=20)
awkward = st.sampled_from([text for text in TEXTS if len(text) < 1000])
numbers = st.integers() | st.integers(10**18, 10**400) | st.floats() | st.just(10**4200)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts | awkward,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
CURRENT_NAMES = ["userId", "groupId", "event", "traits", "timestamp", "messageId", "context"]
LEGACY_NAMES = ["user_id", "group_id", "message_id", "api_key"]
names = st.sampled_from([*CURRENT_NAMES, *LEGACY_NAMES, "properties"])
members = st.dictionaries(names | texts, values, max_size=5)
header_texts = st.text(st.characters(max_codepoint=255), max_size=120)
headers = st.fixed_dictionaries(
    {},
    optional={
        "HTTP_AUTHORIZATION": header_texts | header_texts.map(lambda text: f"Basic {text}"),
        "HTTP_IDEMPOTENCY_KEY": header_texts,
    },
)
paths = st.sampled_from(PATHS)

# A machine may be busy with other tests; speed is not what is tested here.
at_any_pace = settings(deadline=None)


def open_door(path: str, body: str, headers: dict[str, str]) -> Message | None:
    """The message that the door made of it, after it was checked; None where it refused."""
    try:
        contents = DOORS[path](body, headers, NOW)
    except IngestionError as refused:
        assert refused.status == 400
        assert refused.code in CODES
        refused.message.encode()
        return None
    assert "\0" not in contents.key
    (message,) = contents.messages
    assert not isinstance(message, UnusableMessage)
    assert_storable(message)
    return message


def assert_storable(message: Message) -> None:
    """It survives the inbox, fits text and jsonb, and lies in the time that the service knows."""
    assert decode(encode(message)) == message
    for name in message.__struct_fields__:
        assert_clean(getattr(message, name))
    assert timestamps.EPOCH <= message.timestamp <= NOW + timedelta(minutes=5)
    assert message.timestamp.tzinfo is UTC
    for name in ("user_id", "group_id", "event", "message_id"):
        text = getattr(message, name, None)
        assert text is None or (text.strip() and len(text) <= 512)


def assert_clean(value: Any) -> None:
    match value:
        case str():
            assert "\0" not in value
            value.encode()
        case float():
            assert math.isfinite(value)
        case dict():
            for key, item in value.items():
                assert_clean(key)
                assert_clean(item)
        case list():
            for item in value:
                assert_clean(item)


@at_any_pace
@given(paths, st.text(), headers)
def test_any_text(path: str, body: str, headers: dict[str, str]) -> None:
    open_door(path, body, headers)


@at_any_pace
@given(paths, values, headers)
def test_any_json(path: str, body: Any, headers: dict[str, str]) -> None:
    open_door(path, json.dumps(body), headers)


@at_any_pace
@given(paths, members, headers)
@example("/v2/identify", {"traits": {"a": "\ud800", "\0": ["\udfff\0"]}}, {})
@example("/v2/identify", {"traits": {"a\0": 1, "a\ufffd": 2}}, {})
@example("/v2/track", {"timestamp": "0001-01-01T00:00:00+14:00"}, {})
@example("/v1/users", {"timestamp": 10**30}, {})
@example("/v1/users", {"traits": {"a": 10**4200}}, {})
@example("/v1/users", {"traits": {"a": math.inf}}, {})
def test_a_valid_body_with_anything_added_or_replaced(
    path: str, changes: dict[str, Any], headers: dict[str, str]
) -> None:
    open_door(path, json.dumps(MINIMAL[path] | changes), headers)


@at_any_pace
@given(paths, members, st.data())
def test_a_valid_body_with_a_piece_cut_out_or_put_in(
    path: str, changes: dict[str, Any], data: st.DataObject
) -> None:
    body = json.dumps(MINIMAL[path] | changes)
    start = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(start, len(body)))
    open_door(path, body[:start] + data.draw(st.text(max_size=5)) + body[end:], {})


@at_any_pace
@given(
    st.text(min_size=1, max_size=256),
    st.text(min_size=1, max_size=512),
    st.datetimes(datetime(1970, 1, 1), datetime(2026, 9, 24)),
)
def test_a_good_track_is_always_accepted_unchanged(event: str, user: str, at: datetime) -> None:
    good = all(text.strip() and not set(text) & CONTROL for text in (event, user))
    body = json.dumps({"userId": user, "event": event, "timestamp": at.isoformat()})
    track = Track(user, event, at.replace(tzinfo=UTC))
    assert open_door("/v2/track", body, {}) == (track if good else None)


@at_any_pace
@given(st.dictionaries(texts, st.floats(allow_nan=False, allow_infinity=False) | texts))
def test_traits_within_their_limits_are_always_accepted(traits: dict[str, Any]) -> None:
    message = open_door("/v2/identify", json.dumps({"userId": "ada", "traits": traits}), {})
    assert isinstance(message, Identify)
    assert len(message.traits) <= len(traits)
    if message.traits.keys() == traits.keys():
        floats = {key: value for key, value in traits.items() if isinstance(value, float)}
        assert {**message.traits, **floats} == message.traits


@at_any_pace
@given(st.text(st.sampled_from("0123456789-+:.TZtz W,٣\0 "), max_size=35) | st.text())
def test_any_timestamp(text: str) -> None:
    try:
        moment = timestamps.parse_iso(text)
    except IngestionError as refused:
        assert refused.code == "invalid_timestamp"
    else:
        assert moment >= timestamps.EPOCH
        assert moment.tzinfo is UTC


@at_any_pace
@given(path=paths, encoding=st.sampled_from(["identity", "gzip"]), body=st.binary(max_size=200))
def test_any_bytes_over_http(path: str, encoding: str, body: bytes) -> None:
    response = Client().generic(
        "POST", path, body, "application/json", HTTP_CONTENT_ENCODING=encoding
    )
    assert response.status_code == 400


@each("path", PATHS)
@each("position", range(0, 60, 3))
def test_gzip_damaged_anywhere_over_http(path: str, position: int, post: Post) -> None:
    body = bytearray(gzip.compress(json.dumps(MINIMAL[path]).encode(), mtime=0))
    body[position % len(body)] ^= 0x5A
    response = post(path, bytes(body), HTTP_CONTENT_ENCODING="gzip")
    assert response.status_code in {202, 400, 413}
