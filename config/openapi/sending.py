"""The ingestion API's operations: version 2, version 1, and the Segment-compatible endpoints."""

from typing import Any

import msgspec

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
from ingestion.errors import missing_field

SECURITY_SCHEME: Json = {
    "type": "http",
    "scheme": "basic",
    "description": "An ingestion key of a product, `edk_…`, as the user name, with an empty "
    "password. `Authorization: Basic` with the raw key or its base64 works, too. The response does "
    "not depend on the key: messages with a missing or unknown key are dropped in the background.",
}

# --- Schemas --------------------------------------------------------------------------------


def body_schema(struct: type[msgspec.Struct], *required: str) -> Json:
    """The schema of a request's body, derived from the struct that decodes it."""
    [schema], components = msgspec.json.schema_components([struct], ref_template="{name}")
    return {**_object(components[schema["$ref"]], components), "required": list(required)}


def _object(schema: Json, components: Json) -> Json:
    """The documented fields of a struct: those with a description."""
    properties = {
        name: _field(field, components)
        for name, field in schema["properties"].items()
        if "description" in field
    }
    description = {"description": schema["description"]} if "description" in schema else {}
    return {"type": "object", **description, "properties": properties}


def _field(field: Json, components: Json) -> Json:
    """A field without null and its default: clients leave out what they do not know.

    Of a struct and an array, which PHP writes for an empty object, only the struct is described.
    """
    schema = {name: value for name, value in field.items() if name not in ("anyOf", "default")}
    for option in field.get("anyOf", []):
        if "$ref" in option:
            option = _object(components[option["$ref"]], components)
        if option.get("type") not in ("null", "array"):
            schema = {**option, **schema}
    return schema


def _segment_body(description: str, *, names_its_type: bool) -> Json:
    schema = body_schema(segment.SegmentBody) | {"description": description}
    kind = schema["properties"].pop("type")
    if names_its_type:
        schema["properties"]["type"] = {**kind, "enum": list(segment.KINDS)}
    return schema


def _segment_batch() -> Json:
    schema = body_schema(segment.SegmentBatchBody, "batch")
    schema["properties"]["batch"]["items"] = reference("TrackingMessage")
    return schema


def _response(description: str, **properties: Any) -> Json:
    return {
        "type": "object",
        "description": description,
        "required": list(properties),
        "properties": properties,
    }


SCHEMAS: Json = {
    "Identify": body_schema(v2.IdentifyBody, "userId"),
    "Group": body_schema(v2.GroupBody, "groupId"),
    "Track": body_schema(v2.TrackBody, "userId", "event"),
    "LegacyUser": body_schema(v1.LegacyUserBody, "user_id"),
    "LegacyGroup": body_schema(v1.LegacyGroupBody, "group_id"),
    "LegacyEvent": body_schema(v1.LegacyEventBody, "user_id", "event"),
    "TrackingCall": _segment_body("A message of the type in the URL.", names_its_type=False),
    "TrackingMessage": _segment_body("A message that names its type.", names_its_type=True),
    "TrackingBatch": _segment_batch(),
    "TrackingSuccess": _response("Accepted.", success={"const": True}),
    "TrackingError": _response(
        "The error. Its code and message are repeated where Segment's clients expect them.",
        error=reference("ApiError"),
        code={"type": "string"},
        message={"type": "string"},
    ),
}

# --- Parameters and responses ---------------------------------------------------------------

IDEMPOTENCY_KEY: Json = {
    "in": "header",
    "name": "Idempotency-Key",
    "schema": {"type": "string", "maxLength": fields.MAX_MESSAGE_ID_LENGTH},
    "description": "The message ID, if the body has none.",
}
BATCH_KEY = IDEMPOTENCY_KEY | {
    "description": "Gives each message without a message ID one, made of the key and the "
    "message's position in the batch: `key#0`, `key#1`, and so on. A batch that is sent again with "
    "the same key then counts once. If the key is not a valid message ID, its SHA-256 is used.",
    "schema": {"type": "string"},
}
CONTENT_ENCODING: Json = {
    "in": "header",
    "name": "Content-Encoding",
    "schema": {"enum": ["gzip", "identity"]},
    "description": "The compression of the body.",
}


