"""The legacy wire format: snake_case names, Unix milliseconds, the key in the body."""

from datetime import datetime

import msgspec

from engagement.messages import Group, Identify, Track
from ingestion import timestamps
from ingestion.doors import DecodedRequest, field_types, fields
from ingestion.doors.decoding import make_decoder
from ingestion.doors.headers import Headers, idempotency_key, replace_nul


class LegacyUserBody(msgspec.Struct):
    """Identifies a user."""

    api_key: field_types.KeyInBody = None
    user_id: field_types.UserId = None
    traits: field_types.OptionalTraits = None
    group_id: field_types.GroupId = None
    timestamp: field_types.UnixMilliseconds = None
    message_id: field_types.MessageId = None


class LegacyGroupBody(msgspec.Struct):
    """Describes an account."""

    api_key: field_types.KeyInBody = None
    group_id: field_types.GroupId = None
    traits: field_types.OptionalTraits = None
    user_id: field_types.UserId = None
    timestamp: field_types.UnixMilliseconds = None
    message_id: field_types.MessageId = None


class LegacyEventBody(msgspec.Struct):
    """Tracks an event."""

    api_key: field_types.KeyInBody = None
    user_id: field_types.UserId = None
    event: field_types.Event = None
    timestamp: field_types.UnixMilliseconds = None
    message_id: field_types.MessageId = None


_decode_user = make_decoder(LegacyUserBody)
_decode_group = make_decoder(LegacyGroupBody)
_decode_event = make_decoder(LegacyEventBody)


def user(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    call = _decode_user(body)
    message = Identify(
        user_id=fields.required_id(call.user_id, "user_id"),
        timestamp=timestamps.from_milliseconds(call.timestamp, received_at),
        traits=fields.traits(call.traits),
        group_id=fields.optional_id(call.group_id, "group_id"),
        message_id=_message_id(call.message_id, headers),
    )
    return DecodedRequest((message,), _key(call.api_key))


def group(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    call = _decode_group(body)
    message = Group(
        group_id=fields.required_id(call.group_id, "group_id"),
        timestamp=timestamps.from_milliseconds(call.timestamp, received_at),
        traits=fields.traits(call.traits),
        user_id=fields.optional_id(call.user_id, "user_id"),
        message_id=_message_id(call.message_id, headers),
    )
    return DecodedRequest((message,), _key(call.api_key))


def event(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    call = _decode_event(body)
    message = Track(
        user_id=fields.required_id(call.user_id, "user_id"),
        event=fields.event_name(call.event, "event"),
        timestamp=timestamps.from_milliseconds(call.timestamp, received_at),
        message_id=_message_id(call.message_id, headers),
    )
    return DecodedRequest((message,), _key(call.api_key))


def _message_id(value: str | None, headers: Headers) -> str | None:
    if value is None:
        return fields.message_id(idempotency_key(headers), "Idempotency-Key")
    return fields.message_id(value, "message_id")


def _key(value: object) -> str:
    """The key, or "" for a value that is not a string: that is not an error."""
    return replace_nul(value) if isinstance(value, str) else ""
