"""The ingestion API's operations: version 2, version 1, and the Segment-compatible doors."""

from config.openapi.pieces import (
    JSON,
    RETRY_AFTER,
    Json,
    error_response,
    json_response,
    named_examples,
    reference,
)
from ingestion.doors import Door, bodies, fields, segment, v1, v2

SECURITY_SCHEME: Json = {
    "type": "http",
    "scheme": "basic",
    "description": "An ingestion key of a product, `edk_…`, as the user name, with an empty "
    "password; `Authorization: Basic` with the raw key or with base64 of it works too. A key that "
    "is unknown or missing is answered like any other: what was sent is dropped in the background.",
}

# --- Bodies ---------------------------------------------------------------------------------

_NO_CONTROL_CHARACTERS = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"


def _text(longest: int, description: str) -> Json:
    return {
        "type": "string",
        "minLength": 1,
        "maxLength": longest,
        "pattern": _NO_CONTROL_CHARACTERS,
        "description": description,
    }


_USER_ID = _text(fields.MAX_ID_LENGTH, "Your id of the user.")
_GROUP_ID = _text(fields.MAX_ID_LENGTH, "Your id of the account.")
_EVENT = _text(fields.MAX_EVENT_LENGTH, "What the user did.")
_MESSAGE_ID = _text(
    fields.MAX_MESSAGE_ID_LENGTH, "Your name for this message. A repeat of it takes no effect."
)
_TRAITS: Json = {
    "type": "object",
    "maxProperties": fields.MAX_TRAITS,
    "description": "What is known: values of any JSON type, at most "
    f"{fields.MAX_TRAITS_DEPTH} levels deep. The last writer of a trait wins; `null` removes it.",
}
_ISO: Json = {
    "type": "string",
    "format": "date-time",
    "description": "When it happened; the time of receipt if left out. UTC where no zone is given.",
}
_MILLISECONDS: Json = {
    "type": "integer",
    "minimum": 0,
    "description": "When it happened: Unix time in milliseconds.",
}
_CONTEXT: Json = {"type": "object", "properties": {"groupId": _GROUP_ID}}
_API_KEY: Json = {"type": "string", "description": "An ingestion key."}


def _object(description: str, required: list[str], properties: Json) -> Json:
    return {
        "type": "object",
        "description": description,
        "required": required,
        "properties": properties,
    }


_ID_TYPES = ["string", "integer"]
_SEGMENT_FIELDS: Json = {
    "userId": _USER_ID | {"type": _ID_TYPES},
    "anonymousId": {"type": _ID_TYPES, "description": "Alone it names nobody."},
    "previousId": {"type": _ID_TYPES, "description": "Of an alias."},
    "groupId": _GROUP_ID | {"type": _ID_TYPES},
    "event": _EVENT,
    "name": {"type": "string", "description": "Of the page or screen."},
    "traits": _TRAITS,
    "context": {"type": "object", "properties": {"groupId": _GROUP_ID | {"type": _ID_TYPES}}},
    "timestamp": _ISO,
    "sentAt": _ISO | {"description": "What the sender's clock showed; corrects `timestamp`."},
    "messageId": _MESSAGE_ID | {"type": _ID_TYPES},
}
_TYPE: Json = {"enum": ["identify", "group", "track", "page", "screen", "alias"]}
_WRITE_KEY: Json = {
    "type": "string",
    "description": "An ingestion key, if not in the header.",
}

