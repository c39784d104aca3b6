"""The read API's operations."""

import re
from typing import Any

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
from readapi import parameters, records, views
from readapi.records import One, Page

SECURITY: list[Json] = [{"readToken": []}]
SECURITY_SCHEME: Json = {
    "type": "http",
    "scheme": "bearer",
    "description": "A read token of a product, `eds_…`, from the admin.",
}

_ANSWERS: tuple[Any, ...] = (
    Page[records.Workspace],
    One[records.Workspace],
    Page[records.Account],
    One[records.ExpandedAccount],
    Page[records.User],
    One[records.ExpandedUser],
    Page[records.Segment],
    One[records.Segment],
    records.LegacyAnswer,
    records.Refusal,
)


def schemas() -> Json:
    """The components of all answers, made from the records' types."""
    _, components = msgspec.json.schema_components(
        _ANSWERS, ref_template="#/components/schemas/{name}"
    )
    text = msgspec.json.encode(components).decode()
    # `Page[Account]` is a name for Python; what is made from the description wants plain words.
    text = re.sub(r"(Page|One)(?:_|\[)(\w+?)(?:_|\])(?=\")", r"\1Of\2", text)
    found: Json = msgspec.json.decode(text)
    return found


# --- Parameters -----------------------------------------------------------------------------

_NUMBER: Json = {"type": "integer", "minimum": 0, "maximum": parameters.MAX_INTEGER}
_ID: Json = {**_NUMBER, "minimum": 1}
_TEXT: Json = {"type": "string", "minLength": 1, "pattern": "^[^\\u0000]*$"}

_CURSOR_TOLD = (
    "Where a page begins. It comes from a link of the same list, and holds until the workspace is "
    "edited: then it is an `invalid_cursor`, and the first page is where to start again. Not "
    "together with `match_type`."
)
WORKSPACE_ID = query("workspace_id", _ID, "The workspace to read.", required=True, example=1)
PAGE = [
    query(
        "limit",
        {
            "type": "integer",
            "minimum": 1,
            "maximum": parameters.MAX_LIMIT,
            "default": parameters.DEFAULT_LIMIT,
        },
        "How many records a page has at most.",
    ),
    query(
        "offset",
        {**_NUMBER, "default": 0},
        "How many records to skip. For people: a program follows `_links.next`, which costs the "
        "same on every page and neither repeats nor misses records. Not together with `cursor`.",
    ),
    query("cursor", _TEXT, _CURSOR_TOLD),
]
SCOPE = query(
    "scope",
    {"type": "string", "enum": ["user", "account"]},
    "Only segments of users, or of accounts.",
)
EXCLUDE_DEFAULTS = query(
    "exclude_defaults",
    {"type": "boolean", "default": False},
    "Leaves out the segments that each workspace comes with.",
)
TRAITS = list_query(
    "traits",
    {**_TEXT, "pattern": "^[^\\u0000,]*$"},
    "The traits that `expand=traits` is to show; without it, all. One that the user does not have "
    "is null.",
    minItems=1,
    maxItems=parameters.MAX_TRAITS,
)
ACCOUNT_ID = query("id", _ID, "The account's id. Either this or a match.")


def _match(*kinds: str) -> list[Json]:
    kinds_told = ", ".join(f"`{kind}`" for kind in kinds)
    return [
        query(
            "match_type",
            _TEXT,
            f"What to look for: {kinds_told}, or the name of any trait. Goes with `match_value`.",
            example=kinds[0],
        ),
        query(
            "match_value",
            _TEXT,
            f"Its exact value; `{kinds[0]}` ignores case. Of several matches the one seen last is "
            "found. An account is seen when a message names it and when somebody does a scored "
            "event there.",
        ),
    ]


MATCH_ACCOUNT = _match("domain", "name", "tracking_id")
MATCH_USER = _match("email", "tracking_id")


def _expand(*names: str) -> Json:
    items = {"type": "string", "enum": list(names)}
    return list_query("expand", items, "What to add to each record.", uniqueItems=True)


def _path(name: str, noun: str) -> Json:
    return {
        "in": "path",
        "name": name,
        "required": True,
        "schema": _ID,
        "description": f"The {noun}'s id.",
        "example": 1,
    }


# --- Errors ---------------------------------------------------------------------------------

UNKNOWN_TOKEN = error_response(
    "`invalid_token`: the read token is missing, unknown or revoked.",
    "invalid_token",
    "This read token is unknown or has been revoked.",
    headers={
        "WWW-Authenticate": {
            "description": "The scheme to use.",
            "required": True,
            "schema": {"const": "Bearer"},
        }
    },
)
NOT_FOUND = error_response(
    "`not_found`: it does not exist, or the token must not see it; the two are not told apart.",
    "not_found",
    "Nothing that this token can see has this id.",
)
RATE_LIMITED = error_response(
    "`rate_limited`: the token made too many requests in this minute of the clock.",
    "rate_limited",
    "This token may make 600 requests a minute. Wait as long as Retry-After says.",
    headers=RETRY_AFTER,
)
URI_TOO_LONG = error_response(
    f"`{uri_too_long.CODE}`: the request line is over {gunicorn.limit_request_line:,} bytes.",
    uri_too_long.CODE,
    uri_too_long.error_message(gunicorn.limit_request_line),
)
UNAVAILABLE = error_response(
    "`unavailable`: the database cannot be reached.",
    "unavailable",
    "The database cannot be reached at the moment. Try again shortly.",
    headers=RETRY_AFTER,
)
_PAGE_CODES = ["invalid_limit", "invalid_offset", "invalid_cursor"]
_WORKSPACE_CODES = ["missing_workspace_id", "invalid_workspace_id"]


