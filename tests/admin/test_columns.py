"""Lists, their files, scheduled exports, and the read API keep the columns that people rely on."""

import pytest

from console.lists.columns import choosable_columns, export_heads, list_columns
from engagement.metric_names import Scope
from engagement.orders.columns import standard_columns
from exports.models import Table
from exports.tables import TABLES

# The name of each column of a list, its label, its order, and its columns in a file.
SHARED = {
    "score": ("Score", "score", ["score"]),
    "change": ("Change", "change_complete_days", ["change"]),
    "history": ("Last 30 days", "", []),
    "last_active": ("Last active", "last_active", ["last active"]),
    "first_seen": ("First seen", "first_seen", ["first seen"]),
    "activation": ("Activation", "", ["steps done", "next step", "activated on"]),
    "external_id": ("Id", "", []),
}
OF_USERS = {
    "account": ("Account", "account", ["account tracking_id", "account name"]),
}
OF_ACCOUNTS = {
    "activity": ("Activity", "", ["activity", "activity since"]),
    "active_users": ("Active users", "active_users", ["active users", "total users"]),
    "license": (
        "License",
        "renewal",
        ["license type", "license tier", "license status", "renewal"],
    ),
    "license_event": (
        "Last license event",
        "",
        ["last license event", "last license event on"],
    ),
    **{
        f"chance_to_{name}": (
            f"Chance to {name}",
            f"chance_to_{name}",
            [f"chance to {name}{end}" for end in ("", " low", " high")],
        )
        for name in ("buy", "renew", "stay")
    },
    "owner": ("Owner", "owner", ["owner"]),
    "tags": ("Tags", "", ["tags"]),
    "features_in_use": ("Features in use", "", ["features in use"]),
    "renewal": ("Renewal", "renewal", ["renewal"]),
    "mrr": ("MRR", "mrr", ["mrr"]),
}
CHANCES = ", ".join(
    f"chance_to_{name}{end} number"
    for name in ("buy", "renew", "stay")
    for end in ("", "_low", "_high")
)
SCORES = (
    "score number, score_last_period number, score_change number, trend text, raw_score integer, "
    "event_count integer, active_days integer, last_active_at time"
)
REST = "first_seen_at time, created_at time, traits json"
STEPS = "steps_done integer, next_step text, activated_on day"
TIMELINE = "day day, id integer, tracking_id text, kind text, type text, text text, place integer"
EXPORTED = {
    Table.ACCOUNTS: "id integer, tracking_id text, external_id text, name text, domain text, "
    f"{SCORES}, active_users integer, total_users integer, {REST}, "
    "activity text, activity_since day, last_license_event text, last_license_event_on day, "
    f"score_change_complete_days number, {CHANCES}, features_in_use integer, owner text, "
    f"tags text, {STEPS}, deleted boolean",
    Table.USERS: "id integer, tracking_id text, external_id text, email text, name text, "
    f"account_id integer, {SCORES}, {REST}, "
    f"score_change_complete_days number, {STEPS}, deleted boolean",
    Table.ACCOUNT_SCORES: "day day, id integer, tracking_id text, external_id text, score number",
    Table.USER_SCORES: "day day, id integer, tracking_id text, external_id text, score number",
    Table.LICENSE_EVENTS: "id text, license text, type text, date day, known_on day, text text, "
    "details json, sources text, tracking_id text, recorded_at time, changed_at time, "
    "deleted boolean",
    Table.TRENDS: "day day, segment_id integer, accounts integer, daily_accounts integer, "
    "weekly_accounts integer, new_accounts integer, returned_accounts integer, "
    "stopped_accounts integer, account_mean number, account_median number, account_bands json, "
    "users integer, daily_users integer, weekly_users integer, user_mean number, "
    "user_median number, user_bands json, seats integer, active_seats integer, entered integer, "
    "left integer",
    Table.SEGMENT_MOVES: "day day, segment_id integer, scope text, id integer, move text",
    Table.USAGE: "day day, kind text, name text, users integer, accounts integer, "
    "used_accounts integer, started_accounts integer, stopped_accounts integer",
    Table.ACCOUNT_TIMELINES: TIMELINE,
    Table.USER_TIMELINES: TIMELINE,
    Table.COHORTS: "subjects text, event text, by text, week day, group text, value text, "
    "first_seen integer, weeks_later integer, active integer, share number, share_low number, "
    "share_high number, is_complete boolean, through day",
}


@pytest.mark.parametrize(
    ("scope", "own", "names", "detail"),
    [
        (
            "user",
            OF_USERS,
            "score change history account last_active activation first_seen external_id",
            "email",
        ),
        (
            "account",
            OF_ACCOUNTS,
            "score change history active_users activity last_active license license_event "
            "chance_to_buy chance_to_renew chance_to_stay owner tags features_in_use activation "
            "renewal mrr first_seen external_id",
            "domain",
        ),
    ],
)
def test_the_columns_of_lists_and_of_their_files(
    scope: Scope, own: dict[str, tuple[str, str, list[str]]], names: str, detail: str
) -> None:
    expected = SHARED | own
    assert [column.name for column in choosable_columns(scope)] == names.split()
    name, *others = list_columns(names.split(), scope)
    assert (name.label, name.sort) == ("Name", "name")
    assert export_heads([name], scope) == ["tracking_id", "name", detail]
    for column in others:
        heads = export_heads([column], scope)
        if column.name == "license" and "renewal" in names.split():
            # Each fact of a license is in one of the two columns, and one of them is sorted.
            assert (column.sort, heads) == ("", expected["license"][2][:-1])
            (column,) = list_columns(["license"], scope)[1:]
            heads = export_heads([column], scope)
        assert (column.label, column.sort, heads) == expected[column.name]
    ascending = {column.name for column in [name, *others] if not column.first_descends}
    first_ascending = {"name", "change", "account", "license", "renewal", "owner"}
    first_ascending |= {"chance_to_buy", "chance_to_renew", "chance_to_stay"}
    assert ascending == first_ascending & {"name", *names.split()}


def test_the_orders_of_the_read_api_and_of_lists() -> None:
    assert standard_columns("user") == [
        *("score", "change", "change_complete_days", "last_active", "name", "account"),
        "first_seen",
    ]
    assert standard_columns("account") == [
        *("score", "change", "change_complete_days", "last_active", "active_users"),
        *("total_users", "name"),
        *("renewal", "mrr", "first_seen"),
        *("owner", "chance_to_buy", "chance_to_renew", "chance_to_stay"),
    ]


@pytest.mark.parametrize("table", Table)
def test_the_columns_of_scheduled_exports(table: Table) -> None:
    columns = TABLES[table].columns
    assert ", ".join(f"{column.name} {column.type}" for column in columns) == EXPORTED[table]
