"""The read API's operations, derived from its views and records."""

import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args, get_origin

import msgspec

from config.openapi import examples
from config.openapi.pieces import (
    RETRY_AFTER,
    Json,
    error_response,
    json_response,
    list_query,
    query,
    reference,
)
from config.server import gunicorn, uri_too_long
from engagement.insight_kinds import INSIGHTS
from readapi import authentication, changes, errors, parameters, records, views
from readapi.records import One, Page
from readapi.views import rankings
from readapi.views.base import ReadView

SECURITY: list[Json] = [{"readToken": []}]
SECURITY_SCHEME: Json = {
    "type": "http",
    "scheme": "bearer",
    "description": "A read token of a product, `eds_…`, from the admin.",
}


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


# --- Parameters -----------------------------------------------------------------------------

_NUMBER: Json = {"type": "integer", "minimum": 0, "maximum": parameters.MAX_INTEGER}
_ID: Json = {**_NUMBER, "minimum": 1}
_TEXT: Json = {"type": "string", "minLength": 1, "pattern": "^[^\\u0000]*$"}

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
        {"type": "boolean", "default": False},
        "Leave out the segments that every workspace comes with.",
    ),
    query(
        "segment_id",
        _ID,
        "Return only members of this segment, which must be of the same scope as the list.",
    ),
    query(
        "insight",
        {"type": "string", "enum": list(INSIGHTS)},
        "Return only accounts with an insight of this kind.",
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
        "sort",
        {"type": "string", "enum": list(rankings.SORTS), "default": rankings.SORTS[0]},
        "The order of the list. `-` means: highest first.",
    ),
    query(
        "changed_since",
        _TEXT,
        "Return only what changed: `start` for all records, or a value from `_links.changes` of "
        "the last page. Records come in the order of their IDs. Use it only with `cursor`, "
        "`limit`, `expand`, and `traits`.",
        example=changes.START,
    ),
    query(
        "total",
        {"type": "boolean", "default": False},
        "Add `pagination.total`, the number of records on all pages.",
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
        {
            "type": "integer",
            "minimum": 1,
            "default": parameters.DEFAULT_LIMIT,
        },
        "The maximum number of records on a page.",
    ),
    query(
        "offset",
        {**_NUMBER, "default": 0},
        "The number of records to skip. Programs should follow `_links.next` instead: every page "
        "then costs the same, and no record repeats or is missed. Use either `offset` or `cursor`, "
        "not both.",
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
_CODES: dict[str, tuple[str, ...]] = {
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
            f"What to look up by: {_listed(match_types)}, or the name of any trait. Use it with "
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


def _parameters(operation: ReadOperation, path_ids: list[str]) -> Iterator[Json]:
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
    for name in view.PARAMETERS:
        yield described[name]


def _listed(codes: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{code}`" for code in codes)


# --- Errors ---------------------------------------------------------------------------------

UNKNOWN_TOKEN = error_response(
    "`invalid_token`: the read token is missing, unknown, or revoked.",
    "invalid_token",
    authentication.TOKEN_UNKNOWN,
    headers={
        "WWW-Authenticate": {
            "description": "The authentication scheme.",
            "required": True,
            "schema": {"const": "Bearer"},
        }
    },
)
NOT_FOUND = error_response(
    "`not_found`: the record does not exist, or the token must not see it. The API does not say "
    "which.",
    "not_found",
    errors.NOT_FOUND,
)
RATE_LIMITED = error_response(
    "`rate_limited`: the token made too many requests in this minute of the clock.",
    "rate_limited",
    errors.rate_limit_message(600),
    headers=RETRY_AFTER,
)
URI_TOO_LONG = error_response(
    f"`{uri_too_long.CODE}`: the request line is over {gunicorn.limit_request_line:,} bytes.",
    uri_too_long.CODE,
    uri_too_long.error_message(gunicorn.limit_request_line),
)
UNAVAILABLE = error_response(
    "`unavailable`: the database cannot be reached, or the request took too long.",
    "unavailable",
    errors.UNAVAILABLE,
    headers=RETRY_AFTER,
)


def _bad_request(names: tuple[str, ...]) -> Json:
    codes = list(dict.fromkeys(code for name in names for code in _CODES.get(name, ())))
    codes += ["unknown_parameter", "invalid_parameter", "invalid_expand"]
    return error_response(
        f"A parameter is invalid: {_listed(codes)}.",
        "invalid_expand",
        parameters.invalid_expand_message(["traits"]),
        "expand",
    )


# --- Operations -----------------------------------------------------------------------------

# Users or accounts, by the segment's scope.
MEMBERS: Json = {"anyOf": [reference("AccountList"), reference("UserList")]}
_STATS = examples.WORKSPACE | {"stats": examples.STATS}
_COUNTED_SEGMENT = examples.SEGMENT | {"member_count": 9}

OPERATIONS = [
    ReadOperation(
        views.WorkspaceList,
        "listWorkspaces",
        "List workspaces",
        "Workspaces",
        Page[records.WorkspaceRecord],
        examples.page(_STATS, "workspaces", "stats"),
    ),
    ReadOperation(
        views.WorkspaceDetail,
        "getWorkspace",
        "Get a workspace",
        "Workspaces",
        One[records.WorkspaceRecord],
        examples.single_record(_STATS, "stats"),
    ),
    ReadOperation(
        views.AccountList,
        "listAccounts",
        "List accounts by score, or find one",
        "Accounts",
        Page[records.AccountRecord],
        examples.page(examples.LISTED_ACCOUNT, "accounts?workspace_id=1", "traits", "metrics"),
        match_types=("domain", "name", "tracking_id"),
    ),
    ReadOperation(
        views.AccountDetail,
        "getAccount",
        "Get an account",
        "Accounts",
        One[records.ExpandedAccount],
        examples.single_record(examples.EXPANDED_ACCOUNT, *views.AccountDetail.EXPANSIONS),
    ),
    ReadOperation(
        views.AccountUsers,
        "listAccountUsers",
        "List the users of an account by score",
        "Accounts",
        Page[records.UserRecord],
        examples.page(examples.LISTED_USER, "accounts/17/users?workspace_id=1", "traits"),
    ),
    ReadOperation(
        views.UserList,
        "listUsers",
        "List users by score, or find one",
        "Users",
        Page[records.UserRecord],
        examples.page(examples.USER, "users?workspace_id=1"),
        match_types=("email", "tracking_id"),
    ),
    ReadOperation(
        views.UserDetail,
        "getUser",
        "Get a user",
        "Users",
        One[records.ExpandedUser],
        examples.single_record(examples.EXPANDED_USER, *views.UserDetail.EXPANSIONS),
    ),
    ReadOperation(
        views.SegmentList,
        "listSegments",
        "List segments",
        "Segments",
        Page[records.SegmentRecord],
        examples.page(_COUNTED_SEGMENT, "segments?workspace_id=1", "counts"),
    ),
    ReadOperation(
        views.SegmentDetail,
        "getSegment",
        "Get a segment",
        "Segments",
        One[records.SegmentRecord],
        examples.single_record(_COUNTED_SEGMENT),
    ),
    ReadOperation(
        views.SegmentMembers,
        "listMembers",
        "List the members of a segment by score",
        "Segments",
        "MemberList",
        examples.page(examples.ACCOUNT, "segments/22/members?workspace_id=1"),
    ),
    ReadOperation(
        views.LegacyAccountView,
        "findAccount",
        "Find one account",
        "Version 1 (legacy)",
        records.LegacyAccount,
        examples.LEGACY_ACCOUNT,
        match_types=("domain", "name", "tracking_id"),
    ),
]
_OPERATION_OF = {operation.view: operation for operation in OPERATIONS}


def describe(view: type[ReadView], path: str) -> Json:
    """The OpenAPI operation of a view at a path. Raises KeyError for a view without one."""
    operation = _OPERATION_OF[view]
    path_ids = re.findall(r"\{(\w+)\}", path)
    can_be_missing = path_ids or "workspace_id" in view.PARAMETERS
    return {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": inspect.cleandoc(view.__doc__ or ""),
        "tags": [operation.tag],
        "security": SECURITY,
        "parameters": list(_parameters(operation, path_ids)),
        "responses": {
            "200": json_response(
                reference(_public_name(operation.record)), "Success.", {"found": operation.example}
            ),
            "400": _bad_request(view.PARAMETERS),
            "401": UNKNOWN_TOKEN,
            **({"404": NOT_FOUND} if can_be_missing else {}),
            "414": URI_TOO_LONG,
            "429": RATE_LIMITED,
            "503": UNAVAILABLE,
        },
        **({"deprecated": True} if path.startswith("/v1/") else {}),
    }


# --- Schemas --------------------------------------------------------------------------------


def _public_name(record: Any) -> str:
    """``AccountList`` of ``Page[AccountRecord]``, ``AccountDetail`` of ``One[ExpandedAccount]``."""
    if isinstance(record, str):
        return record
    if origin := get_origin(record):
        kind = {Page: "List", One: "Detail"}[origin]
        return _public_name(get_args(record)[0]).removeprefix("Full") + kind
    name: str = record.__name__
    return _RENAMED.get(name, name.removesuffix("Record"))


# Where the name in Python is not the one for clients.
_RENAMED = {"ExpandedAccount": "FullAccount", "ExpandedUser": "FullUser"}


def schemas() -> Json:
    """The components of all responses, derived from the records' types."""
    types = [operation.record for operation in OPERATIONS if operation.record != "MemberList"]
    _, components = msgspec.json.schema_components(
        [*types, records.ErrorResponse], ref_template="#/components/schemas/{name}"
    )
    text = msgspec.json.encode(components).decode()
    for record in types:
        # msgspec writes Page_AccountRecord_ in references, and Page[AccountRecord] in names.
        for name in _generic_names(record):
            text = text.replace(name, _public_name(record))
    text = re.sub(r"\b(\w+)Record(?=\")", r"\1", text)
    for name, public_name in _RENAMED.items():
        text = re.sub(rf"\b{name}(?=\")", public_name, text)
    named: Json = msgspec.json.decode(text)
    return named | {"MemberList": MEMBERS}


def _generic_names(record: Any) -> tuple[str, ...]:
    if (origin := get_origin(record)) is None:
        return ()
    argument = get_args(record)[0].__name__
    return f"{origin.__name__}[{argument}]", f"{origin.__name__}_{argument}_"
