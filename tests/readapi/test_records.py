"""The records of accounts and users: ranked, scored, with every key."""

from datetime import UTC, datetime
from typing import Any

import pytest

from engagement.models import Account, Product, ScoreSet, User, Workspace
from readapi import serializers
from tests.cases import each, leaves_no_rows
from tests.readapi.conftest import Reads
from tests.readapi.rows import SPRING, make_account, make_user

BENCHMARK = 208.2
ROOT = "http://testserver/v2"
NOT_DECIDED = {"state": "unknown", "reason": "not_decided", "since": None, "decided_for": None}


@pytest.fixture
def scored(workspace: Workspace) -> Workspace:
    ScoreSet.objects.filter(workspace=workspace).update(
        user_benchmark=BENCHMARK, account_benchmark=BENCHMARK
    )
    workspace.refresh_from_db()
    return workspace


def test_accounts_are_ranked_by_score(acme_reads: Reads, scored: Workspace) -> None:
    for raw in (7, 475, 0, 101):
        make_account(scored, f"with {raw}", raw)
    body = acme_reads("/v2/accounts", workspace_id=scored.id).json()
    assert [(row["tracking_id"], row["score"]) for row in body["data"]] == [
        ("with 475", 99.5),
        ("with 101", 67.3),
        ("with 7", 7.4),
        ("with 0", 0.0),
    ]


def test_a_listed_account_has_every_key(acme_reads: Reads, scored: Workspace) -> None:
    account = make_account(scored, "initech", 149, traits={"name": "Initech"}, active_users=4)
    assert acme_reads("/v2/accounts", workspace_id=scored.id).json() == {
        "data": [
            {
                "id": account.id,
                "tracking_id": "initech",
                "name": "Initech",
                "owner": None,
                "tags": [],
                "activity": NOT_DECIDED,
                "score": 80.8,
                "score_change": 80.8,
                "score_change_complete_days": None,
                "active_users": 4,
                "last_active_at": "2026-06-01T12:00:00.123456Z",
                "_links": {"self": f"{ROOT}/accounts/{account.id}?workspace_id={scored.id}"},
            }
        ],
        "pagination": {"limit": 20, "offset": 0, "has_more": False},
        "_expansions": [],
        "_links": {"self": f"{ROOT}/accounts?workspace_id={scored.id}"},
    }


def test_a_full_account_has_every_key(acme_reads: Reads, scored: Workspace) -> None:
    account = make_account(scored, "initech", 149, traits={"name": "Initech"}, active_users=4)
    body = acme_reads(f"/v2/accounts/{account.id}", workspace_id=scored.id).json()
    assert body == {
        "data": {
            "id": account.id,
            "tracking_id": "initech",
            "name": "Initech",
            "owner": None,
            "tags": [],
            "activity": NOT_DECIDED,
            "score": 80.8,
            "score_change": 80.8,
            "score_change_complete_days": None,
            "active_users": 4,
            "last_active_at": "2026-06-01T12:00:00.123456Z",
            "_links": {"self": f"{ROOT}/accounts/{account.id}?workspace_id={scored.id}"},
            "metrics": {
                "engagement_score": 80.8,
                "raw_score": 149,
                "percentile": 0.0,
                "score_yesterday": 0.0,
                "score_last_period": 0.0,
                "score_change": 80.8,
                "score_change_complete_days": None,
                "trend": "rising",
                "frequency": 3,
                "adoption": None,
                "adoption_all_time": None,
                "recently_scored_events": 74,
                "overall_scored_events": 0,
                "last_active_at": "2026-06-01T12:00:00.123456Z",
                "active_users": 4,
                "total_users": 0,
                "active_share": None,
                "license_utilization": None,
            },
            "first_seen_at": "2026-03-01T08:30:00.000000Z",
            "created_at": "2026-03-01T08:30:00.000000Z",
            "tenure_days": 100,
            "updated_at": "2026-06-01T12:00:00.123456Z",
        },
        "_expansions": [],
    }


def test_a_listed_user_has_every_key(acme_reads: Reads, scored: Workspace) -> None:
    account = make_account(scored, "initech", traits={"name": "Initech"})
    traits = {"name": "Milton", "email": "milton@initech.example"}
    user = make_user(scored, "u-1", 3, traits=traits, account=account)
    [row] = acme_reads("/v2/users", workspace_id=scored.id).json()["data"]
    assert row == {
        "id": user.id,
        "tracking_id": "u-1",
        "email": "milton@initech.example",
        "name": "Milton",
        "score": 3.3,
        "score_change": 3.3,
        "score_change_complete_days": None,
        "last_active_at": "2026-06-01T12:00:00.123456Z",
        "account": {"id": account.id, "tracking_id": "initech", "name": "Initech"},
        "_links": {"self": f"{ROOT}/users/{user.id}?workspace_id={scored.id}"},
    }


def test_a_full_user_has_every_key(acme_reads: Reads, scored: Workspace) -> None:
    user = make_user(scored, "u-1", 3, traits={"createdAt": "2026-06-08T23:00:00Z"})
    body = acme_reads(f"/v2/users/{user.id}", workspace_id=scored.id).json()
    assert body["data"] == {
        "id": user.id,
        "tracking_id": "u-1",
        "email": None,
        "name": None,
        "score": 3.3,
        "score_change": 3.3,
        "score_change_complete_days": None,
        "last_active_at": "2026-06-01T12:00:00.123456Z",
        "account": None,
        "_links": {"self": f"{ROOT}/users/{user.id}?workspace_id={scored.id}"},
        "metrics": {
            "engagement_score": 3.3,
            "raw_score": 3,
            "percentile": 0.0,
            "score_yesterday": 0.0,
            "score_last_period": 0.0,
            "score_change": 3.3,
            "score_change_complete_days": None,
            "trend": "steady",
            "frequency": 3,
            "adoption": None,
            "adoption_all_time": None,
            "recently_scored_events": 1,
            "overall_scored_events": 0,
            "last_active_at": "2026-06-01T12:00:00.123456Z",
        },
        "first_seen_at": "2026-03-01T08:30:00.000000Z",
        "created_at": "2026-06-08T23:00:00.000000Z",
        "tenure_days": 1,
        "updated_at": "2026-06-01T12:00:00.123456Z",
    }


