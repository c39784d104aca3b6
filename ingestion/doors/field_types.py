"""The fields of a message as the API description shows them.

The descriptions and limits here decode nothing and check nothing: ``doors.fields`` checks, with
messages for people. A field without a description is accepted but not documented.
"""

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Raw

from engagement.messages import Traits
from ingestion.doors import fields

_NO_CONTROL_CHARACTERS = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"


def _field(description: str, **schema: Any) -> Meta:
    return Meta(description=description, extra_json_schema=schema)


def _text(max_length: int, description: str, **schema: Any) -> Meta:
    limits = {"minLength": 1, "maxLength": max_length, "pattern": _NO_CONTROL_CHARACTERS}
    return _field(description, **limits, **schema)


_USER_ID = "Your ID of the user."
_GROUP_ID = "Your ID of the account."
_EVENT = "What the user did, as `Noun_Verb`: `Report_Created`."
_MESSAGE_ID = "Your ID of this message. A message with a known ID has no effect."
_TRAITS = _field(
    f"Values of any JSON type, nested at most {fields.MAX_TRAITS_DEPTH} levels deep. The latest "
    "value of a trait wins; `null` removes the trait.",
    type="object",
    maxProperties=fields.MAX_TRAITS,
)
_TIME = _field(
    "When it happened, in ISO 8601. By default, the time of receipt. Without a zone, it is UTC.",
    type="string",
    format="date-time",
)
_MILLISECONDS = _field("When it happened, as Unix time in milliseconds.", minimum=0)

UserId: TypeAlias = Annotated[str | None, _text(fields.MAX_ID_LENGTH, _USER_ID)]
GroupId: TypeAlias = Annotated[str | None, _text(fields.MAX_ID_LENGTH, _GROUP_ID)]
Event: TypeAlias = Annotated[str | None, _text(fields.MAX_EVENT_LENGTH, _EVENT)]
MessageId: TypeAlias = Annotated[str | None, _text(fields.MAX_MESSAGE_ID_LENGTH, _MESSAGE_ID)]
OptionalTraits: TypeAlias = Annotated[Traits | None, _TRAITS]
IsoTime: TypeAlias = Annotated[str | None, _TIME]
UnixMilliseconds: TypeAlias = Annotated[int | None, _MILLISECONDS]
KeyInBody: TypeAlias = Annotated[Any, _field("An ingestion key.", type="string")]

# Segment's clients send numbers as IDs, too. The door decodes these fields as any value, because
# what a field may hold depends on the message's type.
_ID = ["string", "integer"]
AnyUserId: TypeAlias = Annotated[Any, _text(fields.MAX_ID_LENGTH, _USER_ID, type=_ID)]
AnyGroupId: TypeAlias = Annotated[Any, _text(fields.MAX_ID_LENGTH, _GROUP_ID, type=_ID)]
AnyMessageId: TypeAlias = Annotated[
    Any,
    _field(
        f"{_MESSAGE_ID} One of more than {fields.MAX_MESSAGE_ID_LENGTH} characters is kept as "
        "its SHA-256.",
        type=_ID,
        minLength=1,
        pattern=_NO_CONTROL_CHARACTERS,
    ),
]
AnyEvent: TypeAlias = Annotated[Any, _text(fields.MAX_EVENT_LENGTH, _EVENT, type="string")]
AnyTraits: TypeAlias = Annotated[Any, _TRAITS]
AnyTime: TypeAlias = Annotated[
    Any,
    _field(
        "When it happened: ISO 8601, or Unix time in seconds or milliseconds. By default, the time "
        "of receipt. Without a zone, it is UTC.",
        type=["string", "number"],
        format="date-time",
    ),
]
AnonymousId: TypeAlias = Annotated[Any, _field("A message with only this ID is dropped.", type=_ID)]
PreviousId: TypeAlias = Annotated[
    Any,
    _text(
        fields.MAX_ID_LENGTH,
        "The user's old ID in an alias. What was and will be sent with it is the user's.",
        type=_ID,
    ),
]
ViewName: TypeAlias = Annotated[Any, _field("The name of the page or screen.", type="string")]
_SENT_AT = _field(
    "The time on the sender's clock. It corrects `timestamp`.",
    type="string",
    format="date-time",
)
_WRITE_KEY = _field("An ingestion key, if it is not in the header.", type="string")
SentAt: TypeAlias = Annotated[Any, _SENT_AT]
WriteKey: TypeAlias = Annotated[Any, _WRITE_KEY]
# Beside the messages of a batch, a value that cannot be read must not cost a message.
SentAtOfBatch: TypeAlias = Annotated[Raw, _SENT_AT]
WriteKeyOfBatch: TypeAlias = Annotated[Raw, _WRITE_KEY]
# PHP writes an empty object as an array.
PhpEmptyObject: TypeAlias = Annotated[list[Any], Meta(max_length=0)]
