"""Segments and their members."""

from typing import Any

import pytest

from engagement.models import Product, Segment, Workspace
from tests.cases import each
from tests.readapi.conftest import Reads
from tests.readapi.scored import fill


@pytest.fixture
def filled(acme: Product) -> Workspace:
    return fill(acme)


@pytest.fixture
def busy(filled: Workspace) -> Segment:
    """A custom segment: accounts with five points or more."""
    return Segment.objects.create(
        workspace=filled,
        scope="account",
        name="Busy",
        conditions=[{"kind": "metric", "metric": "raw_score", "operator": "at_least", "value": 5}],
    )


def all_records(reads: Reads, address: str, **parameters: Any) -> list[dict[str, Any]]:
    """All records of a list, from all pages."""
    records = []
    body = reads(address, **parameters).json()
    while True:
        records += body["data"]
        if "next" not in body["_links"]:
            return records
        body = reads(body["_links"]["next"]).json()


def test_a_segment_has_every_key(acme_reads: Reads, filled: Workspace, busy: Segment) -> None:
    root = "http://testserver/v2/segments"
    response = acme_reads(f"/v2/segments/{busy.pk}", workspace_id=filled.pk)
    assert response.json() == {
        "data": {
            "id": busy.pk,
            "name": "Busy",
            "scope": "account",
            "is_default": False,
            "match": "all",
            "conditions": busy.conditions,
            "_links": {
                "self": f"{root}/{busy.pk}?workspace_id={filled.pk}",
                "members": f"{root}/{busy.pk}/members?workspace_id={filled.pk}",
            },
            "member_count": 1,
        },
        "_expansions": [],
    }


def test_the_list_has_the_defaults_first_and_then_custom_ones(
    acme_reads: Reads, filled: Workspace, busy: Segment
) -> None:
    records = all_records(acme_reads, "/v2/segments", workspace_id=filled.pk, limit=10)
    assert records[0]["name"] == "All" and records[0]["is_default"]
    assert [record["name"] for record in records if not record["is_default"]] == ["Busy"]
    assert len({record["id"] for record in records}) == len(records) == 26
    assert "member_count" not in records[0]


@pytest.mark.parametrize(
    ("parameters", "number"),
    [
        ({"scope": "user"}, 12),
        ({"scope": "account"}, 14),
        ({"exclude_defaults": "true"}, 1),
        ({"exclude_defaults": "true", "scope": "user"}, 0),
        ({"exclude_defaults": "false"}, 26),
    ],
)
def test_a_list_can_be_filtered(
    parameters: dict[str, str], number: int, acme_reads: Reads, filled: Workspace, busy: Segment
) -> None:
    assert (
        len(all_records(acme_reads, "/v2/segments", workspace_id=filled.pk, **parameters)) == number
    )


def test_counts_agree_with_the_members(acme_reads: Reads, filled: Workspace, busy: Segment) -> None:
    listed = all_records(
        acme_reads, "/v2/segments", workspace_id=filled.pk, expand="counts", limit=100
    )
    for record in listed:
        members = all_records(acme_reads, record["_links"]["members"])
        assert len(members) == record["member_count"], record["name"]
    counts = {(record["scope"], record["name"]): record["member_count"] for record in listed}
    assert counts["user", "All"] == 3 and counts["account", "All"] == 2
    assert counts["account", "Busy"] == counts["account", "Multi-User Accounts"] == 1


def test_members_are_listed_by_score(acme_reads: Reads, filled: Workspace) -> None:
    for scope, address in (("user", "/v2/users"), ("account", "/v2/accounts")):
        everybody = Segment.objects.get(workspace=filled, scope=scope, name="All")
        members = acme_reads(f"/v2/segments/{everybody.pk}/members", workspace_id=filled.pk)
        assert members.json()["data"] == acme_reads(address, workspace_id=filled.pk).json()["data"]


def test_members_come_page_by_page(acme_reads: Reads, filled: Workspace) -> None:
    everybody = Segment.objects.get(workspace=filled, scope="user", name="All")
    address = f"/v2/segments/{everybody.pk}/members"
    names = [
        record["tracking_id"]
        for record in all_records(acme_reads, address, workspace_id=filled.pk, limit=1)
    ]
    assert names == ["ann", "bob", "cyd"]


def test_a_workspace_that_is_not_scored_yet_has_segments_without_members(
    acme_reads: Reads, acme: Product
) -> None:
    workspace = Workspace.objects.get(product=acme)
    records = all_records(acme_reads, "/v2/segments", workspace_id=workspace.pk, expand="counts")
    assert {record["member_count"] for record in records} == {0}
    members = acme_reads(records[0]["_links"]["members"])
    assert (members.status_code, members.json()["data"]) == (200, [])


@each(
    "parameters",
    [
        {"scope": "team"},
        {"scope": ""},
        {"scope": "User"},
        {"exclude_defaults": "yes"},
        {"exclude_defaults": ""},
        {"expand": "members"},
        {"limit": "0"},
        {"cursor": "abc"},
    ],
)
def test_invalid_parameters_return_400(
    parameters: dict[str, str], acme_reads: Reads, filled: Workspace
) -> None:
    assert acme_reads("/v2/segments", workspace_id=filled.pk, **parameters).status_code == 400


def test_a_segments_cursor_is_invalid_for_another_list(
    acme_reads: Reads, filled: Workspace
) -> None:
    first, second = Segment.objects.filter(workspace=filled, scope="user", name__startswith="A")[:2]
    page = acme_reads(f"/v2/segments/{first.pk}/members", workspace_id=filled.pk, limit=1).json()
    cursor = page["_links"]["next"].split("cursor=")[1].split("&")[0]
    response = acme_reads(
        f"/v2/segments/{second.pk}/members", workspace_id=filled.pk, cursor=cursor
    )
    assert response.json()["error"]["code"] == "invalid_cursor"


@pytest.mark.parametrize("suffix", ["", "/members"])
def test_a_segment_of_another_product_or_workspace_does_not_exist(
    suffix: str,
    globex_reads: Reads,
    acme_reads: Reads,
    acme: Product,
    globex: Product,
    filled: Workspace,
    busy: Segment,
) -> None:
    theirs = Workspace.objects.get(product=globex)
    other = Workspace.objects.create(product=acme, name="Other")
    for reads, workspace_id in (
        (globex_reads, filled.pk),
        (globex_reads, theirs.pk),
        (acme_reads, other.pk),
        (acme_reads, theirs.pk),
    ):
        response = reads(f"/v2/segments/{busy.pk}{suffix}", workspace_id=workspace_id)
        unknown = reads(f"/v2/segments/{busy.pk + 999}{suffix}", workspace_id=workspace_id)
        assert response.status_code == unknown.status_code == 404
        assert response.json() == unknown.json()
