"""What the service sends to webhooks, derived from the types that it builds the messages from."""

from typing import Any

import msgspec
from msgspec import Struct

from config.openapi.pieces import JSON, Json, named_examples, reference
from notifications import messages
from notifications.messages import NamedThing, NotifiedSubject
from notifications.triggers import TRIGGERS, Trigger

_TIME = "2026-09-24T12:04:00Z"
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
                    "examples": named_examples(_examples(type)),
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
            "required": ["type", "timestamp", "data"],
            "properties": {
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


# --- Examples -------------------------------------------------------------------------------

_ACCOUNT = NotifiedSubject(
    id=31,
    tracking_id="initech",
    external_id="initech",
    name="Initech",
    link="https://eds.example.com/admin/engagement/account/31/change/?workspace=1",
    traits={"plan": "pro", "region": None},
)
_SCORES_BEFORE = {"score_last_period": 61.2}
_SCORES_AFTER: Any = {"score": 34.8, "score_change": -26.4}
# What the fields of the messages may hold.
_VALUES: Json = {
    "text": "Initech: an example.",
    "subscription_id": 7,
    "product": NamedThing(id=1, name="Board Lens"),
    "workspace": NamedThing(id=1, name="Default"),
    "segment": NamedThing(id=12, name="Ice Cold"),
    "insight": "trend_down",
    "threshold": 50.0,
    "direction": "down",
    "account": _ACCOUNT,
    "count": 1,
    "first": [_ACCOUNT],
    "link": "https://eds.example.com/admin/engagement/product/1/change/",
    "reason": "The marketplace rejected the token.",
    "error": "The marketplace did not answer.",
    "expires_on": "2026-10-01",
    "kind": "read token",
    "name": "CRM",
    "dropped": 12,
    "refused": 12,
    "messages": 80,
    "percent": 15.0,
    "minutes": 6,
    "day": "2026-09-23",
    "observed": 9870,
    "expected": 13610.4,
    "usual": 640.0,
    "event": "renewed",
    "license": "E-7QK-2ZD-9MA-4WX",
    "date": "2026-09-10",
}
_BEFORE_AND_AFTER: dict[type[Struct], tuple[Struct, Struct]] = {
    messages.SegmentChanged: (
        messages.SegmentBefore(in_segment=False, **_SCORES_BEFORE),
        messages.SegmentAfter(in_segment=True, **_SCORES_AFTER),
    ),
    messages.InsightChanged: (
        messages.InsightBefore(has_insight=False, **_SCORES_BEFORE),
        messages.InsightAfter(has_insight=True, **_SCORES_AFTER),
    ),
}
_SCORES = messages.ScoreBefore(**_SCORES_BEFORE), messages.ScoreAfter(**_SCORES_AFTER)


def _examples(type: str) -> Json:
    data_type = messages.types_by_name()[type]
    if not issubclass(data_type, messages.ProductMessage):
        return {"message": _example(type, data_type)}
    own_names = set(data_type.__struct_fields__) - set(messages.ProductMessage.__struct_fields__)
    ended = _example(type, data_type, without=own_names, holds=False)
    holding = {"holds": _example(type, data_type, holds=True)}
    ends = any(info.type == type and info.ends for info in TRIGGERS.values())
    return holding | ({"ended": ended} if ends else {})


def _example(
    type: str, data_type: type[Struct], without: set[str] | None = None, **more: Any
) -> Json:
    before, after = _BEFORE_AND_AFTER.get(data_type, _SCORES)
    values = _VALUES | {"before": before, "after": after} | more
    names = [name for name in data_type.__struct_fields__ if name in values]
    data = data_type(**{name: values[name] for name in names if name not in (without or ())})
    return {"type": type, "timestamp": _TIME, "data": msgspec.to_builtins(data)}
