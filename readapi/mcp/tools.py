"""The tools: what an assistant may ask, and which endpoint of the read API answers."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from django.http import HttpRequest

from engagement.insight_kinds import ACTIVITY_LABELS
from engagement.metric_names import Scope
from engagement.models import Product
from engagement.rules import license_events
from engagement.scopes import get_kind
from engagement.scores.metrics import Scores
from engagement.search import lookup
from engagement.segments import counts
from engagement.segments.insight_filters import INSIGHT_KINDS
from outcomes.kinds import Kind
from readapi import expansions, parameters, queries, records, rights, sorting
from readapi.errors import InvalidRequest
from readapi.links import LinkBuilder
from readapi.mcp import schemas
from readapi.models import ApiToken
from readapi.views.accounts import AccountDetail, AccountList, AccountUsers
from readapi.views.activation import ActivationDetail
from readapi.views.backtests import BacktestList
from readapi.views.base import ReadView
from readapi.views.chances import ORDERS, ChanceList
from readapi.views.changes import ChangesDetail
from readapi.views.cohorts import SUBJECTS, CohortList
from readapi.views.features import FeatureList
from readapi.views.forecasts import ForecastList
from readapi.views.license_events import LicenseEventList
from readapi.views.rankings import ACCOUNTS, USERS, Ranking
from readapi.views.segments import SegmentList, SegmentMembers
from readapi.views.timeline import AccountTimeline, UserTimeline
from readapi.views.trends import TrendList
from readapi.views.users import UserDetail, UserList
from readapi.views.workspaces import WorkspaceList
from trends.changes.results import Cadence
from trends.reading import Interval
from trends.timeline.reading import kinds_of

Json = dict[str, Any]
MAX_MATCHES = 20
CUT_OFF = f"Only the best {MAX_MATCHES} matches. More match: search for a longer part of the name."


class Call(NamedTuple):
    """A call of a tool: who asks, and for what."""

    request: HttpRequest
    token: ApiToken
    arguments: Mapping[str, Any]

    @property
    def product(self) -> Product:
        return self.token.product


class Tool(NamedTuple):
    """A tool. ``answer`` raises InvalidRequest and NotFound, as the read API does."""

    name: str
    title: str
    description: str
    properties: Json
    required: tuple[str, ...]
    output: Json
    answer: Callable[[Call], Json]

    def describe(self) -> Json:
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": self.properties,
                "required": list(self.required),
                "additionalProperties": False,
            },
            "outputSchema": self.output,
            "annotations": {"readOnlyHint": True, "openWorldHint": False},
        }


def call(name: str, call: Call) -> Json:
    """What the tool answers."""
    tool = TOOLS[name]
    for argument in call.arguments:
        if argument not in tool.properties:
            message = f"Unknown argument. The tool accepts: {', '.join(tool.properties)}."
            raise InvalidRequest("unknown_parameter", message, argument)
    for argument in tool.required:
        if argument not in call.arguments:
            message = f"{argument} is required."
            raise InvalidRequest("missing_parameter", message, argument)
    return tool.answer(call)


# --- Answers --------------------------------------------------------------------------------


def _read(view_class: type[ReadView], call: Call, ids: tuple[str, ...] = (), **more: str) -> Json:
    """The body that the endpoint returns for the arguments, without URLs.

    It checks the arguments, and finds only what is in the product of the token.
    """
    view = view_class()
    view.token = call.token
    view.links = LinkBuilder(call.request)
    texts = {name: _text(name, value) for name, value in call.arguments.items()}
    path_ids = {name: _id(name, texts.pop(name, "")) for name in ids}
    view.parameters = more | texts
    if "workspace_id" in view.PARAMETERS:
        view.parameters = {"workspace_id": str(_workspace_id(call)), **view.parameters}
    view.check_parameters()
    view.check_rights(path_ids)
    body: Json = _without_links(view.build_response(**path_ids).data)
    return body


def _text(name: str, value: Any) -> str:
    """An argument as a query string would have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        separator = parameters.SEPARATOR if name in parameters.REPEATED_PARAMETERS else ","
        return separator.join(_text("", item) for item in value)
    if not isinstance(value, str | int | float):
        raise InvalidRequest("invalid_parameter", f"{name} must be a text or a number.", name)
    text = str(value)
    # Not of UTF-8, or not of PostgreSQL.
    if any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in text):
        raise InvalidRequest("invalid_parameter", f"{name} has an invalid character.", name)
    return text


