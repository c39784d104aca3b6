"""The operation that forgets users and accounts."""

from config.openapi import sending
from config.openapi.pieces import (
    JSON,
    RETRY_AFTER,
    WWW_AUTHENTICATE,
    Json,
    error_response,
    json_response,
    named_examples,
    reference,
)
from ingestion import forget_requests
from ingestion.doors import bodies
from ingestion.forget_requests import ERASED, ERASING, REQUESTS_PER_MINUTE, ForgetBody

SECURITY_SCHEME: Json = {
    "type": "http",
    "scheme": "bearer",
    "description": "A forget key of a product, `edf_…`, from the admin. It can do nothing else.",
}
SCHEMAS: Json = {
    "Forget": sending.body_schema(ForgetBody),
    "Forgotten": {
        "type": "object",
        "description": "What is erased, and when. It is the same whether there was anything.",
        "required": [
            *("status", "scope", "forgottenAt", "erased", "erasing", "erasingWithin", "suppressed")
        ],
        "properties": {
            "status": {"const": "forgotten"},
            "scope": {"enum": ["user", "account"]},
            "forgottenAt": {"type": "string", "format": "date-time"},
            "erased": {
                "type": "array",
                "items": {"enum": ERASED},
                "description": "What is gone by now.",
            },
            "erasing": {
                "type": "array",
                "items": {"enum": ERASING},
                "description": "What is deleted in the background.",
            },
            "erasingWithin": {
                "const": "minutes",
                "description": "How long that takes; in a busy product of millions of events, up "
                "to hours.",
            },
            "suppressed": {"type": "boolean", "description": "Whether later messages are dropped."},
        },
    },
}
_ANSWER: Json = {
    "status": "forgotten",
    "scope": "user",
    "forgottenAt": "2026-11-24T10:15:00Z",
    "erased": ERASED,
    "erasing": ERASING,
    "erasingWithin": "minutes",
    "suppressed": True,
}
_ABOUT = """
Erases the user or the account with everything that the service keeps of it. Repeat the request
after any error: a repeat changes nothing.
"""
OPERATION: Json = {
    "operationId": "forget",
    "summary": "Forget a user or an account",
    "description": _ABOUT.strip(),
    "tags": ["Forgetting"],
    "security": [{"forgetKey": []}],
    "requestBody": {
        "required": True,
        "description": f"At most {bodies.MAX_SINGLE_BODY_BYTES:,} bytes. Either `userId` or "
        "`groupId`.",
        "content": {
            JSON: {
                "schema": reference("Forget"),
                "examples": named_examples({"forget": {"userId": "u1", "suppress": True}}),
            }
        },
    },
    "responses": {
        **sending.errors_of(bodies.MAX_SINGLE_BODY_BYTES, "ErrorResponse"),
        "200": json_response(reference("Forgotten"), "It is forgotten.", {"forgotten": _ANSWER}),
        "401": error_response(
            "`invalid_key`: the forget key is missing, unknown, revoked, or expired.",
            "invalid_key",
            forget_requests.KEY_UNKNOWN,
            headers=WWW_AUTHENTICATE,
        ),
        "429": error_response(
            "`rate_limited`: too many requests.",
            "rate_limited",
            f"At most {REQUESTS_PER_MINUTE} requests a minute. Retry in 1 s.",
            headers=RETRY_AFTER,
        ),
        "503": error_response(
            "`unavailable`: the database cannot be reached.",
            "unavailable",
            "Nothing was erased. Retry in 5 s.",
            headers=RETRY_AFTER,
        ),
    },
}
