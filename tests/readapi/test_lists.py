"""Lists with traits and metrics, filters, orders, and totals."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from core.database import sql
from engagement.models import AccountEngagement, CachedCounts, Product, Segment, Workspace
from engagement.orders import storage
from engagement.rescoring.jobs import AWAITED_ORDERS
from engagement.scopes import ACCOUNTS
from engagement.segments import counts
from engagement.segments.insight_filters import INSIGHT_KINDS
from readapi import sorting, totals
from tests.cases import each
from tests.engagement.alarms.rows import alarm
from tests.jobs import run_job
from tests.license_events import add_event
from tests.readapi.conftest import Reads
from tests.readapi.rows import SCORED_DAY, make_account, make_user, scores_of
from tests.readapi.scored import account_id, fill, user_id

Body = dict[str, Any]


def read(reads: Reads, address: str, **parameters: Any) -> Body:
    response = reads(address, **parameters)
    assert response.status_code == 200, response.content
    body: Body = response.json()
    return body


def names(body: Body) -> list[str]:
    return [row["tracking_id"] for row in body["data"]]


# --- Expansions -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["accounts", "users"])
def test_expanded_lists_show_what_single_records_show(
    path: str, acme_reads: Reads, acme: Product
) -> None:
    scope = {"workspace_id": fill(acme).pk}
    body = read(acme_reads, f"/v2/{path}", **scope, expand="metrics,traits")
    assert body["_expansions"] == ["metrics", "traits"]
    assert len(body["data"]) >= 2
    for row in body["data"]:
        single = read(acme_reads, f"/v2/{path}/{row['id']}", **scope, expand="traits")["data"]
        assert row == {name: single[name] for name in row}
        assert {"metrics", "traits"} <= row.keys()


def test_chosen_traits_are_null_if_missing(acme_reads: Reads, workspace: Workspace) -> None:
    traits = {"plan": "pro", "5": [1], "am.tier": {"a": None}, "name": "Initech", "x%s": "%"}
    make_account(workspace, "initech", 5, traits=traits)
    make_account(workspace, "hooli", 3)
    trait_names = "plan,5,AM.Tier,x%s,'"
    for address in ("/v2/accounts", f"/v2/accounts?expand=traits&traits={trait_names}"):
        parameters = {"workspace_id": workspace.pk, "expand": "traits", "traits": trait_names}
        if "?" in address:
            parameters = {"workspace_id": workspace.pk}
            address = address.replace("%", "%25")
        initech, hooli = read(acme_reads, address, **parameters)["data"]
        assert initech["traits"] == {
            "plan": "pro", "5": [1], "AM.Tier": {"a": None}, "x%s": "%", "'": None
        }  # fmt: skip
        assert hooli["traits"] == dict.fromkeys(initech["traits"])
        assert initech["name"] == "Initech"


def test_an_account_shows_chosen_traits_too(acme_reads: Reads, workspace: Workspace) -> None:
    account = make_account(workspace, "initech", traits={"plan": "pro", "tier": 1})
    address = f"/v2/accounts/{account.pk}?workspace_id={workspace.pk}&expand=traits&traits=plan,x"
    assert read(acme_reads, address)["data"]["traits"] == {"plan": "pro", "x": None}


def test_members_and_users_of_an_account_expand_too(acme_reads: Reads, acme: Product) -> None:
    workspace = fill(acme)
    segment = Segment.objects.get(workspace=workspace, scope="account", name="All")
    expand = {"workspace_id": workspace.pk, "expand": "traits,metrics", "traits": "name"}
    members = read(acme_reads, f"/v2/segments/{segment.pk}/members", **expand)
    assert members["data"] == read(acme_reads, "/v2/accounts", **expand)["data"]
    users = read(acme_reads, f"/v2/accounts/{account_id(acme, 'initech')}/users", **expand)
    assert names(users) == ["ann", "bob"]
    listed = {row["id"]: row for row in read(acme_reads, "/v2/users", **expand)["data"]}
    assert users["data"] == [listed[user_id(acme, name)] for name in ("ann", "bob")]


# --- Users of an account --------------------------------------------------------------------


def test_the_users_of_an_account_are_ranked_and_paged(
    acme_reads: Reads, workspace: Workspace
) -> None:
    account, other = make_account(workspace, "initech"), make_account(workspace, "hooli")
    for number in range(5):
        make_user(workspace, f"u{number}", number, account=account)
    make_user(workspace, "elsewhere", 9, account=other)
    make_user(workspace, "nowhere", 9)
    address = f"/v2/accounts/{account.pk}/users"
    body = read(acme_reads, address, workspace_id=workspace.pk, limit=2, total="true")
    user_names = names(body)
    assert body["pagination"]["total"] == 5
    while following := body["_links"].get("next"):
        body = read(acme_reads, following)
        user_names += names(body)
    assert user_names == ["u4", "u3", "u2", "u1", "u0"]
    lowest = read(acme_reads, address, workspace_id=workspace.pk, limit=2, sort="score")
    assert names(lowest) == ["u0", "u1"]


def test_an_account_outside_the_workspace_has_no_users(
    acme_reads: Reads, workspace: Workspace, globex_workspace: Workspace
) -> None:
    foreign = make_account(globex_workspace, "initech")
    response = acme_reads(f"/v2/accounts/{foreign.pk}/users", workspace_id=workspace.pk)
    assert response.status_code == 404


# --- Filters and orders ---------------------------------------------------------------------


@pytest.fixture
def four(workspace: Workspace) -> Workspace:
    scores = scores_of(workspace)
    scores.account_benchmark = scores.user_benchmark = 10.0
    scores.account_benchmark_yesterday = 10.0
    scores.save()
    plain = {"name": "Initech", "domain": "Initech.example", "plan": "pro", "seats": 5}
    make_account(workspace, "a", 9, traits=plain)
    make_account(workspace, "b", 10, traits={**plain, "plan": "free", "a,b": "x:y, z"})
    make_account(workspace, "c", 20, traits={"domain": "hooli.example", "plan": "pro"})
    make_account(workspace, "d", 0, traits={"seats": True, "createdAt": "2026-06-01"})
    own = AccountEngagement.objects.filter(score_set=scores).select_related("account")
    own.update(raw_yesterday=20 - F("raw"), raw_yesterday_last_period=0)
    rows = {row.account.external_id: row for row in own}
    for name in "ac":
        alarm(rows[name], "rise")
    alarm(rows["b"], is_stopped=True)
    for name, type, days in (("a", "churned", 10), ("b", "churned", 40), ("d", "renewed", -1)):
        add_event(workspace.product, type, SCORED_DAY - timedelta(days=days), cloud_id=name,
                  license=f"E-{name}")  # fmt: skip
    make_user(workspace, "u1", 9, traits={"email": "Ann@b.example", "name": "Ann"})
    make_user(workspace, "u2", 10, traits={"email": "ann@b.example", "name": "ann"})
    make_user(workspace, "u3", 20, traits={"plan": "pro"})
    return workspace


@each(
    ("query", "expected"),
    [
        ("", "cbad"),
        ("sort=score", "dabc"),
        ("sort=-score", "cbad"),
        ("domain=INITECH.example", "ba"),
        ("name=Initech", "ba"),
        ("name=initech", ""),
        ("tracking_id=a", "a"),
        ("tracking_id=a&name=Hooli", ""),
        ("min_score=90", "cb"),
        ("min_score=0", "cbad"),
        ("min_score=100", ""),
        ("min_score=87.4&domain=initech.example&sort=score", "ab"),
        ("min_score=87.5&domain=initech.example", "b"),
        ("trait=plan:pro", "ca"),
        ("trait=plan:pro&trait=seats:5", "a"),
        ("trait=seats:true", "d"),
        ("trait=a,b:x:y, z", "b"),
        ("trait=plan:none", ""),
        ("insight=trend_up", "ca"),
        ("insight=activity_stopped", "b"),
        ("activity=rising", "ca"),
        ("activity=stopped&trait=plan:free", "b"),
        ("activity=falling", ""),
        ("activity=unknown", "d"),
        ("insight=trend_up&trait=plan:pro&sort=score", "ac"),
        ("insight=new_account", "d"),
        ("license_event=churned", "ba"),
        ("license_event=churned&license_event_days=11", "a"),
        ("license_event=churned&license_event_days=41&insight=trend_up", "a"),
        ("license_event=renewed", ""),
        ("license_event=won_back", ""),
        ("insight=seats_exceeded", ""),
    ],
)
def test_accounts_are_filtered_and_ordered(
    query: str, expected: str, acme_reads: Reads, four: Workspace
) -> None:
    address = f"/v2/accounts?workspace_id={four.pk}&{query}"
    assert "".join(names(read(acme_reads, address))) == expected
    counted = read(acme_reads, f"{address}&total=true&limit=1")
    assert counted["pagination"]["total"] == len(expected)
    # The same, page by page and back.
    account_names, body = names(counted), counted
    while following := body["_links"].get("next"):
        body = read(acme_reads, following)
        account_names += names(body)
    assert "".join(account_names) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("email=ANN@b.example", ["u2", "u1"]),
        ("name=Ann", ["u1"]),
        ("tracking_id=u3", ["u3"]),
        ("email=ann@b.example&min_score=90", ["u2"]),
        ("trait=plan:pro&sort=score", ["u3"]),
    ],
)
def test_users_are_filtered(
    query: str, expected: list[str], acme_reads: Reads, four: Workspace
) -> None:
    assert names(read(acme_reads, f"/v2/users?workspace_id={four.pk}&{query}")) == expected


def test_a_list_within_a_segment_is_that_of_its_members(acme_reads: Reads, acme: Product) -> None:
    workspace = fill(acme)
    for segment in Segment.objects.filter(workspace=workspace):
        address = f"/v2/{segment.scope}s?workspace_id={workspace.pk}&segment_id={segment.pk}"
        body = read(acme_reads, f"{address}&total=true")
        members = f"/v2/segments/{segment.pk}/members?workspace_id={workspace.pk}&total=true"
        assert {**body, "_links": 0} == {**read(acme_reads, members), "_links": 0}
        assert body["pagination"]["total"] == len(body["data"])
        other = {"user": "account", "account": "user"}[segment.scope]
        response = acme_reads(address.replace(f"/v2/{segment.scope}s", f"/v2/{other}s"))
        assert response.status_code == 400
        assert response.json()["error"] == {
            "code": "invalid_parameter",
            "message": f"This is a segment of {segment.scope}s. Name one of {other}s here, or read "
            f"/v2/{segment.scope}s.",
            "field": "segment_id",
        }


@pytest.mark.parametrize(
    "sort",
    ["name", "-name", "change", "-change", "change_complete_days", "-last_active", "active_users"],
)
@pytest.mark.parametrize("is_large", [False, True], ids=["sorted live", "stored order"])
def test_lists_are_sorted_by_other_columns_too(
    sort: str, is_large: bool, acme_reads: Reads, four: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_large:
        score_set = scores_of(four)
        CachedCounts.objects.create(
            score_set=score_set, users=1, active_users=0, accounts=5, active_accounts=0,
            counted_at=timezone.now(), seconds=1,
        )  # fmt: skip
        monkeypatch.setattr(storage, "MAX_LIVE_ROWS", 2)
        storage.request_order(score_set, ACCOUNTS, sort.removeprefix("-"), timezone.now())
        run_job(AWAITED_ORDERS, timezone.now())
    address = f"/v2/accounts?workspace_id={four.pk}&sort={sort}&expand=traits&traits=plan"
    everything = read(acme_reads, address)
    assert (everything["pagination"]["sorted_at"] is not None) == is_large
    key = {
        "name": "name",
        "last_active": "last_active_at",
        "change": "score_change",
        "change_complete_days": "score_change_complete_days",
    }.get(sort.removeprefix("-"), sort)
    assert len(everything["data"]) == 4 and "traits" in everything["data"][0]
    values = [
        str(row[key] or row["tracking_id"]).lower() if key == "name" else row[key]
        for row in everything["data"]
    ]
    if key.startswith("score_change"):
        # A new account comes last, with its change.
        change = {"score_change": 0.0, "score_change_complete_days": 99.0}[key]
        assert [everything["data"][-1]["tracking_id"], values.pop()] == ["d", change]
    present = [value for value in values if value is not None]
    assert present == sorted(present, reverse=sort.startswith("-"))
    assert values[: len(present)] == present
    # Page by page, and back.
    bodies = [read(acme_reads, f"{address}&limit=3")]
    bodies.append(read(acme_reads, bodies[0]["_links"]["next"]))
    assert [name for body in bodies for name in names(body)] == names(everything)
    assert "next" not in bodies[1]["_links"]
    back = read(acme_reads, bodies[1]["_links"]["prev"])
    assert names(back) == names(bodies[0]) and "prev" not in back["_links"]
    assert names(read(acme_reads, f"{address}&offset=3")) == names(bodies[1])
    # Filtered rows are sorted live.
    filtered = read(acme_reads, f"{address}&trait=plan:pro&total=true&limit=1")
    assert filtered["pagination"] | {"sorted_at": None, "total": 2} == filtered["pagination"]
    assert names(filtered) + names(read(acme_reads, filtered["_links"]["next"])) == [
        name for name in names(everything) if name in "ac"
    ]


def test_a_cursor_is_of_one_order(acme_reads: Reads, four: Workspace) -> None:
    address = f"/v2/accounts?workspace_id={four.pk}&limit=1&sort="
    cursor = read(acme_reads, f"{address}name")["_links"]["next"].partition("cursor=")[2]
    for sort in ("-name", "change", "score"):
        response = acme_reads(f"{address}{sort}&cursor={cursor}")
        assert response.json()["error"]["code"] == "invalid_cursor"


def test_an_order_that_takes_too_long_says_what_to_do(
    acme_reads: Reads, four: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorting, "TIMEOUT_SECONDS", 0.001)
    monkeypatch.setattr(sql, "execute", slow(sql.execute))
    response = acme_reads(f"/v2/accounts?workspace_id={four.pk}&sort=name&min_score=1")
    assert (response.status_code, response.json()["error"]["message"]) == (503, sorting.TOO_SLOW)
    assert "Retry-After" in response.headers


def test_accounts_are_filtered_by_insight(acme_reads: Reads, acme: Product) -> None:
    scope = {"workspace_id": fill(acme).pk}
    for kind in INSIGHT_KINDS:
        expected = []
        for row in read(acme_reads, "/v2/accounts", **scope)["data"]:
            account = read(acme_reads, f"/v2/accounts/{row['id']}", **scope, expand="insights")
            if kind in [insight["kind"] for insight in account["data"]["insights"]]:
                expected.append(row["tracking_id"])
        body = read(acme_reads, "/v2/accounts", **scope, insight=kind, total="true")
        assert (names(body), body["pagination"]["total"]) == (expected, len(expected)), kind


@each(
    ("query", "code", "field"),
    [
        ("insight=boredom", "invalid_parameter", "insight"),
        ("sort=account", "invalid_parameter", "sort"),
        ("sort=name2", "invalid_parameter", "sort"),
        ("sort=", "invalid_parameter", "sort"),
        ("min_score=101", "invalid_parameter", "min_score"),
        ("min_score=-1", "invalid_parameter", "min_score"),
        ("min_score=1.55", "invalid_parameter", "min_score"),
        ("min_score=nan", "invalid_parameter", "min_score"),
        ("min_score=", "invalid_parameter", "min_score"),
        ("insight=", "invalid_parameter", "insight"),
        ("insight=boredom", "invalid_parameter", "insight"),
        ("license_event=lost", "invalid_parameter", "license_event"),
        ("license_event_days=30", "invalid_parameter", "license_event_days"),
        ("license_event=renewed&license_event_days=0", "invalid_parameter", "license_event_days"),
        (
            "license_event=churned&license_event_days=3651",
            "invalid_parameter",
            "license_event_days",
        ),
        ("segment_id=0", "invalid_parameter", "segment_id"),
        ("segment_id=x", "invalid_parameter", "segment_id"),
        ("domain=", "invalid_parameter", "domain"),
        ("trait=plan", "invalid_parameter", "trait"),
        ("trait=:pro", "invalid_parameter", "trait"),
        ("trait=plan:", "invalid_parameter", "trait"),
        ("trait=" + "n" * 257 + ":x", "invalid_parameter", "trait"),
        ("trait=n:" + "x" * 513, "invalid_parameter", "trait"),
        ("&".join(f"trait=n{n}:x" for n in range(9)), "too_many_traits", "trait"),
        ("total=yes", "invalid_parameter", "total"),
        ("min_score=1&min_score=2", "invalid_parameter", "min_score"),
    ],
)
def test_an_impossible_filter_is_refused(
    query: str, code: str, field: str, acme_reads: Reads, workspace: Workspace
) -> None:
    response = acme_reads(f"/v2/accounts?workspace_id={workspace.pk}&{query}")
    assert response.status_code == 400, response.content
    error = response.json()["error"]
    assert (error["code"], error["field"]) == (code, field)


# --- Totals ---------------------------------------------------------------------------------


def test_the_total_of_a_large_workspace_is_cached_and_says_when_it_was_counted(
    acme_reads: Reads, four: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores, address = scores_of(four), f"/v2/accounts?workspace_id={four.pk}&total=true"
    pagination = read(acme_reads, address)["pagination"]
    assert (pagination["total"], pagination["total_counted_at"]) == (4, None)
    counted_at = timezone.now() - timedelta(minutes=5)
    CachedCounts.objects.create(
        score_set=scores, users=30, active_users=3, accounts=70, active_accounts=7,
        counted_at=counted_at, seconds=counts.LIVE_COUNT_SECONDS + 1,
    )  # fmt: skip
    pagination = read(acme_reads, address)["pagination"]
    assert pagination["total"] == 70
    assert pagination["total_counted_at"] == counted_at.isoformat().replace("+00:00", "Z")
    # A filter is counted now, or not at all.
    pagination = read(acme_reads, f"{address}&min_score=90")["pagination"]
    assert (pagination["total"], pagination["total_counted_at"]) == (2, None)
    monkeypatch.setattr(totals, "TIMEOUT_SECONDS", 0.001)
    monkeypatch.setattr(sql, "execute", slow(sql.execute))
    pagination = read(acme_reads, f"{address}&min_score=90")["pagination"]
    assert (pagination["total"], pagination["total_counted_at"]) == (None, None)


def slow(execute: Any) -> Any:
    """Executes, after the limit is set, a statement that takes longer."""

    def execute_slowly(statement: Any, parameters: Any = None) -> int:
        result: int = execute(statement, parameters)
        if "set_config" in statement:
            execute("SELECT pg_sleep(1)")
        return result

    return execute_slowly


def test_without_the_parameter_nothing_is_counted(acme_reads: Reads, four: Workspace) -> None:
    pagination = read(acme_reads, f"/v2/accounts?workspace_id={four.pk}")["pagination"]
    assert pagination.keys() == {"limit", "offset", "has_more"}