def _id(name: str, text: str) -> int:
    number = parameters.id_number({name: text}, name)
    assert number is not None
    return number


def _without_links(value: Any) -> Any:
    """The record without URLs, which an assistant cannot open. A next page becomes its cursor."""
    if isinstance(value, list):
        return [_without_links(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    record = {
        name: _without_links(item) for name, item in value.items() if not name.startswith("_")
    }
    if following := value.get("_links", {}).get("next"):
        cursor = parse_qs(urlsplit(following).query).get("cursor")
        record["next_cursor"] = cursor[0] if cursor else None
    return record


def _workspace_id(call: Call) -> int:
    """The named workspace, or the product's first."""
    if "workspace_id" in call.arguments:
        texts = {"workspace_id": _text("workspace_id", call.arguments["workspace_id"])}
        workspace_id = parameters.workspace_id(texts)
        rights.require_workspace(call.token, workspace_id)
        return workspace_id
    rows = queries.workspaces(call.product)
    if call.token.workspace_ids is not None:
        rows = rows.filter(pk__in=call.token.workspace_ids)
    first = rows.order_by("id").values_list("id", flat=True).first()
    if first is None:
        message = "The product has no workspace that the token may read."
        raise InvalidRequest("missing_workspace_id", message)
    return first


def _find(ranking: Ranking, view_class: type[ReadView], call: Call) -> Json:
    """The list, or with ``search`` the best matches for any part of a name, an ID, and so on: the
    first MAX_MATCHES of the workspace."""
    arguments = dict(call.arguments)
    search = arguments.pop("search", None)
    if "traits" in arguments:
        arguments["expand"] = "traits"
    if search is None:
        return _read(view_class, call._replace(arguments=arguments))
    if set(arguments) - {"workspace_id"}:
        message = "Use search alone, or with workspace_id."
        raise InvalidRequest("invalid_parameter", message, "search")
    rights.require_kinds(call.token, [ranking.scope])
    if ranking.scope == "user":
        # A match would tell that the text is part of a name or an email address.
        rights.require_user_traits(call.token)
    workspace = queries.workspace(call.product, _workspace_id(call))
    term = _text("search", search)
    matches = lookup.find(call.product.pk, ranking.scope, term, workspace.scores_id)
    ids = [match.subject_id for match in matches[:MAX_MATCHES]]
    column = get_kind(ranking.scope).id_column
    rows = {
        getattr(row, column): row
        for row in ranking.rows(workspace).filter(**{f"{column}__in": ids})
    }
    matching = [rows[id] for id in ids if id in rows]
    links = LinkBuilder(call.request)
    rows_found = expansions.records(ranking.scope, workspace, matching, links, ())
    has_more = len(matches) > MAX_MATCHES
    pagination = {"limit": MAX_MATCHES, "offset": 0, "has_more": has_more}
    answer = {"data": _without_links(rows_found), "pagination": pagination}
    return answer | ({"note": CUT_OFF} if has_more else {})


def _changes(scores: Scores) -> Json:
    return {
        "score_change": scores.change,
        "score_change_complete_days": scores.complete_change,
    }


def _movers(call: Call) -> Json:
    rights.require_kinds(call.token, ["account"])
    workspace = queries.workspace(call.product, _workspace_id(call), with_counts=True)
    if workspace.scores is None:
        return {"rising": [], "falling": [], "new": []}
    movers = counts.top_movers(workspace.scores)
    return {
        "lookback_days": workspace.scores.lookback_days,
        "half_life_days": workspace.scores.half_life_days,
        **{
            direction: [
                {
                    "id": mover.account.pk,
                    "tracking_id": mover.account.external_id,
                    "name": mover.account.name,
                    "score": mover.scores.now,
                    **({} if direction == "new" else _changes(mover.scores)),
                }
                for mover in getattr(movers, direction)
            ]
            for direction in ("rising", "falling", "new")
        },
    }


def _of_workspace(view: type[ReadView], call: Call) -> Json:
    arguments = {**call.arguments, "workspace_id": _workspace_id(call)}
    return _read(view, call._replace(arguments=arguments), ("workspace_id",))


# --- Tools ----------------------------------------------------------------------------------

_WORKSPACE: Json = {
    "workspace_id": {
        "type": "integer",
        "description": "The workspace; by default the product's first.",
    }
}


def _list_arguments(scope: Scope, *lookups: str) -> Json:
    texts = {name: {"type": "string", "description": f"The exact {name}."} for name in lookups}
    return {
        **_WORKSPACE,
        "search": {
            "type": "string",
            "description": "Any part of a name, ID, domain, or email address. Use it alone.",
        },
        **texts,
        "trait": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Names and exact values, such as plan:pro. All must match.",
        },
        "segment_id": {"type": "integer", "description": "Only members of this segment."},
        "min_score": {"type": "number", "description": "Only with at least this score, 0 to 100."},
        "sort": {
            "type": "string",
            "enum": sorting.choices(scope),
            "description": "- is highest first.",
        },
        **_PAGES,
        "traits": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Traits to show, at most 8.",
        },
        "total": {"type": "boolean", "description": "Also count all matches."},
    }


