"""GET /v2/workspaces/{id}/trends, and the same for assistants."""

from typing import Any

import jsonschema_rs
import pytest

from config.openapi import reading
from engagement.models import Segment, Workspace
from engagement.scores.active_days import DAY
from tests.admin.test_trends import LAST, plant
from tests.openapi.walking import forbid_extra_keys
from tests.readapi.conftest import Reads
from tests.readapi.test_mcp import Tool, tool

__all__ = ["tool"]
pytestmark = pytest.mark.django_db


def read(reads: Reads, workspace: Workspace, **query: Any) -> Any:
    text = "&".join(f"{name}={value}" for name, value in query.items())
    return reads(f"/v2/workspaces/{workspace.pk}/trends?{text}")


def test_points_are_days_by_default_the_earliest_first(
    acme_reads: Reads, workspace: Workspace
) -> None:
    assert read(acme_reads, workspace).json()["data"] == []
    plant(workspace)
    body = read(acme_reads, workspace, limit=100).json()
    assert len(body["data"]) == 90
    first, last = body["data"][0], body["data"][-1]
    assert (first["first_day"], last["last_day"]) == (str(LAST - 89 * DAY), str(LAST))
    assert (last["weekly_accounts"], last["account_mean"], last["seats"]) == (800, 40.0, None)


def test_weeks_and_months_sum_what_happened(acme_reads: Reads, workspace: Workspace) -> None:
    plant(workspace)
    query = {"from": LAST - 13 * DAY, "to": LAST}
    weeks = read(acme_reads, workspace, interval="week", **query).json()["data"]
    assert [(each["new_accounts"], each["weekly_accounts"]) for each in weeks] == [
        (7, 793),
        (7, 800),
    ]
    months = read(acme_reads, workspace, interval="month", **query).json()["data"]
    assert [each["first_day"] for each in months] == [str(LAST - 13 * DAY)]


def test_a_segment_has_its_own(
    acme_reads: Reads, globex_reads: Reads, workspace: Workspace
) -> None:
    plant(workspace)
    segment = Segment.objects.filter(workspace=workspace).first()
    assert segment is not None
    plant(workspace, segment.pk, entered=3)
    (point,) = read(acme_reads, workspace, segment_id=segment.pk, **{"from": LAST}).json()["data"]
    assert point["entered"] == 3
    assert read(acme_reads, workspace, segment_id=segment.pk + 1_000).status_code == 404
    assert read(globex_reads, workspace).status_code == 404


def test_pages_follow_each_other(acme_reads: Reads, workspace: Workspace) -> None:
    plant(workspace)
    body = read(acme_reads, workspace, limit=30).json()
    days, pages = [each["last_day"] for each in body["data"]], 1
    while next_url := body["_links"].get("next"):
        body = acme_reads(next_url.partition("testserver")[2]).json()
        days, pages = days + [each["last_day"] for each in body["data"]], pages + 1
    assert (len(days), days, pages) == (90, sorted(days), 3)


def test_too_many_days_and_bad_days_are_refused(acme_reads: Reads, workspace: Workspace) -> None:
    plant(workspace)
    for query in ({"from": "2020-01-01"}, {"to": "soon"}, {"interval": "year"}):
        response = read(acme_reads, workspace, **query)
        assert response.status_code == 400, query
    assert read(acme_reads, workspace, **{"from": "2099-01-01"}).json()["data"] == []


def test_records_are_as_described_also_for_assistants(
    acme_reads: Reads, workspace: Workspace, tool: Tool
) -> None:
    plant(workspace)
    body = read(acme_reads, workspace, limit=20).json()
    components = forbid_extra_keys(reading.schemas())
    shape = {"$ref": "#/components/schemas/TrendPointList", "components": {"schemas": components}}
    validator = jsonschema_rs.Draft202012Validator(shape)
    assert body["data"] and [*validator.iter_errors(body)] == []
    assert tool("how_it_moved", workspace_id=workspace.pk)["data"] == body["data"]
