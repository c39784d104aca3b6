"""The read API's operations, derived from its views and records."""

import inspect
import re
from typing import Any, get_args, get_origin

import msgspec

from config.openapi import examples
from config.openapi.pieces import (
    RETRY_AFTER,
    WWW_AUTHENTICATE,
    Json,
    error_response,
    json_response,
    reference,
)
from config.openapi.read_parameters import CODES, ReadOperation, describe_parameters, listed
from config.server import gunicorn, unreadable
from readapi import authentication, errors, parameters, records, rights, views
from readapi.records import One, Page
from readapi.views.base import ReadView

SECURITY: list[Json] = [{"readToken": []}]
SECURITY_SCHEME: Json = {
    "type": "http",
    "scheme": "bearer",
    "description": "A read token of a product, `eds_…`, from the admin.",
}


# --- Errors ---------------------------------------------------------------------------------

UNKNOWN_TOKEN = error_response(
    "`invalid_token`: the read token is missing, unknown, revoked, or expired.",
    "invalid_token",
    authentication.TOKEN_UNKNOWN,
    headers=WWW_AUTHENTICATE,
)
FORBIDDEN = error_response(
    "`insufficient_rights`: the token may not read this: users, accounts, traits of users, or the "
    "workspace. `address_not_allowed`: the token may not be used from this address.",
    "insufficient_rights",
    rights.denial("read users"),
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
    f"`{unreadable.URI_TOO_LONG}`: the request line is over {gunicorn.limit_request_line:,} bytes.",
    unreadable.URI_TOO_LONG,
    unreadable.uri_message(gunicorn.limit_request_line),
)
UNAVAILABLE = error_response(
    "`unavailable`: the database cannot be reached, or the request took too long.",
    "unavailable",
    errors.UNAVAILABLE,
    headers=RETRY_AFTER,
)


def _bad_request(names: tuple[str, ...]) -> Json:
    codes = list(dict.fromkeys(code for name in names for code in CODES.get(name, ())))
    codes += ["unknown_parameter", "invalid_parameter", "invalid_expand"]
    return error_response(
        f"A parameter is invalid: {listed(codes)}.",
        "invalid_expand",
        parameters.invalid_expand_message(["traits"]),
        "expand",
    )


# --- Operations -----------------------------------------------------------------------------

# Users or accounts, by the segment's scope.
MEMBERS: Json = {"anyOf": [reference("AccountList"), reference("UserList")]}
_STATS = examples.WORKSPACE | {
    "stats": examples.STATS,
    "product_activity": examples.PRODUCT_ACTIVITY,
}
_COUNTED_SEGMENT = examples.SEGMENT | {"member_count": 9}

OPERATIONS = [
    ReadOperation(
        views.WorkspaceList,
        "listWorkspaces",
        "List workspaces",
        "Workspaces",
        Page[records.WorkspaceRecord],
        examples.page(_STATS, "workspaces", "stats", "product_activity"),
    ),
    ReadOperation(
        views.WorkspaceDetail,
        "getWorkspace",
        "Get a workspace",
        "Workspaces",
        One[records.ExpandedWorkspace],
        examples.single_record(
            _STATS | {"false_alarms": examples.FALSE_ALARMS},
            "stats",
            "product_activity",
            "false_alarms",
        ),
    ),
    ReadOperation(
        views.BacktestList,
        "listBacktests",
        "List whether the score predicted outcomes",
        "Workspaces",
        Page[records.BacktestRecord],
        examples.page(examples.BACKTEST, "workspaces/1/backtests"),
    ),
    ReadOperation(
        views.ChanceList,
        "listChances",
        "List how likely evaluations are to be bought",
        "Workspaces",
        Page[records.ChanceRecord],
        examples.page(examples.CHANCE, "workspaces/1/chances"),
    ),
    ReadOperation(
        views.ChangesDetail,
        "getChanges",
        "Get what changed this week",
        "Workspaces",
        One[records.ChangesRecord],
        examples.single_record(examples.CHANGES),
    ),
    ReadOperation(
        views.FeatureList,
        "listFeatures",
        "List features, and who uses them",
        "Workspaces",
        Page[records.ProductFeatureRecord],
        examples.page(examples.FEATURE, "workspaces/1/features"),
    ),
    ReadOperation(
        views.ForecastList,
        "listForecasts",
        "List what will renew in the months ahead",
        "Workspaces",
        Page[records.ForecastRecord],
        examples.page(examples.FORECAST, "workspaces/1/forecasts"),
    ),
    ReadOperation(
        views.TrendList,
        "listTrends",
        "List how a workspace or a segment moved",
        "Workspaces",
        Page[records.TrendPoint],
        examples.page(examples.TREND_POINT, "workspaces/1/trends?interval=week"),
    ),
    ReadOperation(
        views.CohortList,
        "listCohorts",
        "List who stays, by the week of the first message",
        "Workspaces",
        Page[records.CohortRecord],
        examples.page(examples.COHORT, "workspaces/1/cohorts"),
    ),
    ReadOperation(
        views.ActivationDetail,
        "getActivation",
        "Get who has done which steps of activation",
        "Workspaces",
        One[records.ActivationRecord],
        examples.single_record(examples.ACTIVATION),
    ),
    ReadOperation(
        views.AccountList,
        "listAccounts",
        "List accounts by score, or find one",
        "Accounts",
        Page[records.AccountRecord],
        examples.page(
            examples.LISTED_ACCOUNT,
            "accounts?workspace_id=1",
            *("traits", "metrics", "chances", "closed_alarms"),
        ),
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
        views.AccountTimeline,
        "listAccountTimeline",
        "List what happened to an account",
        "Accounts",
        Page[records.TimelineEntry],
        examples.page(examples.TIMELINE_ENTRY, "accounts/17/timeline?workspace_id=1"),
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
        views.UserTimeline,
        "listUserTimeline",
        "List what happened to a user",
        "Users",
        Page[records.TimelineEntry],
        examples.page(examples.TIMELINE_ENTRY, "users/4/timeline?workspace_id=1"),
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
        views.LicenseEventList,
        "listLicenseEvents",
        "List what happened to licenses",
        "Licenses",
        Page[records.LicenseEventRecord],
        examples.page(examples.LICENSE_EVENT, "license-events?type=seats_up"),
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
        "parameters": list(describe_parameters(operation, path_ids)),
        "responses": {
            "200": json_response(
                reference(_public_name(operation.record)), "Success.", {"found": operation.example}
            ),
            "400": _bad_request(view.PARAMETERS),
            "401": UNKNOWN_TOKEN,
            "403": FORBIDDEN,
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
    # msgspec describes the keys of objects, too, and refers to them nowhere.
    keys = [name for name, own in named.items() if "enum" in own and f'schemas/{name}"' not in text]
    return {name: own for name, own in named.items() if name not in keys} | {"MemberList": MEMBERS}


def _generic_names(record: Any) -> tuple[str, ...]:
    if (origin := get_origin(record)) is None:
        return ()
    argument = get_args(record)[0].__name__
    return f"{origin.__name__}[{argument}]", f"{origin.__name__}_{argument}_"
