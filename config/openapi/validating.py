"""The endpoints that say what would become of a request."""

from typing import Any

from config.openapi import reading, sending
from config.openapi.pieces import (
    RETRY_AFTER,
    Json,
    error_response,
    json_response,
    reference,
)
from ingestion.doors import Door, bodies, v2
from ingestion.models import DropReason
from ingestion.validation import MAX_MESSAGES
from ingestion.views import REQUESTS_PER_MINUTE


def _nullable(kind: str, description: str, **more: Any) -> Json:
    return {"type": [kind, "null"], "description": description, **more}


def _object(description: str, properties: Json, *optional: str) -> Json:
    required = [name for name in properties if name not in optional]
    return {
        "type": "object",
        "description": description,
        "required": required,
        "properties": properties,
    }


_UNDERSTOOD = _object(
    "The message as the service understands it.",
    {
        "type": {"type": "string"},
        "userId": _nullable("string", "The user."),
        "previousId": _nullable("string", "Of an alias: the user's old ID."),
        "groupId": _nullable("string", "The account."),
        "event": _nullable("string", "What the user did."),
        "traits": _nullable("object", "The traits that would be kept."),
        "timestamp": _nullable("string", "The time that would be used.", format="date-time"),
        "timestampFrom": {
            "enum": ["message", "receipt", None],
            "description": "Whether that is the message's own time or the time of receipt.",
        },
        "messageId": _nullable("string", "The ID of the message."),
    },
)
_NOTE = _object(
    "What to know about a message that would be recorded.",
    {"code": {"type": "string"}, "message": {"type": "string"}},
)
_RESULT = _object(
    "What would become of a message.",
    {
        "outcome": {
            "enum": ["accepted", "recorded", "waiting", "dropped"],
            "description": "`accepted` is all that an ingestion key learns. With a read token, "
            "`recorded`, or `waiting`: kept, and counted once its user is identified.",
        },
        "reason": {"enum": [*DropReason.values, None], "description": "Why it would be dropped."},
        "explanation": {"type": "string"},
        "notes": {"type": "array", "items": _NOTE},
        "message": _UNDERSTOOD,
    },
)
_MESSAGE: Json = {
    "type": "object",
    "description": "A message that names its type.",
    "required": ["type"],
    "properties": {
        "type": {"enum": ["identify", "group", "track"], "description": "The message's type."},
        **{
            name: field
            for schema in ("Identify", "Group", "Track")
            for name, field in sending.SCHEMAS[schema]["properties"].items()
        },
    },
}
SCHEMAS: Json = {
    "TypedMessage": _MESSAGE,
    "ValidationReport": _object(
        "What would become of the request.",
        {
            "status": {
                "type": "integer",
                "description": "The status that the endpoint itself would return.",
            },
            "product": {
                "anyOf": [
                    {"type": "null"},
                    _object("The product.", {"name": {"type": "string"}}),
                ],
                "description": "The product of the read token. Null with an ingestion key.",
            },
            "key": {
                "enum": [
                    "valid",
                    *(
                        reason.value
                        for reason in (
                            DropReason.MISSING_KEY,
                            DropReason.UNKNOWN_KEY,
                            DropReason.REVOKED_KEY,
                            DropReason.EXPIRED_KEY,
                            DropReason.READ_TOKEN,
                        )
                    ),
                ]
            },
            "error": {
                **reference("ApiError"),
                "description": "The error, if the request would be refused.",
            },
            "messages": {"type": "array", "items": _RESULT, "maxItems": MAX_MESSAGES},
        },
        "error",
    ),
}

_ACCEPTED: Json = {
    "status": 202,
    "product": None,
    "key": "valid",
    "messages": [
        {
            "outcome": "accepted",
            "reason": None,
            "explanation": "It would be accepted. The ingestion log, and this endpoint with a read "
            "token, say whether it counts.",
            "notes": [],
            "message": {
                "type": "track",
                "userId": "u1",
                "previousId": None,
                "groupId": "a1",
                "event": "Report_Created",
                "traits": None,
                "timestamp": "2026-09-24T08:12:44Z",
                "timestampFrom": "message",
                "messageId": None,
            },
        }
    ],
}
_REFUSED: Json = {
    "status": 400,
    "product": None,
    "key": "missing_key",
    "error": {
        "code": "missing_field",
        "message": "userId is required and must be a non-empty string.",
        "field": "userId",
    },
    "messages": [],
}
_ABOUT = f"""
Takes what `{{endpoint}}` takes, and returns what would become of it: what the service understands,
the time that it would use, and what is wrong with it. It accepts and stores nothing.

The response is `200`, whatever is wrong. `status` is the status that the endpoint itself would
return, and `error` its error. A batch gets a report on its first {MAX_MESSAGES} messages.

An ingestion key learns nothing of what is stored. Instead of the key, send a read token that reads
users with their traits, and accounts: the report then says whether a message with a key of the
token's product would be recorded, wait for its user to be identified, or be dropped, and why. The
limit of a key is about {REQUESTS_PER_MINUTE} requests a minute, and that of a token its usual one.
"""


def _validate(id: str, summary: str, schema: str, example: Json, endpoint: str) -> Json:
    is_batch = schema == "TrackingBatch"
    limit = bodies.MAX_BATCH_BODY_BYTES if is_batch else bodies.MAX_SINGLE_BODY_BYTES
    operation = sending.send(
        id,
        summary,
        _ABOUT.format(endpoint=endpoint).strip(),
        schema,
        {id: example},
        tag="Sending",
        security=[{"ingestionKey": []}, *reading.SECURITY],
        limit=limit,
    )
    return operation | {
        "responses": {
            "200": json_response(
                reference("ValidationReport"),
                "What would become of the request.",
                {"accepted": _ACCEPTED, "refused": _REFUSED},
            ),
            "401": reading.UNKNOWN_TOKEN,
            "403": reading.FORBIDDEN,
            "429": error_response(
                "`rate_limited`: too many requests.",
                "rate_limited",
                f"At most {REQUESTS_PER_MINUTE} requests a minute are validated. Retry in 1 s.",
                headers=RETRY_AFTER,
            ),
            "503": error_response(
                "`unavailable`: the database cannot be reached.",
                "unavailable",
                "The data could not be stored. Retry in 5 s.",
                headers=RETRY_AFTER,
            ),
        },
    }


OPERATIONS: dict[Door, Json] = {
    v2.typed: _validate(
        "validate",
        "Say what would become of a message",
        "TypedMessage",
        {"type": "track", **sending.TRACK},
        "/v2/identify`, `/v2/group`, or `/v2/track",
    ),
    v2.identify: _validate(
        "validateIdentify", "Validate an identify", "Identify", sending.IDENTIFY, "/v2/identify"
    ),
    v2.group: _validate("validateGroup", "Validate a group", "Group", sending.GROUP, "/v2/group"),
    v2.track: _validate("validateTrack", "Validate a track", "Track", sending.TRACK, "/v2/track"),
    v2.batch: _validate(
        "validateBatch", "Validate many messages", "TrackingBatch", sending.BATCH, "/v2/batch"
    ),
}