SCHEMAS: Json = {
    "Identify": _object(
        "Who somebody is, and with `groupId` in which account.",
        ["userId"],
        {
            "userId": _USER_ID,
            "traits": _TRAITS,
            "groupId": _GROUP_ID,
            "timestamp": _ISO,
            "messageId": _MESSAGE_ID,
        },
    ),
    "Group": _object(
        "What an account is, and with `userId` who is in it.",
        ["groupId"],
        {
            "groupId": _GROUP_ID,
            "traits": _TRAITS,
            "userId": _USER_ID,
            "timestamp": _ISO,
            "messageId": _MESSAGE_ID,
        },
    ),
    "Track": _object(
        "What somebody did. Other fields, such as properties, are ignored and never stored.",
        ["userId", "event"],
        {
            "userId": _USER_ID,
            "event": _EVENT,
            "timestamp": _ISO,
            "context": _CONTEXT | {"description": "`groupId` says in which account it happened."},
            "messageId": _MESSAGE_ID,
        },
    ),
    "LegacyUser": _object(
        "Who somebody is.",
        ["user_id"],
        {
            "api_key": _API_KEY,
            "user_id": _USER_ID,
            "traits": _TRAITS,
            "group_id": _GROUP_ID,
            "timestamp": _MILLISECONDS,
            "message_id": _MESSAGE_ID,
        },
    ),
    "LegacyGroup": _object(
        "What an account is.",
        ["group_id"],
        {
            "api_key": _API_KEY,
            "group_id": _GROUP_ID,
            "traits": _TRAITS,
            "user_id": _USER_ID,
            "timestamp": _MILLISECONDS,
            "message_id": _MESSAGE_ID,
        },
    ),
    "LegacyEvent": _object(
        "What somebody did.",
        ["user_id", "event"],
        {
            "api_key": _API_KEY,
            "user_id": _USER_ID,
            "event": _EVENT,
            "timestamp": _MILLISECONDS,
            "message_id": _MESSAGE_ID,
        },
    ),
    "SegmentCall": _object(
        "A message of the type that the address says.",
        [],
        {**_SEGMENT_FIELDS, "writeKey": _WRITE_KEY},
    ),
    "SegmentMessage": _object(
        "A message that says its type.",
        [],
        {"type": _TYPE, **_SEGMENT_FIELDS, "writeKey": _WRITE_KEY},
    ),
    "SegmentBatch": _object(
        "Messages that say their types. One that cannot be used is listed as dropped; the others "
        "are accepted.",
        ["batch"],
        {
            "batch": {
                "type": "array",
                "maxItems": bodies.MAX_BATCH_MESSAGES,
                "items": reference("SegmentMessage"),
            },
            "sentAt": _SEGMENT_FIELDS["sentAt"],
            "writeKey": _WRITE_KEY,
        },
    ),
    "SegmentSuccess": _object("Accepted.", ["success"], {"success": {"const": True}}),
    "SegmentRefusal": _object(
        "The error, and its code and message once more where these clients look for them.",
        ["error", "code", "message"],
        {"error": reference("Error"), "code": {"type": "string"}, "message": {"type": "string"}},
    ),
}

# --- Parameters and answers -----------------------------------------------------------------

IDEMPOTENCY_KEY: Json = {
    "in": "header",
    "name": "Idempotency-Key",
    "schema": {"type": "string", "maxLength": fields.MAX_MESSAGE_ID_LENGTH},
    "description": "Says what the body's message id says; the body's wins.",
}
BATCH_KEY = IDEMPOTENCY_KEY | {
    "description": "Names the messages that have no message id of their own, after the key and "
    "their place in the batch: `key#0`, `key#1` and so on. So the same batch, sent again with the "
    "same key, counts once. A key that is no message id is replaced by its SHA-256.",
    "schema": {"type": "string"},
}
CONTENT_ENCODING: Json = {
    "in": "header",
    "name": "Content-Encoding",
    "schema": {"enum": ["gzip", "identity"]},
    "description": "How the body is compressed.",
}


def _refusals(limit: int, *codes: str, schema: str) -> Json:
    told = ", ".join(
        f"`{code}`"
        for code in (
            *("invalid_json", "not_an_object", "missing_field", "invalid_field"),
            "invalid_timestamp",
        )
    )
    return {
        "400": error_response(
            f"The body cannot mean anything, and nothing of it is queued: {told}.",
            "missing_field",
            "userId is required and must be a non-empty string.",
            "userId",
            schema=schema,
        ),
        "413": error_response(
            f"`payload_too_large`: more than {limit:,} bytes after decompression, or too many "
            "messages.",
            "payload_too_large",
            f"The body must be at most {limit:,} bytes, uncompressed.",
            schema=schema,
        ),
        "415": error_response(
            "`unsupported_encoding`: the body is compressed in a way that is not known here.",
            "unsupported_encoding",
            "Content-Encoding must be gzip or identity; leave it out to send plain JSON.",
            schema=schema,
        ),
        "503": error_response(
            "`unavailable`: nothing can be stored at the moment. Send it again.",
            "unavailable",
            "The data could not be stored. Retry in 5 s.",
            headers=RETRY_AFTER,
            schema=schema,
        ),
    }


ACCEPTED: Json = {"202": {"description": "Accepted: it is on disk. The body is empty."}}
SUCCESS: Json = {
    "200": json_response(
        reference("SegmentSuccess"),
        "Accepted: it is on disk.",
        {"success": {"success": True}},
    )
}