def _bad_request(*codes: str) -> Json:
    general = ["unknown_parameter", "invalid_parameter", "invalid_expand"]
    told = ", ".join(f"`{code}`" for code in [*codes, *general])
    return error_response(
        f"The parameters cannot mean anything: {told}.",
        "invalid_expand",
        "expand may name: traits.",
        "expand",
    )


# --- Operations -----------------------------------------------------------------------------


def _read(
    id: str,
    summary: str,
    schema: str,
    example: Json,
    asks: list[Json],
    codes: list[str],
    *,
    tag: str,
    can_be_missing: bool = True,
) -> Json:
    not_found = {"404": NOT_FOUND} if can_be_missing else {}
    return {
        "operationId": id,
        "summary": summary,
        "tags": [tag],
        "security": SECURITY,
        "parameters": asks,
        "responses": {
            "200": json_response(reference(schema), "Found.", {"found": example}),
            "400": _bad_request(*codes),
            "401": UNKNOWN_TOKEN,
            **not_found,
            "414": URI_TOO_LONG,
            "429": RATE_LIMITED,
            "503": UNAVAILABLE,
        },
    }


def _list(
    id: str, summary: str, schema: str, example: Json, asks: list[Json], *codes: str, tag: str
) -> Json:
    """A list within a workspace."""
    asks = [WORKSPACE_ID, *asks, *PAGE]
    all_codes = [*_WORKSPACE_CODES, *codes, *_PAGE_CODES]
    return _read(id, summary, schema, example, asks, all_codes, tag=tag)


def _detail(
    id: str, summary: str, schema: str, example: Json, asks: list[Json], *codes: str, tag: str
) -> Json:
    """A single resource of a workspace."""
    asks = [*asks[:1], WORKSPACE_ID, *asks[1:]]
    return _read(id, summary, schema, example, asks, [*_WORKSPACE_CODES, *codes], tag=tag)


_STATS = examples.WORKSPACE | {"stats": examples.STATS}

OPERATIONS: dict[type, Json] = {
    views.WorkspaceList: _read(
        "listWorkspaces",
        "List workspaces",
        "PageOfWorkspace",
        examples.page(_STATS, "workspaces", "stats"),
        [_expand("stats"), *PAGE],
        _PAGE_CODES,
        tag="Workspaces",
        can_be_missing=False,
    ),
    views.WorkspaceDetail: _read(
        "getWorkspace",
        "Get a workspace",
        "OneOfWorkspace",
        examples.single_record(_STATS, "stats"),
        [_path("workspace_id", "workspace"), _expand("stats")],
        [],
        tag="Workspaces",
    ),
    views.AccountList: _list(
        "listAccounts",
        "List accounts by score, or find one",
        "PageOfAccount",
        examples.page(examples.ACCOUNT, "accounts?workspace_id=1"),
        MATCH_ACCOUNT,
        "missing_match_parameter",
        tag="Accounts",
    ),
    views.AccountDetail: _detail(
        "getAccount",
        "Get an account",
        "OneOfExpandedAccount",
        examples.single_record(
            examples.EXPANDED_ACCOUNT, "insights", "traits", "segments", "events", "history"
        ),
        [_path("account_id", "account"), _expand(*views.AccountDetail.EXPANSIONS)],
        tag="Accounts",
    ),
    views.UserList: _list(
        "listUsers",
        "List users by score, or find one",
        "PageOfUser",
        examples.page(examples.USER, "users?workspace_id=1"),
        MATCH_USER,
        "missing_match_parameter",
        tag="Users",
    ),
    views.UserDetail: _detail(
        "getUser",
        "Get a user",
        "OneOfExpandedUser",
        examples.single_record(examples.EXPANDED_USER, "traits", "segments", "events", "history"),
        [_path("user_id", "user"), _expand(*views.UserDetail.EXPANSIONS), TRAITS],
        "too_many_traits",
        tag="Users",
    ),
    views.SegmentList: _list(
        "listSegments",
        "List segments",
        "PageOfSegment",
        examples.page(examples.SEGMENT | {"member_count": 9}, "segments?workspace_id=1", "counts"),
        [SCOPE, EXCLUDE_DEFAULTS, _expand("counts")],
        tag="Segments",
    ),
    views.SegmentDetail: _detail(
        "getSegment",
        "Get a segment",
        "OneOfSegment",
        examples.single_record(examples.SEGMENT | {"member_count": 9}),
        [_path("segment_id", "segment")],
        tag="Segments",
    ),
    views.SegmentMembers: _list(
        "listMembers",
        "List the members of a segment by score",
        "Members",
        examples.page(examples.ACCOUNT, "segments/22/members?workspace_id=1"),
        [_path("segment_id", "segment")],
        tag="Segments",
    ),
    views.LegacyAccountView: _read(
        "findAccount",
        "Find one account",
        "LegacyAnswer",
        examples.LEGACY_ACCOUNT,
        [WORKSPACE_ID, ACCOUNT_ID, *MATCH_ACCOUNT, _expand(*views.LegacyAccountView.EXPANSIONS)],
        [*_WORKSPACE_CODES, "missing_match_parameter"],
        tag="Version 1 (legacy)",
    )
    | {"deprecated": True},
}
# Users or accounts, by the segment's scope.
MEMBERS: Json = {"anyOf": [reference("PageOfAccount"), reference("PageOfUser")]}