def errors_of(limit: int, schema: str) -> Json:
    missing = missing_field("userId")
    return {
        "400": error_response(
            "The body is invalid, and nothing in it is queued: `invalid_json`, `not_an_object`, "
            "`missing_field`, `invalid_field`, `invalid_timestamp`.",
            missing.code,
            missing.message,
            missing.field,
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
            "`unsupported_encoding`: the body is not compressed with gzip.",
            "unsupported_encoding",
            "Content-Encoding must be gzip or identity. Leave it out to send plain JSON.",
            schema=schema,
        ),
        "503": error_response(
            "`unavailable`: the data could not be stored. Send it again.",
            "unavailable",
            "The data could not be stored. Retry in 5 s.",
            headers=RETRY_AFTER,
            schema=schema,
        ),
    }


ACCEPTED: Json = {"202": {"description": "Accepted: the data is on disk. The body is empty."}}
SUCCESS: Json = {
    "200": json_response(
        reference("TrackingSuccess"),
        "Accepted: the data is on disk.",
        {"success": {"success": True}},
    )
}


def send(
    id: str,
    summary: str,
    description: str,
    schema: str,
    examples: Json,
    *,
    tag: str,
    security: list[Json],
    accepted: Json = ACCEPTED,
    limit: int = bodies.MAX_SINGLE_BODY_BYTES,
    error_schema: str = "ErrorResponse",
) -> Json:
    return {
        "operationId": id,
        "summary": summary,
        "description": description,
        "tags": [tag],
        "security": security,
        "parameters": [
            BATCH_KEY if schema == "TrackingBatch" else IDEMPOTENCY_KEY,
            CONTENT_ENCODING,
        ],
        "requestBody": {
            "required": True,
            "description": f"At most {limit:,} bytes after decompression.",
            "content": {JSON: {"schema": reference(schema), "examples": named_examples(examples)}},
        },
        "responses": {**accepted, **errors_of(limit, error_schema)},
    }


# --- Operations -----------------------------------------------------------------------------

_BASIC: list[Json] = [{"ingestionKey": []}]
TRACK: Json = {
    "userId": "u1",
    "event": "Report_Created",
    "timestamp": "2026-09-24T08:12:44Z",
    "context": {"groupId": "a1"},
    "messageId": "7f0c1d5e",
}
IDENTIFY: Json = {
    "userId": "u1",
    "groupId": "a1",
    "traits": {
        "name": "Ada",
        "email": "ada@example.com",
        "role": "admin",
        "createdAt": "2026-03-01T08:00:00Z",
    },
}
GROUP: Json = {
    "groupId": "a1",
    "traits": {
        "name": "Example Ltd",
        "domain": "example.com",
        "createdAt": "2026-01-05T08:00:00Z",
        "status": "paying",
        "plan": "pro",
        "mrr": 123400,
    },
}
BATCH: Json = {
    "batch": [{"type": "identify", **IDENTIFY}, {"type": "track", **TRACK}],
    "sentAt": "2026-09-24T08:12:45Z",
}


def _v2(id: str, summary: str, description: str, schema: str, example: Json) -> Json:
    return send(id, summary, description, schema, {id: example}, tag="Sending", security=_BASIC)


def _v2_batch(id: str, summary: str, description: str, example: Json) -> Json:
    return send(
        id,
        summary,
        description,
        "TrackingBatch",
        {id: example},
        tag="Sending",
        security=_BASIC,
        accepted=SUCCESS,
        limit=bodies.MAX_BATCH_BODY_BYTES,
    )


def _v1(id: str, summary: str, instead: str, schema: str, example: Json) -> Json:
    description = f"The key is in the body. New clients should use `{instead}`."
    tag = "Version 1 (legacy)"
    operation = send(id, summary, description, schema, {id: example}, tag=tag, security=[])
    return operation | {"deprecated": True}