def _send(
    id: str,
    summary: str,
    schema: str,
    examples: Json,
    *,
    tag: str,
    security: list[Json],
    accepted: Json = ACCEPTED,
    limit: int = bodies.MAX_SINGLE_BODY_BYTES,
    refusals_as: str = "Refusal",
) -> Json:
    return {
        "operationId": id,
        "summary": summary,
        "tags": [tag],
        "security": security,
        "parameters": [
            BATCH_KEY if schema == "SegmentBatch" else IDEMPOTENCY_KEY,
            CONTENT_ENCODING,
        ],
        "requestBody": {
            "required": True,
            "description": f"At most {limit:,} bytes after decompression.",
            "content": {JSON: {"schema": reference(schema), "examples": named_examples(examples)}},
        },
        "responses": {**accepted, **_refusals(limit, schema=refusals_as)},
    }


# --- Operations -----------------------------------------------------------------------------

_BASIC: list[Json] = [{"ingestionKey": []}]
_TRACK: Json = {
    "userId": "u1",
    "event": "Report created",
    "timestamp": "2026-09-24T08:12:44Z",
    "context": {"groupId": "a1"},
    "messageId": "7f0c1d5e",
}
_IDENTIFY: Json = {
    "userId": "u1",
    "groupId": "a1",
    "traits": {"name": "Ada", "email": "ada@example.com"},
}
_GROUP: Json = {"groupId": "a1", "traits": {"name": "Example Ltd", "domain": "example.com"}}


def _v2(id: str, summary: str, schema: str, example: Json) -> Json:
    return _send(id, summary, schema, {id: example}, tag="Sending", security=_BASIC)


def _v1(id: str, summary: str, schema: str, example: Json) -> Json:
    described = _send(id, summary, schema, {id: example}, tag="Version 1 (legacy)", security=[])
    return described | {"deprecated": True}


def _segment(id: str, summary: str, example: Json, schema: str = "SegmentCall") -> Json:
    batch = schema == "SegmentBatch"
    return _send(
        id,
        summary,
        schema,
        {"message": example},
        tag="Segment-compatible",
        # Browsers put the key into the body as writeKey.
        security=[*_BASIC, {}],
        accepted=SUCCESS,
        limit=bodies.MAX_BATCH_BODY_BYTES if batch else bodies.MAX_SINGLE_BODY_BYTES,
        refusals_as="SegmentRefusal",
    )


OPERATIONS: dict[Door, Json] = {
    v2.identify: _v2("identify", "Say who somebody is", "Identify", _IDENTIFY),
    v2.group: _v2("group", "Say what an account is", "Group", _GROUP),
    v2.track: _v2("track", "Say what somebody did", "Track", _TRACK),
    v1.user: _v1(
        "legacyUser",
        "Say who somebody is",
        "LegacyUser",
        {"api_key": "edk_…", "user_id": "u1", "group_id": "a1", "traits": {"name": "Ada"}},
    ),
    v1.group: _v1(
        "legacyGroup",
        "Say what an account is",
        "LegacyGroup",
        {"api_key": "edk_…", "group_id": "a1", "traits": {"name": "Example Ltd"}},
    ),
    v1.event: _v1(
        "legacyEvent",
        "Say what somebody did",
        "LegacyEvent",
        {
            "api_key": "edk_…",
            "user_id": "u1",
            "event": "Report created",
            "timestamp": 1790237564000,
        },
    ),
    segment.webhook: _send(
        "segmentForward",
        "Forward one message from another pipeline",
        "SegmentMessage",
        {"track": {"type": "track", **_TRACK}, "connection test": {}},
        tag="Segment-compatible",
        security=_BASIC,
        refusals_as="SegmentRefusal",
    ),
    segment.batch: _segment(
        "segmentBatch",
        "Send a batch, as server SDKs do",
        {
            "batch": [{"type": "identify", **_IDENTIFY}, {"type": "track", **_TRACK}],
            "sentAt": "2026-09-24T08:12:45Z",
        },
        "SegmentBatch",
    ),
    segment.identify: _segment("segmentIdentify", "Identify", _IDENTIFY),
    segment.group: _segment("segmentGroup", "Group", _GROUP),
    segment.track: _segment("segmentTrack", "Track", _TRACK),
    segment.page: _segment(
        "segmentPage",
        "Page: a track named `Viewed … Page`",
        {"userId": "u1", "name": "Pricing"},
    ),
    segment.screen: _segment(
        "segmentScreen",
        "Screen: a track named `Viewed … Screen`",
        {"userId": "u1", "name": "Settings"},
    ),
    segment.alias: _segment(
        "segmentAlias",
        "Alias: accepted, and listed as dropped",
        {"userId": "u1", "previousId": "u0"},
    ),
}
