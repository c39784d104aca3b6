"""Assembles the OpenAPI description: one operation for each URL of the APIs."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeAlias

import msgspec
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema

from config.openapi import forgetting, hooks, reading, sdk_settings, sending, validating, webhooks
from config.openapi.pieces import Json
from ingestion.forget_requests import ForgetView
from ingestion.sdk_settings import SdkSettingsView
from ingestion.views import IngestionView, ValidationView
from readapi.views import UnknownPathView
from readapi.views.base import ReadView
from readapi.views.hooks import HookView

ABOUT = """
Send users, accounts, and events. Read ranked accounts and users, segments, and what each score is
made of.

**Sending** takes an ingestion key (`edk_…`), **reading** a read token (`eds_…`). Both belong to a
product; create them in the admin. A `202` means that the data is on disk. The API also returns
`202` for an invalid key; it then drops the messages in the background and logs the reason.

**Lists** are ranked and come in pages: follow `_links.next`. **Times** are ISO 8601 in UTC.
**Scores** go from 0 to 100. What is unknown is `null`; no key is ever missing.

**Errors** have one shape: `{"error": {"code": "…", "message": "…", "field": "…"}}`. `code` is for
programs, and `message` says what is wrong and what to do. `field` is present if one field or
parameter is at fault. If an endpoint does not support a method, it returns `405` and `Allow`.

**URLs for sending** may end with a slash. Those under `/segment/v1` work without `/segment`, too,
because some SDKs drop it, and `/beacon/v1/batch` is another name of `/segment/v1/batch`.
"""

TAGS = [
    {"name": "Sending", "description": "Users, accounts, and events, as they happen."},
    {"name": "Workspaces", "description": "The scoring profiles that a token may read."},
    {"name": "Accounts", "description": "List, look up, and read accounts."},
    {"name": "Users", "description": "List, look up, and read users."},
    {"name": "Segments", "description": "Named rules and their current members."},
    {"name": "Licenses", "description": "What happened to the licenses of accounts."},
    {"name": "Hooks", "description": "Webhooks that tools such as Zapier and n8n add themselves."},
    {"name": "Forgetting", "description": "Erase users and accounts on request."},
    {
        "name": "Segment-compatible",
        "description": "For existing SDKs and pipelines that use Segment's protocol.",
    },
    {"name": "Version 1 (legacy)", "description": "For older clients. It remains supported."},
]

CONTACT = {"name": "The operator of this service"}

Endpoint: TypeAlias = tuple[str, str, str, Callable[..., Any]]


class TableAutoSchema(AutoSchema):
    """Describes a view by the tables of this package. Raises KeyError for a view without a row."""

    def get_operation(
        self, path: str, path_regex: str, path_prefix: str, method: str, registry: Any
    ) -> Json | None:
        view = self.view
        if isinstance(view, UnknownPathView):
            return None
        if isinstance(view, ReadView):
            return reading.describe(type(view), path)
        if isinstance(view, HookView):
            return hooks.OPERATIONS[type(view), method.lower()]
        if isinstance(view, ForgetView):
            return forgetting.OPERATION
        if isinstance(view, SdkSettingsView):
            return sdk_settings.SETTINGS_OPERATIONS[type(view)]
        assert isinstance(view, IngestionView)
        if isinstance(view, ValidationView):
            return validating.OPERATIONS[view.door]
        operation = sending.OPERATIONS[view.door]
        if alias := _alias(path):
            operation_id = operation["operationId"] + alias.capitalize()
            summary = "The same at another URL"
            return {**operation, "operationId": operation_id, "summary": summary}
        return operation


def expand_paths(endpoints: list[Endpoint]) -> list[Endpoint]:
    """The endpoints, with one entry for each URL."""
    return [
        (url, regex, method, callback)
        for path, regex, method, callback in endpoints
        for url in _urls(path, regex)
    ]


def _urls(path: str, regex: str) -> Iterator[str]:
    """``^(?:segment/)?x/(?:a|b)/?$`` is ``/segment/x/a`` and ``/segment/x/b``."""
    plain = _OPTIONAL.sub(lambda part: part[1] if part[1] == "segment/" else "", regex)
    plain = plain.removeprefix("^").removesuffix("$").removesuffix("/?")
    plain = _PARAMETER.sub(r"{\1}", plain)
    beginning, choice, names = plain.removesuffix(")").partition("(?:")
    if not regex.startswith("^"):
        yield path
    elif not choice:
        yield f"/{plain}"
    elif "(" not in names:
        yield from (f"/{beginning}{name}" for name in names.split("|"))


# The description lists one URL of several that differ in what clients may leave out.
_OPTIONAL = re.compile(r"\(\?:([a-z]+/)\)\?")
_PARAMETER = re.compile(r"\(\?P<(\w+)>[^()]+\)")


def _alias(path: str) -> str:
    """What distinguishes the operation at a second URL from the one at the first."""
    last = path.rpartition("/")[2]
    if not path.startswith("/segment/v1/") or last in _FIRST_NAMES:
        return ""
    return last


_FIRST_NAMES = {"batch", "identify", "group", "track", "page", "screen", "alias"}


@cache
def render_schema() -> bytes:
    """The whole description as JSON."""
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    return msgspec.json.encode(generator.get_schema(public=True))  # type: ignore[no-untyped-call]


def add_components(result: Json, **_: Any) -> Json:
    """Add what no view says: the introduction, the tags, and the components."""
    return {
        **result,
        "info": {
            **result["info"],
            "description": ABOUT.strip(),
            "license": {"name": "MIT", "identifier": "MIT"},
            "contact": CONTACT,
        },
        # Relative to the URL of the description, so it is right on every host.
        "servers": [{"url": "/", "description": "This service."}],
        "tags": TAGS,
        "webhooks": webhooks.operations(),
        "components": {
            "schemas": reading.schemas()
            | sending.SCHEMAS
            | validating.SCHEMAS
            | forgetting.SCHEMAS
            | hooks.SCHEMAS
            | webhooks.schemas(),
            "securitySchemes": {
                "ingestionKey": sending.SECURITY_SCHEME,
                "readToken": reading.SECURITY_SCHEME,
                "forgetKey": forgetting.SECURITY_SCHEME,
                "hookToken": hooks.SECURITY_SCHEME,
            },
        },
    }