@each("resource", ["accounts", "users"])
@leaves_no_rows
def test_a_self_link_leads_to_the_full_record(
    resource: str, acme_reads: Reads, workspace: Workspace
) -> None:
    make_account(workspace, "initech")
    make_user(workspace, "u-1")
    [row] = acme_reads(f"/v2/{resource}", workspace_id=workspace.id).json()["data"]
    full = acme_reads(row["_links"]["self"]).json()["data"]
    assert full["id"] == row["id"] and "metrics" in full


def test_before_the_first_benchmark_every_score_is_zero(
    acme_reads: Reads, workspace: Workspace
) -> None:
    make_account(workspace, "initech", raw=9)
    [row] = acme_reads("/v2/accounts", workspace_id=workspace.id).json()["data"]
    assert row["score"] == 0.0


@each("value", [42, True, None, ["Initech"], {"first": "Milton"}])
@leaves_no_rows
def test_a_name_that_is_not_a_string_is_null(
    value: Any, acme_reads: Reads, workspace: Workspace
) -> None:
    make_user(workspace, "u-1", traits={"name": value, "email": value})
    [row] = acme_reads("/v2/users", workspace_id=workspace.id).json()["data"]
    assert row["name"] is None and row["email"] is None


def test_unidentified_subjects_are_hidden(
    acme_reads: Reads, acme: Product, workspace: Workspace
) -> None:
    unnamed = Account.objects.create(
        product=acme, external_id="unnamed", first_seen_at=SPRING, last_seen_at=SPRING
    )
    stranger = User.objects.create(
        product=acme, external_id="stranger", first_seen_at=SPRING, last_seen_at=SPRING
    )
    make_user(workspace, "u-1", account=unnamed)
    scope = {"workspace_id": workspace.id}
    look_up = {**scope, "match_type": "tracking_id", "match_value": "stranger"}

    assert acme_reads("/v2/accounts", **scope).json()["data"] == []
    assert acme_reads("/v2/users", **look_up).json()["data"] == []
    assert acme_reads(f"/v2/users/{stranger.id}", **scope).status_code == 404
    assert acme_reads(f"/v2/accounts/{unnamed.id}", **scope).status_code == 404
    [user] = acme_reads("/v2/users", **scope).json()["data"]
    assert user["account"] is None


def test_a_workspace_shows_its_own_scores_only(
    acme_reads: Reads, acme: Product, workspace: Workspace
) -> None:
    elsewhere = Workspace.objects.create(product=acme, name="Elsewhere")
    account = make_account(elsewhere, "initech", raw=9)
    assert acme_reads("/v2/accounts", workspace_id=workspace.id).json()["data"] == []
    in_workspace = acme_reads(f"/v2/accounts/{account.id}", workspace_id=workspace.id)
    assert in_workspace.status_code == 404


TRAITS = {"name": "Initech", "plan": "pro", "seats": 5, "am.tier": "10 users", "tags": ["a"]}


@each("resource", ["accounts", "users"])
@leaves_no_rows
def test_traits_on_expand(resource: str, acme_reads: Reads, workspace: Workspace) -> None:
    make = make_account if resource == "accounts" else make_user
    subject = make(workspace, "s", traits=TRAITS)
    body = acme_reads(f"/v2/{resource}/{subject.id}", workspace_id=workspace.id, expand="traits")
    assert body.json()["data"]["traits"] == TRAITS
    assert body.json()["_expansions"] == ["traits"]


@each(
    ("names", "expected"),
    [
        ("plan", {"plan": "pro"}),
        ("seats,plan,seats", {"seats": 5, "plan": "pro"}),
        ("plan,unknown", {"plan": "pro", "unknown": None}),
        ("AM.Tier", {"AM.Tier": "10 users"}),
        ("Plan", {"Plan": None}),
        (",plan,", {"plan": "pro"}),
    ],
)
@leaves_no_rows
def test_named_traits_of_a_user(
    names: str, expected: dict[str, Any], acme_reads: Reads, workspace: Workspace
) -> None:
    user = make_user(workspace, "u-1", traits=TRAITS)
    body = acme_reads(
        f"/v2/users/{user.id}", workspace_id=workspace.id, expand="traits", traits=names
    ).json()
    assert body["data"]["traits"] == expected


@each("value", ["Ünïcode 🎉", 10**40, 1.5, -0.5, "</script>", "\u2028", {"deep": [[[None]]]}])
@leaves_no_rows
def test_a_trait_keeps_its_value(value: Any, acme_reads: Reads, workspace: Workspace) -> None:
    user = make_user(workspace, "u-1", traits={"odd": value})
    body = acme_reads(f"/v2/users/{user.id}", workspace_id=workspace.id, expand="traits").json()
    assert body["data"]["traits"] == {"odd": value}


def test_times_are_utc_with_microseconds() -> None:
    moment = datetime(2026, 6, 1, 12, tzinfo=UTC)
    assert serializers.format_time(moment) == "2026-06-01T12:00:00.000000Z"
    assert serializers.format_time(moment.replace(year=987)) == "0987-06-01T12:00:00.000000Z"