_PAGES: Json = {
    "limit": {"type": "integer", "description": "Records on a page, by default 20."},
    "cursor": {"type": "string", "description": "next_cursor of the page before."},
}
_INSIGHT: Json = {
    "owner": {
        "type": "string",
        "description": "Only accounts that this login owns; :nobody for those that nobody owns.",
    },
    "tag": {"type": "string", "description": "Only accounts that people tagged so."},
    "insight": {
        "type": "string",
        "enum": list(INSIGHT_KINDS),
        "description": "Only accounts with this insight.",
    },
    "activity": {
        "type": "string",
        "enum": list(ACTIVITY_LABELS),
        "description": "Only accounts whose activity is in this state.",
    },
    "license_event": {
        "type": "string",
        "enum": list(license_events.labels()),
        "description": "Only accounts to whose licenses this happened, such as churned.",
    },
    "license_event_days": {
        "type": "integer",
        "description": "With license_event: within this number of days.",
    },
}
_ACCOUNT_ID: Json = {"account_id": {"type": "integer", "description": "The account's id."}}
_USER_ID: Json = {"user_id": {"type": "integer", "description": "The user's id."}}


def _kinds_of(scope: Scope) -> Json:
    kinds = {"type": "array", "items": {"type": "string", "enum": list(kinds_of(scope))}}
    return {"kinds": {**kinds, "description": "Only these, by default all."}}


_SEGMENT_ID: Json = {"segment_id": {"type": "integer", "description": "The segment's id."}}

