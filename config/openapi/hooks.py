"""The operations on hooks."""

import msgspec
from django.conf import settings

from config.openapi import reading
from config.openapi.pieces import Json, error_response, json_response, query, reference
from notifications.hooks import managing as hooks
from notifications.hooks import samples
from readapi import rights, views

SECURITY_SCHEME: Json = {
    "type": "http",
    "scheme": "bearer",
    "description": "A hook token of a product, `eds_…`, from the admin: a read token that reads "
    "nothing, and adds and removes hooks.",
}
_LIMIT = f"{settings.DATA_UPLOAD_MAX_MEMORY_SIZE:,}"
_EVENTS = sorted(hooks.events())
_, _BODIES = msgspec.json.schema_components(
    [hooks.HookBody], ref_template="#/components/schemas/{name}"
)
_TARGET: Json = {"type": "string", "description": "The beginning of `target_url`, as a reminder."}
_HOOK: Json = {
    "id": {"type": "integer"},
    "event": {"enum": _EVENTS},
    "workspace_id": {"type": ["integer", "null"]},
    "target": _TARGET,
    "parameters": reference("HookParameters"),
}
SCHEMAS: Json = {
    **dict(_BODIES),
    "Hook": {"type": "object", "required": list(_HOOK), "properties": _HOOK},
    "AddedHook": {
        "type": "object",
        "required": [*_HOOK, "secret"],
        "properties": _HOOK
        | {"secret": {"type": "string", "description": "Signs the messages (Standard Webhooks)."}},
    },
    "HookList": {
        "type": "object",
        "required": ["data"],
        "properties": {"data": {"type": "array", "items": reference("Hook")}},
    },
    "HookMessages": {"type": "array", "items": {"type": "object", "required": ["id", "type"]}},
}
_EXAMPLE: Json = {
    "id": 12,
    "event": "score.crossed",
    "workspace_id": 1,
    "target": "hooks.example.com/…",
    "parameters": {"scope": "account", "threshold": 40.0, "direction": "down", "quiet_hours": 24},
}
_REQUEST: Json = {
    "target_url": "https://hooks.example.com/catch/8f2a",
    "event": "score.crossed",
    "workspace_id": 1,
    "parameters": {"threshold": 40, "direction": "down"},
}
_FORBIDDEN = error_response(
    "`insufficient_rights`: the token is no hook token. `address_not_allowed`: the token may not "
    "be used from this address.",
    "insufficient_rights",
    rights.denial("manage hooks"),
)
_INVALID = error_response(
    "`unknown_parameter`, `invalid_parameter`, or `invalid_body`: the text says what to change.",
    "invalid_parameter",
    "threshold must be a number from 0.1 to 100.",
    "threshold",
)
_TOO_LARGE = error_response(
    f"`payload_too_large`: the body has more than {_LIMIT} bytes.",
    "payload_too_large",
    f"The body must be at most {_LIMIT} bytes.",
)


def _operation(id: str, summary: str, description: str, success: Json, **more: object) -> Json:
    return {
        "operationId": id,
        "summary": summary,
        "description": description,
        "tags": ["Hooks"],
        "security": [{"hookToken": []}],
        **more,
        "responses": {
            **success,
            "400": _INVALID,
            "401": reading.UNKNOWN_TOKEN,
            "403": _FORBIDDEN,
            "414": reading.URI_TOO_LONG,
            "429": reading.RATE_LIMITED,
            "503": reading.UNAVAILABLE,
        },
    }


_ID: Json = {"in": "path", "name": "hook_id", "required": True, "schema": {"type": "integer"}}
OPERATIONS: dict[tuple[type, str], Json] = {
    (views.HookList, "get"): _operation(
        "listHooks",
        "List hooks",
        "The hooks of the product. Those that people added in the admin are not among them.",
        {"200": json_response(reference("HookList"), "Success.", {"hooks": {"data": [_EXAMPLE]}})},
        parameters=[query("target_url", {"type": "string"}, "Only hooks that lead to this URL.")],
    ),
    (views.HookList, "post"): _operation(
        "addHook",
        "Add a hook",
        f"It is active at once, and gets no test message. A product has at most {hooks.MAX_HOOKS}. "
        "The same hook again is the one that is there. A receiver that answers 410 ends its hook.",
        {
            "201": json_response(
                reference("AddedHook"), "Added.", {"hook": {**_EXAMPLE, "secret": "whsec_c2Vj…"}}
            ),
            "413": _TOO_LARGE,
        },
        requestBody={
            "required": True,
            "content": {
                "application/json": {
                    "schema": reference("HookBody"),
                    "examples": {"hook": {"value": _REQUEST}},
                }
            },
        },
    ),
    (views.HookDetail, "delete"): _operation(
        "removeHook",
        "Remove a hook",
        "The response is the same if there is none.",
        {"204": {"description": "Removed."}},
        parameters=[_ID],
    ),
    (views.HookSamples, "get"): _operation(
        "listHookSamples",
        "List sample messages",
        "Made-up messages as a hook gets them, to build on: a hook token reads nothing.",
        {
            "200": json_response(
                reference("HookMessages"),
                "Success.",
                {"messages": list(samples.examples("score.crossed").values())},
            )
        },
        parameters=[
            query("event", {"type": "string", "enum": _EVENTS}, "The event.", required=True)
        ],
    ),
}
