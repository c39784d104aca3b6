"""What the service sends to webhooks, derived from the types that it builds the messages from."""

import msgspec

from config.openapi.pieces import JSON, Json, named_examples, reference
from notifications import messages
from notifications.hooks import samples
from notifications.triggers import TRIGGERS, Trigger

_SENTENCES = {TRIGGERS[trigger].type: str(trigger.label) for trigger in Trigger} | {
    messages.TEST_TYPE: "Test of a destination"
}
_HEADERS = [
    {
        "in": "header",
        "name": name,
        "required": True,
        "schema": {"type": "string"},
        "description": description,
    }
    for name, description in (
        ("webhook-id", "The ID of the message. Repeats of it have the same."),
        ("webhook-timestamp", "When this request was sent, in seconds since 1970."),
        ("webhook-signature", "Signatures of the request, as Standard Webhooks describes them."),
    )
]
_RESPONSES = {
    "204": {"description": "Received. Any status from 200 to 299 says so."},
    "410": {"description": "The destination wants no more messages, and is paused."},
}


def operations() -> Json:
    """The ``webhooks`` of the description: one for each type of a message."""
    return {type: {"post": _operation(type)} for type in messages.types_by_name()}


def _operation(type: str) -> Json:
    plain = type.removesuffix(".summary")
    summary = _SENTENCES[plain] + (", many at once" if plain != type else "")
    return {
        "operationId": f"webhook{_public_name(type)}",
        "summary": summary,
        "description": f"A message of the type `{type}`.",
        "security": [],
        "parameters": _HEADERS,
        "requestBody": {
            "required": True,
            "content": {
                JSON: {
                    "schema": reference(_public_name(type)),
                    "examples": named_examples(samples.examples(type)),
                }
            },
        },
        "responses": _RESPONSES,
    }


def _public_name(type: str) -> str:
    """``SegmentEnteredSummaryMessage`` of ``segment.entered.summary``."""
    words = type.replace(".", "_").split("_")
    return "".join(word.capitalize() for word in words) + "Message"


def schemas() -> Json:
    """The components of all messages, and of what they are made of."""
    data_types = messages.types_by_name()
    _, components = msgspec.json.schema_components(
        set(data_types.values()), ref_template="#/components/schemas/{name}"
    )
    envelopes = {
        _public_name(type): {
            "type": "object",
            "title": _public_name(type),
            "required": ["id", "type", "timestamp", "data"],
            "properties": {
                "id": {"type": "string", "description": "As in the header `webhook-id`."},
                "type": {"const": type},
                "timestamp": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When the service noticed it. ISO 8601, in UTC.",
                },
                "data": reference(data.__name__),
            },
        }
        for type, data in data_types.items()
    }
    return envelopes | dict(components)