def _tracking(
    id: str, summary: str, description: str, example: Json, schema: str = "TrackingCall"
) -> Json:
    is_batch = schema == "TrackingBatch"
    return send(
        id,
        summary,
        description,
        schema,
        {"message": example},
        tag="Segment-compatible",
        # Browsers send the key in the body, as writeKey.
        security=[*_BASIC, {}],
        accepted=SUCCESS,
        limit=bodies.MAX_BATCH_BODY_BYTES if is_batch else bodies.MAX_SINGLE_BODY_BYTES,
        error_schema="TrackingError",
    )


_IDENTIFYING = (
    "Creates or updates the user. With `groupId`, the user also joins that account. A trait that "
    "is `null` is removed. Recommended traits are `email`, `name`, `createdAt`, and `role`."
)
_GROUPING = (
    "Creates or updates the account. With `userId`, that user also joins it. A trait that is "
    "`null` is removed. Recommended traits are `name`, `createdAt`, `status`, `plan`, and `mrr`: "
    "what the account pays per month, in cents."
)
_TRACKING = (
    "Records an event of the user. `context.groupId` is the account in which it happened. "
    "Properties are not stored. Name events `Noun_Verb`, such as `Report_Created`, "
    "`Dashboard_Viewed`, or `Integration_Enabled`."
)
_BATCHING = (
    "Each valid message is accepted. Each invalid one is dropped, with a reason in the ingestion "
    "log."
)

OPERATIONS: dict[Door, Json] = {
    v2.identify: _v2("identify", "Identify a user", _IDENTIFYING, "Identify", IDENTIFY),
    v2.group: _v2("group", "Describe an account", _GROUPING, "Group", GROUP),
    v2.track: _v2("track", "Track an event", _TRACKING, "Track", TRACK),
    v2.batch: _v2_batch("batch", "Send many messages", _BATCHING, BATCH),
    v1.user: _v1(
        "legacyUser",
        "Identify a user",
        "/v2/identify",
        "LegacyUser",
        {"api_key": "edk_…", "user_id": "u1", "group_id": "a1", "traits": {"name": "Ada"}},
    ),
    v1.group: _v1(
        "legacyGroup",
        "Describe an account",
        "/v2/group",
        "LegacyGroup",
        {"api_key": "edk_…", "group_id": "a1", "traits": {"name": "Example Ltd"}},
    ),
    v1.event: _v1(
        "legacyEvent",
        "Track an event",
        "/v2/track",
        "LegacyEvent",
        {
            "api_key": "edk_…",
            "user_id": "u1",
            "event": "Report_Created",
            "timestamp": 1790237564000,
        },
    ),
    segment.webhook: send(
        "trackingForward",
        "Forward one message from another pipeline",
        "For destinations that forward each message by itself. An empty object tests the "
        "connection.",
        "TrackingMessage",
        {"track": {"type": "track", **TRACK}, "connection test": {}},
        tag="Segment-compatible",
        security=_BASIC,
        error_schema="TrackingError",
    ),
    segment.batch: _tracking(
        "trackingBatch",
        "Send a batch, as server SDKs do",
        _BATCHING,
        BATCH,
        "TrackingBatch",
    ),
    segment.identify: _tracking("trackingIdentify", "Identify", _IDENTIFYING, IDENTIFY),
    segment.group: _tracking("trackingGroup", "Group", _GROUPING, GROUP),
    segment.track: _tracking("trackingTrack", "Track", _TRACKING, TRACK),
    segment.page: _tracking(
        "trackingPage",
        "Page: a track named `Viewed … Page`",
        "Records an event of that name. Without a name it is `Viewed Page`.",
        {"userId": "u1", "name": "Pricing"},
    ),
    segment.screen: _tracking(
        "trackingScreen",
        "Screen: a track named `Viewed … Screen`",
        "Records an event of that name. Without a name it is `Viewed Screen`.",
        {"userId": "u1", "name": "Settings"},
    ),
    segment.alias: _tracking(
        "trackingAlias",
        "Alias: join two IDs of one user",
        "From now on, both IDs lead to the user `userId`.",
        {"userId": "u1", "previousId": "u0"},
    ),
}
