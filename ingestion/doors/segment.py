"""Segment's wire format: messages that say their type, one by one or in batches.

What is written here of SDKs is what they were seen to send (tests/clients): analytics-python,
analytics-node and analytics-next by Segment, and RudderStack's SDKs for Python and Node.js.
"""

import re
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from engagement.messages import Group, Identify, Track, Traits
from ingestion import timestamps
from ingestion.doors import DecodedRequest, field_types, fields
from ingestion.doors.bodies import MAX_BATCH_MESSAGES, MAX_SINGLE_BODY_BYTES, too_many_messages
from ingestion.doors.decoding import make_decoder
from ingestion.doors.headers import Headers, idempotency_key, key_from_basic_auth, replace_nul
from ingestion.errors import IngestionError, invalid_field
from ingestion.models import DropReason
from ingestion.payloads import Payload, UnusableMessage

KINDS = ("identify", "group", "track", "page", "screen", "alias")

# Every integer up to here has a float of its own.
LARGEST_EXACT_FLOAT = 2**53

FieldReader: TypeAlias = Callable[[object, str], str | None]
FieldValidator: TypeAlias = Callable[[str | None, str], str | None]


class SegmentContext(msgspec.Struct, rename="camel"):
    group_id: field_types.AnyGroupId = None
    traits: Any = None


