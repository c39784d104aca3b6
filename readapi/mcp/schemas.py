"""What the tools answer, as JSON Schema: derived from the records of the read API."""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec
from msgspec import Meta

from readapi import records

Json = dict[str, Any]
_REFERENCE = "#/$defs/{name}"


class MoverRecord(records.AccountName):
    score: records.Score
    score_change: records.Change
    score_change_complete_days: records.CompleteChange


class NewAccountRecord(records.AccountName):
    score: records.Score


class Movers(TypedDict):
    """The accounts that moved most over complete days, largest change first. New ones have no score
    to compare with: of them, those with the highest scores."""

    lookback_days: NotRequired[int]
    half_life_days: NotRequired[int | None]
    rising: list[MoverRecord]
    falling: list[MoverRecord]
    new: list[NewAccountRecord]


class IngestionHealth(TypedDict):
    """Messages of the last 24 hours. What is unknown is null."""

    accepted: int
    recorded: int
    dropped: Annotated[dict[str, int], Meta(description="By reason.")]
    in_quarantine: int | None
    waiting: int | None
    oldest_waiting_since: records.Time | None


class ConnectionHealth(TypedDict):
    state: str
    text: str
    last_success_at: records.Time | None


class Health(TypedDict):
    ingestion: IngestionHealth
    connection: Annotated[
        ConnectionHealth | None, Meta(description="Null without a marketplace connection.")
    ]


@cache
def page_of(*record_types: Any) -> Json:
    """The schema of a page of records, each of one of the types."""
    references, components = _components(*record_types, records.Pagination)
    *items, pagination = references
    return _object(
        components,
        ["data", "pagination"],
        data={"type": "array", "items": items[0] if len(items) == 1 else {"anyOf": items}},
        pagination=pagination,
        next_cursor={"type": ["string", "null"], "description": "The cursor of the next page."},
        note={"type": "string", "description": "What the records leave out."},
    )


@cache
def one_of(record_type: Any) -> Json:
    """The schema of a response with a single record."""
    (reference,), components = _components(record_type)
    return _object(components, ["data"], data=reference)


@cache
def plain(record_type: Any) -> Json:
    """The schema of the record itself."""
    _, components = _components(record_type)
    own: Json = components.pop(record_type.__name__)
    return own | {"$defs": components}


def _object(components: Json, required: list[str], **properties: Json) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "$defs": components,
    }


def _components(*record_types: Any) -> tuple[list[Json], Json]:
    """References to the types, and what they refer to."""
    references, components = msgspec.json.schema_components(record_types, ref_template=_REFERENCE)
    return list(references), {name: _public(schema) for name, schema in components.items()}


def _public(schema: Mapping[str, Any]) -> Json:
    """The schema without links, which an assistant cannot open."""
    properties = schema.get("properties", {})
    return {
        **schema,
        "properties": {name: properties[name] for name in properties if not name.startswith("_")},
        "required": [name for name in schema.get("required", ()) if not name.startswith("_")],
    }
