"""Puts the description together: one operation for each address of the APIs."""

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeAlias

import msgspec
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema

from config.openapi import reading, sending
from config.openapi.pieces import Json
from readapi.views import UnknownPathView

ABOUT = """
Send users, accounts and events; read ranked accounts and users, segments, and why a score is what
it is.

**Sending** takes an ingestion key (`edk_…`), **reading** a read token (`eds_…`). Both belong to a
product; the admin makes them. A `202` means that the data is on disk. An invalid key is answered
`202` too, and what came with it is dropped in the background, with the reason on record.

**Lists** are ranked and come in pages: follow `_links.next`. **Times** are ISO 8601 in UTC.
**Scores** go from 0 to 100. What is unknown is `null`; no key is ever missing.

**Errors** all look alike, whatever the address:
`{"error": {"code": "…", "message": "…", "field": "…"}}`. `code` is for programs, `message` says
what to do, and `field` is there where one field or parameter is at fault. Any address answers a
method that it does not know with `405` and `Allow`.
"""

TAGS = [
    {"name": "Sending", "description": "Users, accounts and events, as they happen."},
    {"name": "Workspaces", "description": "The scoring profiles that a token may read."},
    {"name": "Accounts", "description": "Ranked, looked up, and one with all that is known."},
    {"name": "Users", "description": "Ranked, looked up, and one with all that is known."},
    {"name": "Segments", "description": "Named rules, and who meets them now."},
    {
        "name": "Segment-compatible",
        "description": "For existing SDKs and pipelines that speak Segment's protocol.",
    },
    {"name": "Version 1 (legacy)", "description": "For older clients; it stays functional."},
]

OPERATIONS: dict[Any, Json] = {**reading.OPERATIONS, **sending.OPERATIONS}

Endpoint: TypeAlias = tuple[str, str, str, Callable[..., Any]]


class TableAutoSchema(AutoSchema):
    """Takes the operation of a view from the tables; KeyError where nobody described it."""

    def get_operation(self, path: str, *args: Any, **kwargs: Any) -> Json | None:
        view = type(self.view)
        if view is UnknownPathView:
            return None
        operation: Json = {**OPERATIONS[getattr(self.view, "door", view)]}
        if "description" not in operation and view in OPERATIONS and view.__doc__:
            operation["description"] = inspect.cleandoc(view.__doc__)
        if alias := _alias(path):
            operation["operationId"] += f"_{alias}"
            operation["summary"] = "The same at another address"
        return operation


def expand_paths(endpoints: list[Endpoint]) -> list[Endpoint]:
    """The endpoints, with one for each address of those that have several."""
    return [
        (address, regex, method, callback)
        for path, regex, method, callback in endpoints
        for address in _addresses(path, regex)
    ]


def _addresses(path: str, regex: str) -> Iterator[str]:
    """``^x/(?:a|b)$`` is ``/x/a`` and ``/x/b``."""
    beginning, choice, names = regex.removeprefix("^").removesuffix(")$").partition("(?:")
    if not choice:
        yield path
    elif "(" not in names:
        yield from (f"/{beginning}{name}" for name in names.split("|"))


def _alias(path: str) -> str:
    """What tells the operation of a second address from that of the first."""
    last = path.rpartition("/")[2]
    if not path.startswith("/segment/v1/") or last in _FIRST_ADDRESSES:
        return ""
    return last


_FIRST_ADDRESSES = {"batch", "identify", "group", "track", "page", "screen", "alias"}


@cache
def render_schema() -> bytes:
    """The whole description as JSON."""
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    return msgspec.json.encode(generator.get_schema(public=True))  # type: ignore[no-untyped-call]


def add_components(result: Json, **_: Any) -> Json:
    """The description with what no view says: what it is about, and the components."""
    return {
        **result,
        "info": {**result["info"], "description": ABOUT.strip()},
        "tags": TAGS,
        "components": {
            "schemas": reading.schemas() | sending.SCHEMAS | {"Members": reading.MEMBERS},
            "securitySchemes": {
                "ingestionKey": sending.SECURITY_SCHEME,
                "readToken": reading.SECURITY_SCHEME,
            },
        },
    }