class SegmentBody(msgspec.Struct, rename="camel"):
    """A message of any type. A field is checked by the types that it means something to."""

    type: Annotated[Any, msgspec.Meta(description="The message's type.")] = None
    user_id: field_types.AnyUserId = None
    anonymous_id: field_types.AnonymousId = None
    previous_id: field_types.PreviousId = None
    group_id: field_types.AnyGroupId = None
    event: field_types.AnyEvent = None
    name: field_types.ViewName = None
    traits: field_types.AnyTraits = None
    context: Annotated[
        SegmentContext | None, msgspec.Meta(description="`groupId` is the account.")
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
    sent_at: field_types.SentAt = None
    write_key: field_types.WriteKey = None


_decode = make_decoder(SegmentBody)
_decode_batch = make_decoder(SegmentBatchBody)

_NOTHING = re.compile(r"\s*\{\s*\}\s*", re.ASCII)
# "Basic", and credentials as RFC 7235 spells them: base64 and our raw keys both are.
_BASIC = re.compile(r"basic +[a-z0-9._~+/-]+=* *", re.ASCII | re.IGNORECASE)


def webhook(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    """One message from another pipeline. ``{}`` is how it tests the connection."""
    sent = _decode(body)
    key = _forwarders_key(headers, sent)
    if _NOTHING.fullmatch(body):
        return DecodedRequest((), key)
    message_id = _message_id(sent, headers)
    return DecodedRequest((_message(sent, sent.type, message_id, _Clock(received_at)),), key)


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
    """One message, of the type that its address says, whatever type it says itself."""
    sent = _decode(body)
    message_id = _message_id(sent, headers)
    message = _message(sent, kind, message_id, _Clock(received_at))
    return DecodedRequest((message,), _key(headers, sent.write_key))


def batch(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
    """Many messages. One that cannot be used is noted to be listed as dropped."""
    sent = _decode_batch(body)
    if sent.batch is None:
        raise IngestionError(
            400, "missing_field", "batch is required and must be an array.", "batch"
        )
    if len(sent.batch) > MAX_BATCH_MESSAGES:
        raise too_many_messages()
    clock = _Clock(received_at, _time_sent(sent.sent_at))
    messages = [_of_batch(raw, clock) for raw in sent.batch]
    if key := idempotency_key(headers):
        messages = _named(messages, key)
    return DecodedRequest(messages, _key(headers, sent.write_key))


# --- Keys -----------------------------------------------------------------------------------


def _key(headers: Headers, write_key: object) -> str:
    """The header's key or, because beacons cannot set headers, the body's."""
    return key_from_basic_auth(headers) or (
        replace_nul(write_key) if isinstance(write_key, str) else ""
    )


def _forwarders_key(headers: Headers, sent: SegmentBody) -> str:
    """The key; raises Refused where there is none, which tells who sets up a pipeline."""
    authorization = headers.get("HTTP_AUTHORIZATION")
    key = _key(headers, sent.write_key)
    if authorization and not (_BASIC.fullmatch(authorization) and key_from_basic_auth(headers)):
        message = "The Authorization header must be Basic and an ingestion key, or base64 of it."
        raise invalid_field("Authorization", message)
    if not key:
        message = "The Authorization header is missing: send Basic and an ingestion key."
        raise IngestionError(400, "missing_field", message, "Authorization")
    return key


# --- Times ----------------------------------------------------------------------------------


class _Clock(NamedTuple):
    """Our time of receipt and what the sender's clock showed, if a batch says that."""

    received_at: datetime
    sent_at: datetime | None = None


def _time(sent: SegmentBody, clock: _Clock) -> datetime:
    """When it happened. RudderStack's SDKs call that originalTimestamp unless it was given."""
    text = sent.original_timestamp if sent.timestamp is None else sent.timestamp
    if text is None:
        return clock.received_at
    if not isinstance(text, str):
        raise timestamps.invalid_timestamp(timestamps.ISO_RULE)
    moment = timestamps.parse_iso(text)
    # A pipeline that received the message before us has corrected its timestamp already.
    if sent.received_at is None:
        sent_at = clock.sent_at or _time_sent(sent.sent_at)
        if sent_at is not None:
            moment = timestamps.correct_clock_skew(moment, sent_at, clock.received_at)
    return timestamps.clamp_to_receipt(moment, clock.received_at)


def _time_sent(value: object) -> datetime | None:
    """The time that sentAt gives; what cannot be read corrects nothing and costs no message."""
    if not isinstance(value, str):
        return None
    try:
        return timestamps.parse_iso(value)
    except IngestionError:
        return None


# --- Messages -------------------------------------------------------------------------------


def _of_batch(raw: msgspec.Raw, clock: _Clock) -> Payload:
    """The message or, where it cannot be used, the note to list it as dropped."""
    sent = SegmentBody()
    try:
        if len(raw) > MAX_SINGLE_BODY_BYTES:
            raise _too_large()
        sent = _decode(str(raw, "utf-8"))
        message_id = _optional_id(fields.message_id, sent.message_id, "messageId")
        return _message(sent, sent.type, message_id, clock)
    except IngestionError as refused:
        # That one speaks of the whole body.
        is_object = refused.code != "not_an_object"
        detail = refused.message if is_object else "A message must be a JSON object."
        return _note(sent, DropReason.UNUSABLE, sent.type, detail)


def _message(sent: SegmentBody, kind: object, message_id: str | None, clock: _Clock) -> Payload:
    """What the body says as a message of that kind; raises Refused."""
    match kind:
        case "track":
            return _track(sent, message_id, clock)
        case "identify":
            return _identify(sent, message_id, clock)
        case "group":
            return _group(sent, message_id, clock)
        case "page" | "screen":
            return _view(sent, kind, message_id, clock)
        case "alias":
            return _note(sent, DropReason.ALIAS, kind)
    raise invalid_field("type", f"type must be one of {', '.join(KINDS)}.")


def _identify(sent: SegmentBody, message_id: str | None, clock: _Clock) -> Payload:
    if _is_anonymous(sent):
        return _note(sent, DropReason.ANONYMOUS, "identify")
    # RudderStack's SDKs put the traits into the context.
    traits = _object(sent.context.traits, "context.traits") if sent.context else {}
    return Identify(
        user_id=fields.required_id(_id(sent.user_id, "userId"), "userId"),
        timestamp=_time(sent, clock),
        traits=fields.traits(traits | _object(sent.traits, "traits")),
        group_id=_optional_id(fields.optional_id, sent.group_id, "groupId") or _account(sent),
        message_id=message_id,
    )


def _group(sent: SegmentBody, message_id: str | None, clock: _Clock) -> Payload:
    # The context's traits would be those of the user.
    return Group(
        group_id=fields.required_id(_id(sent.group_id, "groupId"), "groupId"),
        timestamp=_time(sent, clock),
        traits=fields.traits(_object(sent.traits, "traits")),
        user_id=_optional_id(fields.optional_id, sent.user_id, "userId"),
        message_id=message_id,
    )


def _track(sent: SegmentBody, message_id: str | None, clock: _Clock) -> Payload:
    if _is_anonymous(sent):
        return _note(sent, DropReason.ANONYMOUS, "track")
    event = fields.event_name(_string(sent.event, "event"), "event")
    return _happened(sent, event, message_id, clock)


def _view(sent: SegmentBody, kind: str, message_id: str | None, clock: _Clock) -> Payload:
    """A page or a screen that was looked at, which is a track with a name of its own."""
    if _is_blank(sent.user_id):
        return _note(sent, DropReason.ANONYMOUS, kind)
    noun = kind.title()
    name = _string(sent.name, "name")
    if not name or name.isspace():
        return _happened(sent, f"Viewed {noun}", message_id, clock)
    room = fields.MAX_EVENT_LENGTH - len(f"Viewed  {noun}")
    if len(name) > room:
        raise invalid_field("name", f"name must be at most {room} characters.")
    event = fields.event_name(f"Viewed {name} {noun}", "name")
    return _happened(sent, event, message_id, clock)


def _happened(sent: SegmentBody, event: str, message_id: str | None, clock: _Clock) -> Track:
    return Track(
        user_id=fields.required_id(_id(sent.user_id, "userId"), "userId"),
        event=event,
        timestamp=_time(sent, clock),
        group_id=_account(sent),
        message_id=message_id,
    )


def _account(sent: SegmentBody) -> str | None:
    """The account that the context names."""
    group_id = sent.context.group_id if sent.context else None
    return _optional_id(fields.optional_id, group_id, "context.groupId")


# --- What is not recorded -------------------------------------------------------------------


def _is_anonymous(sent: SegmentBody) -> bool:
    return _is_blank(sent.user_id) and not _is_blank(sent.anonymous_id)


def _is_blank(value: object) -> bool:
    """Absent, as SDKs say that: some leave a field out, some send null or an empty string."""
    return value is None or value == ""


def _note(sent: SegmentBody, reason: DropReason, kind: object, detail: str = "") -> UnusableMessage:
    return UnusableMessage(
        reason=reason,
        kind=kind if isinstance(kind, str) and kind in KINDS else "unknown",
        detail=detail,
        event=_if_good(_string, fields.event_name, sent.event),
        message_id=_if_good(_id, fields.message_id, sent.message_id),
    )


def _if_good(read: FieldReader, check: FieldValidator, value: object) -> str | None:
    if _is_blank(value):
        return None
    try:
        return check(read(value, ""), "")
    except IngestionError:
        return None


# --- Fields ---------------------------------------------------------------------------------


def _message_id(sent: SegmentBody, headers: Headers) -> str | None:
    """The message id of a message that comes alone, from its body or from the header."""
    if _is_blank(sent.message_id):
        return fields.message_id(idempotency_key(headers), "Idempotency-Key")
    return _optional_id(fields.message_id, sent.message_id, "messageId")


def _named(messages: list[Payload], key: str) -> list[Payload]:
    """The messages of a batch, those without a message id named after its key and their place.

    So a batch that is sent again counts once, as a single message does. Any key will do: one that
    is no message id costs no message.
    """
    room = fields.MAX_MESSAGE_ID_LENGTH - len(f"#{MAX_BATCH_MESSAGES}")
    own = [one.message_id for one in messages if one.message_id is not None]
    is_taken = any(one.startswith(f"{key}#") for one in own)
    if is_taken or len(key) > room or key.isspace() or not key.isprintable():
        # A digest always fits, and nobody's own ids look like it.
        key = sha256(key.encode()).hexdigest()
    return [
        one
        if one.message_id is not None or isinstance(one, UnusableMessage)
        else replace(one, message_id=f"{key}#{place}")
        for place, one in enumerate(messages)
    ]


def _optional_id(check: FieldValidator, value: object, field: str) -> str | None:
    return None if _is_blank(value) else check(_id(value, field), field)


def _id(value: object, field: str) -> str | None:
    """The identifier as text. Many applications number their users and accounts, and Segment's
    SDKs send these numbers as they are.

    A float beyond 2**53 is an error, because it may stand for another integer than the one sent.
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
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise invalid_field(field, f"{field} must be an object.")


def _too_large() -> IngestionError:
    message = f"A message must be at most {MAX_SINGLE_BODY_BYTES:,} bytes."
    return IngestionError(413, "payload_too_large", message)
