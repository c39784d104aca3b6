"""The current wire format: camelCase names, ISO 8601 times, the key in the Authorization header."""

from datetime import datetime
from typing import Annotated, Any

import msgspec

from engagement.messages import Group, Identify, Track
from ingestion import timestamps
from ingestion.doors import DecodedRequest, field_types, fields, segment
from ingestion.doors.decoding import make_decoder
from ingestion.doors.headers import Headers, idempotency_key, key_from_basic_auth
from ingestion.errors import invalid_field


class IdentifyBody(msgspec.Struct, rename="camel"):
    """Identifies a user. `groupId` also says which account the user belongs to."""

    user_id: field_types.UserId = None
    traits: field_types.OptionalTraits = None
    group_id: field_types.GroupId = None
    timestamp: field_types.IsoTime = None
    message_id: field_types.MessageId = None


class GroupBody(msgspec.Struct, rename="camel"):
    """Describes an account. `userId` also says which user belongs to it."""

    group_id: field_types.GroupId = None
    traits: field_types.OptionalTraits = None
    user_id: field_types.UserId = None
    timestamp: field_types.IsoTime = None
    message_id: field_types.MessageId = None


class Context(msgspec.Struct, rename="camel"):
    group_id: field_types.GroupId = None


class TrackBody(msgspec.Struct, rename="camel"):
    """Tracks an event. Other fields, such as properties, are ignored and never stored."""

    user_id: field_types.UserId = None
    event: field_types.Event = None
    timestamp: field_types.IsoTime = None
    context: Annotated[
        Context | None, msgspec.Meta(description="`groupId` is the account that it happened in.")
    ] = None
    message_id: field_types.MessageId = None


_decode_identify = make_decoder(IdentifyBody)
_decode_group = make_decoder(GroupBody)
_decode_track = make_decoder(TrackBody)


def identify(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    call = _decode_identify(body)
    message_id = _message_id(call.message_id, headers)
    return DecodedRequest(
        (read_identify(call, received_at, message_id),), key_from_basic_auth(headers)
    )


def group(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    call = _decode_group(body)
    message_id = _message_id(call.message_id, headers)
    return DecodedRequest(
        (read_group(call, received_at, message_id),), key_from_basic_auth(headers)
    )


def track(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    call = _decode_track(body)
    message_id = _message_id(call.message_id, headers)
    return DecodedRequest(
        (read_track(call, received_at, message_id),), key_from_basic_auth(headers)
    )


def batch(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    """Many messages that name their types, as in Segment's format. The key is in the header."""
    messages = segment.batch(body, headers, received_at).messages
    return DecodedRequest(messages, key_from_basic_auth(headers))


class TypedBody(msgspec.Struct):
    """Any message of this format, which names its type."""

    type: Annotated[Any, msgspec.Meta(description="The message's type.")] = None


_decode_type = make_decoder(TypedBody)
_BY_TYPE = {"identify": identify, "group": group, "track": track}


def typed(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    """A message that names its type, for endpoints that take all of them."""
    kind = _decode_type(body).type
    if not isinstance(kind, str) or kind not in _BY_TYPE:
        raise invalid_field("type", f"type must be one of {', '.join(_BY_TYPE)}.")
    return _BY_TYPE[kind](body, headers, received_at)


def read_identify(call: IdentifyBody, received_at: datetime, message_id: str | None) -> Identify:
    """The body as a message, its fields checked. Raises IngestionError."""
    return Identify(
        user_id=fields.required_id(call.user_id, "userId"),
        timestamp=timestamps.from_iso(call.timestamp, received_at),
        traits=fields.traits(call.traits),
        group_id=fields.optional_id(call.group_id, "groupId"),
        message_id=message_id,
    )


def read_group(call: GroupBody, received_at: datetime, message_id: str | None) -> Group:
    """The body as a message, its fields checked. Raises IngestionError."""
    return Group(
        group_id=fields.required_id(call.group_id, "groupId"),
        timestamp=timestamps.from_iso(call.timestamp, received_at),
        traits=fields.traits(call.traits),
        user_id=fields.optional_id(call.user_id, "userId"),
        message_id=message_id,
    )


def read_track(call: TrackBody, received_at: datetime, message_id: str | None) -> Track:
    """The body as a message, its fields checked. Raises IngestionError."""
    account = call.context.group_id if call.context else None
    return Track(
        user_id=fields.required_id(call.user_id, "userId"),
        event=fields.event_name(call.event, "event"),
        timestamp=timestamps.from_iso(call.timestamp, received_at),
        group_id=fields.optional_id(account, "context.groupId"),
        message_id=message_id,
    )


def _message_id(value: str | None, headers: Headers) -> str | None:
    if value is None:
        return fields.message_id(idempotency_key(headers), "Idempotency-Key")
    return fields.message_id(value, "messageId")
