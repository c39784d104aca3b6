"""GET /v1/accounts: the account look-up of version 1."""

from typing import Any

import pytest
from django.test import Client

from engagement.models import Product, Workspace
from tests.cases import each
from tests.readapi.conftest import Reads
from tests.readapi.scored import account_id, fill, scores_of

ADDRESS = "/v1/accounts"


@pytest.fixture
def filled(acme: Product) -> Workspace:
    return fill(acme)


def test_the_account_is_at_the_root_and_its_score_is_a_fraction(
    acme_reads: Reads, acme: Product, filled: Workspace
) -> None:
    id = account_id(acme, "initech")
    body = acme_reads(ADDRESS, workspace_id=filled.pk, id=id).json()
    # Initech is the only account with a score, so it is the benchmark, which scores 90.
    assert scores_of(filled).account_benchmark == 9.0
    assert body == {
        "id": id,
        "tracking_id": "initech",
        "name": "Initech",
        "metrics": {
            "engagement_score": 0.9,
            "raw_score": 9,
            "percentile": 0.0,
            "score_yesterday": body["metrics"]["score_yesterday"],
            "score_last_period": body["metrics"]["score_last_period"],
            "score_change": body["metrics"]["score_change"],
            "score_change_complete_days": body["metrics"]["score_change_complete_days"],
            "trend": "rising",
            "frequency": 5,
            "adoption": 1.0,
            "adoption_all_time": 1.0,
            "recently_scored_events": 9,
            "overall_scored_events": 10,
            "last_active_at": "2026-09-24T12:00:00.000000Z",
            "active_users": 2,
            "total_users": 2,
            "active_share": 1.0,
            "license_utilization": 0.04,
            # The last event is later than the last message that names it, of August 5.
            "last_seen": "2026-09-24T12:00:00.000000Z",
        },
        "_expansions": [],
    }
    changes = ("score_change", "score_change_complete_days")
    for name in ("score_yesterday", "score_last_period", *changes):
        assert -1 <= body["metrics"][name] <= 1


@pytest.mark.parametrize(
    "match",
    [
        {"match_type": "tracking_id", "match_value": "initech"},
        {"match_type": "name", "match_value": "Initech"},
        {"match_type": "domain", "match_value": "INITECH.example"},
        {"match_type": "am.tier.number", "match_value": "50"},
    ],
)
def test_an_account_is_found_by_any_trait(
    match: dict[str, str], acme_reads: Reads, filled: Workspace
) -> None:
    body = acme_reads(ADDRESS, workspace_id=filled.pk, **match).json()
    assert body["tracking_id"] == "initech"


def test_expansions_are_inside_the_account(
    acme_reads: Reads, acme: Product, filled: Workspace
) -> None:
    id = account_id(acme, "initech")
    expand = "insights,traits,segments"
    body = acme_reads(ADDRESS, workspace_id=filled.pk, id=id, expand=expand).json()
    assert body["_expansions"] == expand.split(",")
    assert body["traits"]["domain"] == "initech.example"
    assert {"kind", "severity", "text", "numbers"} == set(body["insights"][0])
    assert {"id", "name"} == set(body["segments"][0])


@each(
    ("parameters", "code"),
    [
        ({}, "missing_match_parameter"),
        ({"id": ""}, "missing_match_parameter"),
        ({"match_type": "name"}, "missing_match_parameter"),
        ({"match_value": "Initech"}, "missing_match_parameter"),
        ({"id": "one"}, "invalid_parameter"),
        ({"id": "-1"}, "invalid_parameter"),
        ({"id": "1", "match_type": "name", "match_value": "x"}, "invalid_parameter"),
        ({"id": "1", "expand": "history"}, "invalid_expand"),
    ],
)
def test_invalid_parameters_return_400(
    parameters: dict[str, Any], code: str, acme_reads: Reads, filled: Workspace
) -> None:
    response = acme_reads(ADDRESS, workspace_id=filled.pk, **parameters)
    assert (response.status_code, response.json()["error"]["code"]) == (400, code)


def test_unknown_and_foreign_accounts_return_404(
    acme_reads: Reads, globex_reads: Reads, acme: Product, globex: Product, filled: Workspace
) -> None:
    theirs = Workspace.objects.get(product=globex)
    id = account_id(acme, "initech")
    for reads, parameters in (
        (acme_reads, {"workspace_id": filled.pk, "id": 999_999_999}),
        (
            acme_reads,
            {"workspace_id": filled.pk, "match_type": "name", "match_value": "nobody"},
        ),
        (globex_reads, {"workspace_id": filled.pk, "id": id}),
        (globex_reads, {"workspace_id": theirs.pk, "id": id}),
        (acme_reads, {"workspace_id": theirs.pk, "id": id}),
    ):
        response = reads(ADDRESS, **parameters)
        assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")


def test_post_is_not_allowed(acme_token: str) -> None:
    response = Client(headers={"authorization": f"Bearer {acme_token}"}).post(ADDRESS)
    assert response.status_code == 405
