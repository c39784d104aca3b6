"""The parameters of the read API's operations."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from config.openapi.pieces import Json, list_query, query
from engagement.insight_kinds import ACTIVITY_LABELS
from engagement.metric_names import Scope
from engagement.models.work import LOGIN_LENGTH, TAG_LENGTH
from engagement.rules import license_events
from engagement.rules.rules import MAX_DAYS
from engagement.segments.insight_filters import INSIGHT_KINDS
from outcomes.kinds import Kind
from readapi import changes, parameters, records, sorting
from readapi.filters import NOBODY
from readapi.records import Page
from readapi.views.base import ReadView
from readapi.views.chances import ORDERS
from readapi.views.cohorts import SUBJECTS
from trends.changes.results import Cadence
from trends.reading import Interval
from trends.timeline.entries import EntryKind


class ReadOperation(NamedTuple):
    """What a view does not say about its operation. ``record`` is the type of the response."""

    view: type[ReadView]
    id: str
    summary: str
    tag: str
    record: Any
    example: Json
    # What match_type may be, the case-insensitive one first.
    match_types: tuple[str, ...] = ()


_NUMBER: Json = {"type": "integer", "minimum": 0, "maximum": parameters.MAX_INTEGER}
_ID: Json = {**_NUMBER, "minimum": 1}
_DAY: Json = {"type": "string", "format": "date"}
_TEXT: Json = {"type": "string", "minLength": 1, "pattern": "^[^\\u0000]*$"}

# No schema has a default: generated clients would send it with every request.
_PARAMETERS = [
    query("workspace_id", _ID, "The workspace to read.", required=True, example=1),
    query("id", _ID, "The account's ID. Use either this or `match_type`."),
    query(
        "scope",
        {"type": "string", "enum": ["user", "account"]},
        "Return only segments of users, or only segments of accounts.",
    ),
    query(
        "exclude_defaults",
        {"type": "boolean"},
        "Leave out the segments that every workspace comes with.",
    ),
    query(
        "segment_id",
        _ID,
        "Return only members of this segment, which must be of the same scope as the list; of "
        "trends, the figures of this segment.",
    ),
    query("account_id", _ID, "Return only events of this account's licenses."),
    query(
        "type",
        {"type": "string", "enum": list(license_events.labels())},
        "Return only events of this type.",
    ),
    query("since", _DAY, "Return only events from this UTC day on.", example="2026-09-01"),
    query("until", _DAY, "Return only events before this UTC day.", example="2026-10-01"),
    query("withdrawn", {"type": "boolean"}, "Also return events that are withdrawn."),
    query(
        "kind",
        {"type": "string", "enum": list(Kind)},
        f"What is being decided; by default `{Kind.EVALUATION}`.",
    ),
    query(
        "period",
        {"type": "string", "enum": list(Cadence)},
        "The last seven complete UTC days (the default), or the last one.",
    ),
    query(
        "order",
        {"type": "string", "enum": list(ORDERS)},
        "`expected_seats`: the largest product of chance and seats first, the default of licenses. "
        "`chance`: the least likely to end well first, the default without licenses. `day`: what "
        "is decided next first.",
    ),
    query(
        "min_score",
        {"type": "number", "minimum": 0, "maximum": 100, "multipleOf": 0.1},
        "Return only records with at least this score. One decimal.",
    ),
    query(
        "trait",
        {
            "type": "array",
            "items": {**_TEXT, "pattern": "^[^:\\u0000]+:[^\\u0000]+$", "maxLength": 700},
            "maxItems": parameters.MAX_TRAITS,
        },
        "Return only records with this trait: its name, a colon, and its exact value, such as "
        "`plan:pro`. Repeat the parameter for several traits: all must match.",
        style="form",
        explode=True,
        example=["plan:pro"],
    ),
    query(
        "owner",
        {**_TEXT, "maxLength": LOGIN_LENGTH},
        f"Return only accounts that this login owns; `{NOBODY}`: those that nobody owns.",
        example="dana",
    ),
    query(
        "tag",
        {**_TEXT, "maxLength": TAG_LENGTH},
        "Return only accounts with this tag.",
        example="onboarding",
    ),
    query(
        "insight",
        {"type": "string", "enum": list(INSIGHT_KINDS)},
        "Return only accounts with this insight.",
    ),
    query(
        "activity",
        {"type": "string", "enum": list(ACTIVITY_LABELS)},
        "Return only accounts whose activity is in this state, as the last night told it.",
    ),
    query(
        "license_event",
        {"type": "string", "enum": list(license_events.labels())},
        "Return only accounts to whose licenses this happened.",
    ),
    query(
        "license_event_days",
        {**_ID, "maximum": MAX_DAYS},
        "With `license_event`: within this number of UTC days, including today.",
    ),
    query(
        "changed_since",
        _TEXT,
        "Return only what changed, also in segments: `start` for all records, or a value from "
        "`_links.changes` of the last page. Records come in the order of their IDs. Use it only "
        "with `cursor`, `limit`, `expand`, and `traits`.",
        example=changes.START,
    ),
    query(
        "total",
        {"type": "boolean"},
        "Add `pagination.total`, the number of records on all pages.",
    ),
    query(
        "from", _DAY, "The first UTC day; by default 89 days before the last.", example="2026-09-01"
    ),
    query("to", _DAY, "The last UTC day; by default the last with figures.", example="2026-11-23"),
    query(
        "interval",
        {"type": "string", "enum": list(Interval)},
        "What a point is; by default a day. Weeks have seven days, and the last one ends with "
        "`to`; months are those of the calendar.",
    ),
    query(
        "subjects",
        {"type": "string", "enum": list(SUBJECTS)},
        "Whom to count; by default accounts.",
    ),
    query("event", _TEXT, "The name of the event that is activity; by default any scored one."),
    query("by", _TEXT, "A trait: add records for each of its most frequent values."),
    list_query(
        "kinds",
        {"type": "string", "enum": list(EntryKind)},
        "Return only entries of these kinds; by default of all.",
        minItems=1,
    ),
    list_query(
        "traits",
        {**_TEXT, "pattern": "^[^\\u0000,]*$"},
        "The traits that `expand=traits` returns, by default all. A trait that the record does not "
        "have is null.",
        minItems=1,
        maxItems=parameters.MAX_TRAITS,
    ),
    query(
        "limit",
        {"type": "integer", "minimum": 1},
        f"The maximum number of records on a page; by default {parameters.DEFAULT_LIMIT}.",
    ),
    query(
        "offset",
        _NUMBER,
        "The number of records to skip. Programs should follow `_links.next` instead: every page "
        "then costs the same, and no record repeats or is missed. Use either `offset` or `cursor`, "
        "not both. By default 0.",
    ),
    query(
        "cursor",
        _TEXT,
        "The start of a page, from a link of the same list. It is valid until the workspace is "
        "edited. After that, the API returns `invalid_cursor`: start again from the first page. Do "
        "not use it with `match_type`.",
    ),
]
PARAMETERS: dict[str, Json] = {parameter["name"]: parameter for parameter in _PARAMETERS}
# The codes of errors at a parameter.
CODES: dict[str, tuple[str, ...]] = {
    "workspace_id": ("missing_workspace_id", "invalid_workspace_id"),
    "match_type": ("missing_match_parameter",),
    "trait": ("too_many_traits",),
    "traits": ("too_many_traits",),
    "limit": ("invalid_limit",),
    "offset": ("invalid_offset",),
    "changed_since": ("invalid_cursor",),
    "cursor": ("invalid_cursor",),
}


def _match_parameters(match_types: tuple[str, ...]) -> dict[str, Json]:
    return {
        "match_type": query(
            "match_type",
            _TEXT,
            f"What to look up by: {listed(match_types)}, or the name of any trait. Use it with "
            "`match_value`.",
            example=match_types[0],
        ),
        "match_value": query(
            "match_value",
            _TEXT,
            f"The exact value; only `{match_types[0]}` ignores case. If several match, the API "
            "returns the one seen last. A message that names an account counts as seeing it, and "
            "so does a scored event in it.",
        ),
    }


_EXACTNESS = {
    "tracking_id": "exactly this",
    "name": "exactly this",
    "domain": "this, ignoring case",
    "email": "this, ignoring case",
}
LOOKUP_PARAMETERS = {
    name: query(name, _TEXT, f"Return all records, and only those, whose `{name}` is {exactness}.")
    for name, exactness in _EXACTNESS.items()
}


def describe_parameters(operation: ReadOperation, path_ids: list[str]) -> Iterator[Json]:
    view = operation.view
    for name in path_ids:
        description = f"The {name.removesuffix('_id')}'s ID."
        yield {
            "in": "path",
            "name": name,
            "required": True,
            "schema": _ID,
            "description": description,
            "example": 1,
        }
    described = PARAMETERS | LOOKUP_PARAMETERS
    if operation.match_types:
        described = described | _match_parameters(operation.match_types)
    if view.EXPANSIONS:
        items = {"type": "string", "enum": list(view.EXPANSIONS)}
        expand = list_query("expand", items, "What to add to each record.", uniqueItems=True)
        described = described | {"expand": expand}
    limit = PARAMETERS["limit"]
    schema = limit["schema"] | {"maximum": view.MAX_LIMIT}
    described = described | {"limit": limit | {"schema": schema}}
    if "sort" in view.PARAMETERS:
        described = described | {"sort": _sort_parameter(operation)}
    for name in view.PARAMETERS:
        yield described[name]


def _sort_parameter(operation: ReadOperation) -> Json:
    scopes: tuple[Scope, ...] = ("user", "account")
    if operation.record != "MemberList":
        scopes = ("account",) if operation.record == Page[records.AccountRecord] else ("user",)
    texts = dict.fromkeys(text for scope in scopes for text in sorting.choices(scope))
    return query(
        "sort",
        {"type": "string", "enum": list(texts)},
        f"The order of the list, by default `{parameters.DEFAULTS['sort']}`; `-` means: highest, "
        "latest, or last first. Records without a value come last; by `change` and "
        "`change_complete_days`, so do accounts that are younger than two periods. In a large "
        "workspace, all orders but that of the scores are some minutes old, as "
        "`pagination.sorted_at` says. Sorting many filtered records may take too long: the API "
        "then returns `unavailable`.",
    )


def listed(codes: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{code}`" for code in codes)
