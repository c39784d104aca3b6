"""Segment's wire format: messages with a type, one by one or in batches.

Comments about SDKs describe what they actually send (tests/clients): analytics-python,
analytics-node and analytics-next by Segment, and RudderStack's SDKs for Python and Node.js.
"""

import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, TypeAlias

import msgspec

from engagement.messages import Alias, Group, Identify, Message, Track, Traits
from ingestion.doors import DecodedRequest, field_types, fields
from ingestion.doors.bodies import (
    MAX_BATCH_MESSAGES,
    MAX_SINGLE_BODY_BYTES,
    decode_in_turn,
    too_many_messages,
)
from ingestion.doors.clocks import Clock, read_sent_at, read_time
from ingestion.doors.decoding import make_decoder
from ingestion.doors.headers import Headers, idempotency_key
from ingestion.doors.message_ids import short_message_id, with_message_ids
from ingestion.doors.segment_keys import sdk_key, webhook_key
from ingestion.errors import IngestionError, invalid_field
from ingestion.models import DropReason
from ingestion.payloads import Payload, UnusableMessage

KINDS = ("identify", "group", "track", "page", "screen", "alias")

# Bytes of a batch after which its decoding pauses.
PAUSE_BYTES = 256 * 1024

# Up to here, every integer has its own float.
LARGEST_EXACT_FLOAT = 2**53

FieldReader: TypeAlias = Callable[[object, str], str | None]
FieldValidator: TypeAlias = Callable[[str | None, str], str | None]


class SegmentContext(msgspec.Struct, rename="camel"):
    group_id: field_types.AnyGroupId = None
    traits: Any = None


class SegmentBody(msgspec.Struct, rename="camel"):
    """A message of any type. Each type checks only the fields that it uses."""

    type: Annotated[Any, msgspec.Meta(description="The message's type.")] = None
    user_id: field_types.AnyUserId = None
    anonymous_id: field_types.AnonymousId = None
    previous_id: field_types.PreviousId = None
    group_id: field_types.AnyGroupId = None
    event: field_types.AnyEvent = None
    name: field_types.ViewName = None
    traits: field_types.AnyTraits = None
    context: Annotated[
        SegmentContext | field_types.PhpEmptyObject | None,
        msgspec.Meta(description="`groupId` is the account."),
    ] = None
    timestamp: field_types.AnyTime = None
    original_timestamp: Any = None
    sent_at: field_types.SentAt = None
    received_at: Any = None
    message_id: field_types.AnyMessageId = None
    write_key: field_types.WriteKey = None


class SegmentBatchBody(msgspec.Struct, rename="camel"):
    """Messages that name their types. An invalid one is listed as dropped; the others count."""

    batch: Annotated[
        list[msgspec.Raw] | None,
        msgspec.Meta(
            description="The messages.", extra_json_schema={"maxItems": MAX_BATCH_MESSAGES}
        ),
    ] = None
    sent_at: field_types.SentAtOfBatch = msgspec.field(default_factory=msgspec.Raw)
    write_key: field_types.WriteKeyOfBatch = msgspec.field(default_factory=msgspec.Raw)


_decode = make_decoder(SegmentBody)
_decode_batch = make_decoder(SegmentBatchBody)
_decode_text = msgspec.json.Decoder(str).decode

_EMPTY_OBJECT = re.compile(r"\s*\{\s*\}\s*", re.ASCII)


