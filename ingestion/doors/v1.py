"""The legacy wire format: snake_case names, Unix milliseconds, the key in the body."""

from datetime import datetime
from typing import Any

import msgspec

from engagement.messages import Group, Identify, Track, Traits
from ingestion import timestamps
from ingestion.doors import DecodedRequest, fields
from ingestion.doors.decoding import make_decoder
from ingestion.doors.headers import Headers, idempotency_key, replace_nul


class LegacyUserBody(msgspec.Struct):
    api_key: Any = None
    user_id: str | None = None
    traits: Traits | None = None
    group_id: str | None = None
    timestamp: int | None = None
    message_id: str | None = None


class LegacyGroupBody(msgspec.Struct):
    api_key: Any = None
    group_id: str | None = None
    traits: Traits | None = None
    user_id: str | None = None
    timestamp: int | None = None
    message_id: str | None = None


class LegacyEventBody(msgspec.Struct):
    api_key: Any = None
    user_id: str | None = None
    event: str | None = None
    timestamp: int | None = None
    message_id: str | None = None


_decode_user = make_decoder(LegacyUserBody)
_decode_group = make_decoder(LegacyGroupBody)
_decode_event = make_decoder(LegacyEventBody)


def user(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    sent = _decode_user(body)
    message = Identify(
        user_id=fields.required_id(sent.user_id, "user_id"),
        timestamp=timestamps.from_milliseconds(sent.timestamp, received_at),
        traits=fields.traits(sent.traits),
        group_id=fields.optional_id(sent.group_id, "group_id"),
        message_id=_message_id(sent.message_id, headers),
    )
    return DecodedRequest((message,), _key(sent.api_key))


def group(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    sent = _decode_group(body)
    message = Group(
        group_id=fields.required_id(sent.group_id, "group_id"),
        timestamp=timestamps.from_milliseconds(sent.timestamp, received_at),
        traits=fields.traits(sent.traits),
        user_id=fields.optional_id(sent.user_id, "user_id"),
        message_id=_message_id(sent.message_id, headers),
    )
    return DecodedRequest((message,), _key(sent.api_key))


def event(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    sent = _decode_event(body)
    message = Track(
        user_id=fields.required_id(sent.user_id, "user_id"),
        event=fields.event_name(sent.event, "event"),
        timestamp=timestamps.from_milliseconds(sent.timestamp, received_at),
        message_id=_message_id(sent.message_id, headers),
    )
    return DecodedRequest((message,), _key(sent.api_key))


def _message_id(value: str | None, headers: Headers) -> str | None:
    if value is None:
        return fields.message_id(idempotency_key(headers), "Idempotency-Key")
    return fields.message_id(value, "message_id")


def _key(value: object) -> str:
    """The key, or "" for a value that is not a string: that is not an error."""
    return replace_nul(value) if isinstance(value, str) else ""
