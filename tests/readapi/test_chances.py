"""GET /v2/workspaces/{id}/chances, and the same for assistants."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import jsonschema_rs
import pytest

from config.openapi import reading
from engagement.models import AccountChance, Workspace
from outcomes.kinds import Kind
from readapi.views.chances import ORDERS
from tests.openapi.walking import forbid_extra_keys
from tests.outcomes.stored_chances import TODAY, chance, make_radar
from tests.readapi.conftest import Reads
from tests.readapi.test_mcp import Tool, tool

__all__ = ["tool"]


def address(workspace: Workspace) -> str:
    return f"/v2/workspaces/{workspace.pk}/chances"


def test_chances_have_their_interval_their_facts_and_similar_cases(
    acme_reads: Reads, workspace: Workspace
) -> None:
    make_radar(workspace)
    initech, umbrella = acme_reads(address(workspace)).json()["data"]
    assert (initech["account"]["tracking_id"], initech["account"]["name"]) == ("initech", "Initech")
    assert initech["chance"] == {
        "value": 0.4,
        "low": pytest.approx(0.3),
        "high": 0.5,
        "outcomes": 300,
    }
    assert (initech["license"], initech["seats"], initech["is_share"]) == (
        "of initech",
        50,
        False,
    )
    fact = initech["facts"][0]
    assert (fact["feature"], fact["value"], fact["usual"], fact["effect"]) == ("users", 2, 5, -0.12)
    assert fact["text"] == "2 active users; usual 5: lowers the chance by 12 points."
    # The other one is forgotten.
    (similar,) = initech["similar"]
    assert (similar["account"]["tracking_id"], similar["result"]) == ("hooli", "bought")
    assert umbrella["facts"] == umbrella["similar"] == []


def test_records_are_as_described(acme_reads: Reads, workspace: Workspace) -> None:
    make_radar(workspace)
    components = forbid_extra_keys(reading.schemas())
    shape = {"$ref": "#/components/schemas/ChanceList", "components": {"schemas": components}}
    validator = jsonschema_rs.Draft202012Validator(shape)
    body = acme_reads(address(workspace)).json()
    assert body["data"] and [*validator.iter_errors(body)] == []


@pytest.fixture
def many(workspace: Workspace) -> Workspace:
    """Chances with ties, of two licenses of one account, and without seats."""
    make_radar(workspace)
    for number, value in enumerate((0.4, 0.4, 0.1, 0.0, 1.0)):
        day = TODAY + timedelta(days=3 + number % 2)
        chance(workspace, f"a {number}", value, day=day, seats=None if number == 2 else 20)
    row = AccountChance.objects.get(account__external_id="a 0")
    row.license = "another"
    row.save(force_insert=True)
    return workspace


@pytest.mark.parametrize("order", ORDERS)
def test_pages_have_each_chance_once_in_order(
    acme_reads: Reads, many: Workspace, order: str
) -> None:
    keys: dict[str, Callable[[Any], Any]] = {
        "expected_seats": lambda row: -row["chance"]["value"] * (row["seats"] or 0),
        "chance": lambda row: row["chance"]["value"],
        "day": lambda row: row["day"],
    }
    key = keys[order]
    every = acme_reads(address(many), order=order).json()["data"]
    assert len(every) == 8
    assert [key(row) for row in every] == sorted(key(row) for row in every)
    page, rows = acme_reads(address(many), order=order, limit=3).json(), []
    while True:
        rows += page["data"]
        if "next" not in page["_links"]:
            break
        page = acme_reads(page["_links"]["next"]).json()
    assert rows == every
    before = acme_reads(page["_links"]["prev"]).json()
    assert before["data"] == every[3:6]


def test_a_kind_is_chosen(acme_reads: Reads, many: Workspace) -> None:
    chance(many, "a term", 0.7, kind=Kind.RENEWAL)
    (row,) = acme_reads(address(many), kind="renewal").json()["data"]
    assert (row["kind"], row["account"]["tracking_id"]) == ("renewal", "a term")
    assert acme_reads(address(many), kind="dormancy").json()["data"] == []
    for name, value in (("busy", 0.9), ("quiet", 0.2)):
        chance(many, name, value, kind=Kind.DORMANCY, license="", seats=None)
    accounts = acme_reads(address(many), kind="dormancy").json()["data"]
    assert [row["account"]["tracking_id"] for row in accounts] == ["quiet", "busy"]
    for query in ({"kind": "luck"}, {"order": "size"}):
        assert acme_reads(address(many), **query).status_code == 400


def test_a_cursor_is_of_one_kind_and_order(acme_reads: Reads, many: Workspace) -> None:
    link = acme_reads(address(many), limit=1).json()["_links"]["next"]
    cursor = link.split("cursor=")[1].split("&")[0]
    assert acme_reads(address(many), cursor=cursor).status_code == 200
    for query in ({"order": "day"}, {"kind": "renewal"}):
        response = acme_reads(address(many), cursor=cursor, **query)
        assert response.json()["error"]["code"] == "invalid_cursor"


def test_another_product_reads_none(
    globex_reads: Reads, workspace: Workspace, globex_workspace: Workspace
) -> None:
    make_radar(workspace)
    assert globex_reads(address(workspace)).status_code == 404
    assert globex_reads(address(globex_workspace)).json()["data"] == []


def test_assistants_read_the_same(tool: Tool, acme_reads: Reads, workspace: Workspace) -> None:
    make_radar(workspace)
    body = acme_reads(address(workspace), order="chance").json()
    answer = tool("which_evaluations_will_buy", order="chance")["data"]
    assert answer == body["data"] and len(answer) == 2
    assert tool("which_evaluations_will_buy", kind="renewal")["data"] == []