_TOOLS = [
    Tool(
        "list_workspaces",
        "List workspaces",
        "The scoring profiles of the product, with their lookback or half-life in days and how "
        "many users and accounts they have. Scores differ between workspaces.",
        {},
        (),
        schemas.page_of(records.WorkspaceRecord),
        lambda call: _read(WorkspaceList, call, expand="stats"),
    ),
    Tool(
        "find_accounts",
        "Find accounts",
        "Accounts (customers) with their engagement scores from 0 to 100, highest first, and "
        "whether their activity is usual for them: all, by any part of a name with search (all "
        "words must match), or by filters.",
        _list_arguments("account", "tracking_id", "name", "domain") | _INSIGHT,
        (),
        schemas.page_of(records.AccountRecord),
        lambda call: _find(ACCOUNTS, AccountList, call),
    ),
    Tool(
        "find_users",
        "Find users",
        "Users (people) with their engagement scores from 0 to 100, highest first: all, by any "
        "part of a name with search, or by filters.",
        _list_arguments("user", "tracking_id", "name", "email"),
        (),
        schemas.page_of(records.UserRecord),
        lambda call: _find(USERS, UserList, call),
    ),
    Tool(
        "explain_account",
        "Explain an account's score",
        "One account: its metrics, insights in words, the events that make its score, its scores "
        "of the last 90 days, its segments, its traits, and what happened to its licenses.",
        _WORKSPACE | _ACCOUNT_ID,
        ("account_id",),
        schemas.one_of(records.ExpandedAccount),
        lambda call: _read(
            AccountDetail, call, ("account_id",), expand=",".join(AccountDetail.EXPANSIONS)
        ),
    ),
    Tool(
        "what_happened",
        "What happened to an account",
        "What happened to an account in the last year, the latest day first: alarms begun and "
        "ended, moves of its score, license events, segments entered and left, users who came and "
        "were last seen, and changes of how the workspace scores.",
        {**_WORKSPACE, **_ACCOUNT_ID, **_kinds_of("account"), **_PAGES},
        ("account_id",),
        schemas.page_of(records.TimelineEntry),
        lambda call: _read(AccountTimeline, call, ("account_id",)),
    ),
    Tool(
        "what_happened_to_user",
        "What happened to a user",
        "What happened to a user in the last year, the latest day first: moves of the score, "
        "segments entered and left, the accounts that the user came to, and changes of how the "
        "workspace scores.",
        {**_WORKSPACE, **_USER_ID, **_kinds_of("user"), **_PAGES},
        ("user_id",),
        schemas.page_of(records.TimelineEntry),
        lambda call: _read(UserTimeline, call, ("user_id",)),
    ),
    Tool(
        "explain_user",
        "Explain a user's score",
        "One user: metrics, the events that make the score, the scores of the last 90 days, "
        "segments, and traits.",
        _WORKSPACE | _USER_ID,
        ("user_id",),
        schemas.one_of(records.ExpandedUser),
        lambda call: _read(UserDetail, call, ("user_id",), expand=",".join(UserDetail.EXPANSIONS)),
    ),
    Tool(
        "list_account_users",
        "List the users of an account",
        "The users of an account, highest score first.",
        _WORKSPACE | _ACCOUNT_ID | _PAGES,
        ("account_id",),
        schemas.page_of(records.UserRecord),
        lambda call: _read(AccountUsers, call, ("account_id",)),
    ),
    Tool(
        "list_license_events",
        "List license events",
        "What happened to licenses, the latest date first: evaluations started, bought, and "
        "expired, purchases, renewals, churn, seats, with reasons.",
        {
            "account_id": {"type": "integer", "description": "Only of this account."},
            "type": {"type": "string", "description": "Only this type, such as churned."},
            "since": {"type": "string", "description": "From this day on, such as 2026-09-01."},
            "until": {"type": "string", "description": "Before this day."},
            "withdrawn": {"type": "boolean", "description": "Also those that are withdrawn."},
            **_PAGES,
        },
        (),
        schemas.page_of(records.LicenseEventRecord),
        lambda call: _read(LicenseEventList, call),
    ),
    Tool(
        "list_features",
        "List features",
        "The features of the product: named groups of its events, each with the accounts that used "
        "it in 28 days, of all active ones, and those that started and stopped.",
        _WORKSPACE | _PAGES,
        (),
        schemas.page_of(records.ProductFeatureRecord),
        lambda call: _of_workspace(FeatureList, call),
    ),
    Tool(
        "does_the_score_predict",
        "Does the score predict?",
        "Whether the workspace's score of 14, 30, 60, and 90 days before predicted what became of "
        "accounts, such as renewals: a verdict in words, rates by score, AUC, and baselines, each "
        "with its interval and count. Quote no number without them.",
        _WORKSPACE | _PAGES,
        (),
        schemas.page_of(records.BacktestRecord),
        lambda call: _of_workspace(BacktestList, call),
    ),
    Tool(
        "which_evaluations_will_buy",
        "Which evaluations will buy?",
        "How likely each running evaluation is to be bought, those with the most expected seats "
        "first; by kind also renewals, monthly stays, or who stays active (dormancy). Each chance "
        "has its interval, its count, the facts that moved it, and similar past cases. Quote no "
        "chance without its interval. If is_share, it says nothing of the account.",
        {
            **_WORKSPACE,
            "kind": {
                "type": "string",
                "enum": list(Kind),
                "description": "What is being decided, by default evaluation.",
            },
            "order": {
                "type": "string",
                "enum": list(ORDERS),
                "description": "expected_seats (the default of licenses): the most first. "
                "chance: the least likely first.",
            },
            **_PAGES,
        },
        (),
        schemas.page_of(records.ChanceRecord),
        lambda call: _of_workspace(ChanceList, call),
    ),
    Tool(
        "what_will_renew",
        "What will renew",
        "How many seats, and cents where sales are known, are up for renewal in the present month "
        "and the three after it, how many are expected to renew with an 80% interval, and how past "
        "forecasts compare with what happened. Quote no number without its interval.",
        _WORKSPACE | _PAGES,
        (),
        schemas.page_of(records.ForecastRecord),
        lambda call: _of_workspace(ForecastList, call),
    ),
    Tool(
        "what_changed",
        "What changed this week",
        "What changed in the last complete seven days, or on the last day: alarms that began and "
        "ended, scores that fell and rose most, accounts that are new, stopped, or came back, "
        "moves between segments, and evaluations and renewals of the next 30 days. Each list has "
        "its count. Quote no chance without its interval.",
        _WORKSPACE
        | {
            "period": {
                "type": "string",
                "enum": list(Cadence),
                "description": "week (the default) or day.",
            },
            "segment_id": {"type": "integer", "description": "Only accounts in this segment."},
        },
        (),
        schemas.one_of(records.ChangesRecord),
        lambda call: _of_workspace(ChangesDetail, call),
    ),
    Tool(
        "how_it_moved",
        "How the product moved",
        "The figures of a workspace, or of a segment, by day, week, or month: weekly active "
        "accounts and users, mean and median scores, accounts that are new, returned, or stopped, "
        "licensed seats in use, and who entered and left the segment. By default of 90 days.",
        {
            **_WORKSPACE,
            "segment_id": {"type": "integer", "description": "A segment; by default all."},
            "from": {"type": "string", "description": "The first UTC day, as 2026-09-01."},
            "to": {"type": "string", "description": "The last UTC day."},
            "interval": {"type": "string", "enum": list(Interval)},
            **_PAGES,
        },
        (),
        schemas.page_of(records.TrendPoint),
        lambda call: _of_workspace(TrendList, call),
    ),
    Tool(
        "who_stays",
        "Who stays?",
        "Of the accounts or users that were first seen in a week, how many were active in each "
        "week after, each share with its count and interval. Weeks that are not over are marked. "
        "With event, how many did it; with by, for each value of a trait: only if somebody has "
        "had it computed on the page of the workspace.",
        {
            **_WORKSPACE,
            "subjects": {"type": "string", "enum": list(SUBJECTS)},
            "event": {"type": "string", "description": "The name of an event."},
            "by": {"type": "string", "description": "The name of a trait, such as plan."},
            **_PAGES,
        },
        (),
        schemas.page_of(records.CohortRecord),
        lambda call: _of_workspace(CohortList, call),
    ),
    Tool(
        "who_is_activated",
        "Who is activated?",
        "How many accounts or users have done each step of activation in their first days, how "
        "many are on the way or stuck at which step, the days it took, and the share by the week "
        "in which they were first seen, with its count and interval.",
        {**_WORKSPACE, "subjects": {"type": "string", "enum": list(SUBJECTS)}},
        (),
        schemas.one_of(records.ActivationRecord),
        lambda call: _of_workspace(ActivationDetail, call),
    ),
    Tool(
        "who_moved",
        "Who moved",
        "The accounts whose scores rose and fell most over one lookback of complete days, and the "
        "new accounts with the highest scores.",
        _WORKSPACE,
        (),
        schemas.plain(schemas.Movers),
        _movers,
    ),
    Tool(
        "list_segments",
        "List segments",
        "The segments of a workspace with their rules and numbers of members.",
        {
            **_WORKSPACE,
            "scope": {"type": "string", "enum": ["user", "account"]},
            **_PAGES,
        },
        (),
        schemas.page_of(records.SegmentRecord),
        lambda call: _read(SegmentList, call, expand="counts"),
    ),
    Tool(
        "list_segment_members",
        "List the members of a segment",
        "The users or accounts in a segment, highest score first.",
        _WORKSPACE | _SEGMENT_ID | _PAGES,
        ("segment_id",),
        schemas.page_of(records.AccountRecord, records.UserRecord),
        lambda call: _read(SegmentMembers, call, ("segment_id",)),
    ),
]
TOOLS: dict[str, Tool] = {tool.name: tool for tool in _TOOLS}