def webhook(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    """One message from another pipeline, which tests the connection with ``{}``."""
    call = _decode(body)
    key = webhook_key(headers, call.write_key)
    if _EMPTY_OBJECT.fullmatch(body):
        return DecodedRequest((), key)
    message_id = _message_id(call, headers)
    return DecodedRequest((_message(call, call.type, message_id, Clock(received_at)),), key)


def identify(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    return _call("identify", body, headers, received_at)


def group(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    return _call("group", body, headers, received_at)


def track(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    return _call("track", body, headers, received_at)


def page(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    return _call("page", body, headers, received_at)


def screen(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    return _call("screen", body, headers, received_at)


def alias(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    return _call("alias", body, headers, received_at)


def _call(kind: str, body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    """One message of the URL's type. The body's ``type`` is ignored."""
    call = _decode(body)
    message_id = _message_id(call, headers)
    message = _message(call, kind, message_id, Clock(received_at))
    return DecodedRequest((message,), sdk_key(headers, call.write_key))


def batch(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    """Many messages. Invalid ones become notes, which the drain lists as dropped."""
    batch_body = _decode_batch(body)
    if batch_body.batch is None:
        raise IngestionError(
            400, "missing_field", "batch is required and must be an array.", "batch"
        )
    if len(batch_body.batch) > MAX_BATCH_MESSAGES:
        raise too_many_messages()
    clock = Clock(received_at, read_sent_at(_text_of(batch_body.sent_at)))
    if len(body) > PAUSE_BYTES:
        messages = _large_batch(batch_body.batch, clock, len(body))
    else:
        messages = [_batch_message(raw, clock) for raw in batch_body.batch]
    if key := idempotency_key(headers):
        messages = with_message_ids(messages, key)
    return DecodedRequest(messages, sdk_key(headers, _text_of(batch_body.write_key)))


def line(text: str, received_at: datetime) -> Message | None:
    """A line of a file that Segment wrote: a message that names its type, or None if it names
    nobody. Raises IngestionError."""
    call = _decode(text)
    message_id = _optional_id(short_message_id, call.message_id, "messageId")
    clock = Clock(received_at, read_sent_at(call.sent_at))
    message = _message(call, call.type, message_id, clock)
    return None if isinstance(message, UnusableMessage) else message


# --- Messages -------------------------------------------------------------------------------


def _large_batch(batch: list[msgspec.Raw], clock: Clock, size: int) -> list[Payload]:
    """The messages. Other requests of the process get a turn now and then: traits of many small
    values take a second per megabyte.
    """
    messages: list[Payload] = []
    since_pause = 0
    with decode_in_turn(size):
        for raw in batch:
            messages.append(_batch_message(raw, clock))
            since_pause += len(raw)
            if since_pause > PAUSE_BYTES:
                since_pause = 0
                time.sleep(0)
    return messages


def _batch_message(raw: msgspec.Raw, clock: Clock) -> Payload:
    """The message, or a note about it if it is invalid."""
    call = SegmentBody()
    try:
        if len(raw) > MAX_SINGLE_BODY_BYTES:
            raise _too_large()
        call = _decode(str(raw, "utf-8"))
        message_id = _optional_id(short_message_id, call.message_id, "messageId")
        return _message(call, call.type, message_id, clock)
    except IngestionError as error:
        # The usual text is about the whole body.
        is_object = error.code != "not_an_object"
        detail = error.message if is_object else "A message must be a JSON object."
        return _note(call, DropReason.INVALID, call.type, detail)


def _message(call: SegmentBody, kind: object, message_id: str | None, clock: Clock) -> Payload:
    """The body as a message of that kind. Raises IngestionError."""
    match kind:
        case "track":
            return _track(call, message_id, clock)
        case "identify":
            return _identify(call, message_id, clock)
        case "group":
            return _group(call, message_id, clock)
        case "page" | "screen":
            return _view(call, kind, message_id, clock)
        case "alias":
            return _alias(call, message_id, clock)
    raise invalid_field("type", f"type must be one of {', '.join(KINDS)}.")


def _identify(call: SegmentBody, message_id: str | None, clock: Clock) -> Payload:
    if _is_anonymous(call):
        return _note(call, DropReason.ANONYMOUS, "identify")
    # RudderStack's SDKs put the traits into the context.
    traits: Traits = {}
    if isinstance(call.context, SegmentContext):
        traits = _object(call.context.traits, "context.traits")
    return Identify(
        user_id=fields.required_id(_id(call.user_id, "userId"), "userId"),
        timestamp=_time(call, clock),
        traits=fields.traits(traits | _object(call.traits, "traits")),
        group_id=_optional_id(fields.optional_id, call.group_id, "groupId") or _account(call),
        message_id=message_id,
    )


def _group(call: SegmentBody, message_id: str | None, clock: Clock) -> Payload:
    # The context's traits describe the user.
    return Group(
        group_id=fields.required_id(_id(call.group_id, "groupId"), "groupId"),
        timestamp=_time(call, clock),
        traits=fields.traits(_object(call.traits, "traits")),
        user_id=_optional_id(fields.optional_id, call.user_id, "userId"),
        message_id=message_id,
    )


def _track(call: SegmentBody, message_id: str | None, clock: Clock) -> Payload:
    if _is_anonymous(call):
        return _note(call, DropReason.ANONYMOUS, "track")
    event = fields.event_name(_string(call.event, "event"), "event")
    return _track_of(call, event, message_id, clock)


def _view(call: SegmentBody, kind: str, message_id: str | None, clock: Clock) -> Payload:
    """A track that is named after the viewed page or screen."""
    if _is_blank(call.user_id):
        return _note(call, DropReason.ANONYMOUS, kind)
    noun = kind.title()
    # RudderStack's SDKs for apps put the name of a screen into the event.
    name = _string(call.event if _is_blank(call.name) else call.name, "name")
    if not name or name.isspace():
        return _track_of(call, f"Viewed {noun}", message_id, clock)
    room = fields.MAX_EVENT_LENGTH - len(f"Viewed  {noun}")
    if len(name) > room:
        raise invalid_field("name", f"name must be at most {room} characters.")
    event = fields.event_name(f"Viewed {name} {noun}", "name")
    return _track_of(call, event, message_id, clock)


def _track_of(call: SegmentBody, event: str, message_id: str | None, clock: Clock) -> Track:
    return Track(
        user_id=fields.required_id(_id(call.user_id, "userId"), "userId"),
        event=event,
        timestamp=_time(call, clock),
        group_id=_account(call),
        message_id=message_id,
    )


def _alias(call: SegmentBody, message_id: str | None, clock: Clock) -> Payload:
    # In a browser, the previous id is the anonymous one unless the caller names another. Nothing is
    # ever recorded of an anonymous id, so there is nothing to join.
    names_nobody = _is_blank(call.previous_id) or call.previous_id == call.anonymous_id
    if not _is_blank(call.anonymous_id) and (names_nobody or _is_blank(call.user_id)):
        return _note(call, DropReason.ANONYMOUS, "alias")
    return Alias(
        user_id=fields.required_id(_id(call.user_id, "userId"), "userId"),
        previous_id=fields.required_id(_id(call.previous_id, "previousId"), "previousId"),
        timestamp=_time(call, clock),
        message_id=message_id,
    )


def _account(call: SegmentBody) -> str | None:
    """The account id in the context."""
    group_id = call.context.group_id if isinstance(call.context, SegmentContext) else None
    return _optional_id(fields.optional_id, group_id, "context.groupId")


# --- What is not recorded -------------------------------------------------------------------


def _is_anonymous(call: SegmentBody) -> bool:
    return _is_blank(call.user_id) and not _is_blank(call.anonymous_id)


def _is_blank(value: object) -> bool:
    """Whether the field has no value. SDKs leave it out, or send null or an empty string."""
    return value is None or value == ""


def _note(call: SegmentBody, reason: DropReason, kind: object, detail: str = "") -> UnusableMessage:
    return UnusableMessage(
        reason=reason,
        kind=kind if isinstance(kind, str) and kind in KINDS else "unknown",
        detail=detail,
        event=_if_valid(_string, fields.event_name, call.event),
        message_id=_if_valid(_id, short_message_id, call.message_id),
    )


def _if_valid(read: FieldReader, check: FieldValidator, value: object) -> str | None:
    if _is_blank(value):
        return None
    try:
        return check(read(value, ""), "")
    except IngestionError:
        return None


# --- Fields ---------------------------------------------------------------------------------


def _message_id(call: SegmentBody, headers: Headers) -> str | None:
    """The message id of a single message, from its body or the header."""
    if _is_blank(call.message_id):
        return short_message_id(idempotency_key(headers), "Idempotency-Key")
    return _optional_id(short_message_id, call.message_id, "messageId")


def _time(call: SegmentBody, clock: Clock) -> datetime:
    """When it happened. RudderStack's SDKs send originalTimestamp unless the caller gave a time."""
    value = call.original_timestamp if call.timestamp is None else call.timestamp
    if value is None:
        return clock.received_at
    # With receivedAt, another pipeline has already corrected the timestamp.
    if call.received_at is not None:
        return read_time(value, None, clock.received_at)
    return read_time(value, clock.sent_at or read_sent_at(call.sent_at), clock.received_at)


def _optional_id(check: FieldValidator, value: object, field: str) -> str | None:
    return None if _is_blank(value) else check(_id(value, field), field)


def _id(value: object, field: str) -> str | None:
    """The identifier as text. Segment's SDKs send numbers for applications that number their users
    and accounts.

    A float beyond 2**53 is an error, because it may represent a different integer.
    """
    if value is None or isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    if type(value) is float and value.is_integer() and abs(value) <= LARGEST_EXACT_FLOAT:
        return str(int(value))
    raise invalid_field(field, f"{field} must be a string or an integer.")


def _string(value: object, field: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise invalid_field(field, f"{field} must be a string.")


def _object(value: object, field: str) -> Traits:
    # PHP writes an empty object as an array.
    if value is None or value == []:
        return {}
    if isinstance(value, dict):
        return value
    raise invalid_field(field, f"{field} must be an object.")


def _text_of(value: msgspec.Raw) -> str | None:
    """The value, if it is a string. Anything else, such as a number out of range, is ignored."""
    try:
        return _decode_text(value)
    except msgspec.MsgspecError:
        return None


def _too_large() -> IngestionError:
    message = f"A message must be at most {MAX_SINGLE_BODY_BYTES:,} bytes."
    return IngestionError(413, "payload_too_large", message)
