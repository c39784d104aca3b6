"""GET /v2/workspaces/{id}/backtests, and the same for assistants."""

from datetime import UTC, datetime

import jsonschema_rs

from config.openapi import reading
from engagement.models import Product, Segment, Workspace
from outcomes.backtests.results import Verdict
from outcomes.kinds import Kind
from tests.openapi.walking import forbid_extra_keys
from tests.outcomes.backtests import backtest, keep
from tests.readapi.conftest import Reads
from tests.readapi.test_mcp import Tool, tool

__all__ = ["tool"]

NOON = datetime(2026, 10, 28, 12, tzinfo=UTC)


def test_each_kind_is_a_record_with_words_intervals_and_counts(
    acme_reads: Reads, workspace: Workspace
) -> None:
    keep(workspace, backtest(Kind.RENEWAL), NOON)
    keep(workspace, backtest(Kind.DORMANCY, Verdict.TOO_FEW), NOON)
    response = acme_reads(f"/v2/workspaces/{workspace.pk}/backtests").json()
    renewal, dormancy = response["data"]
    assert (renewal["kind"], dormancy["kind"]) == ("renewal", "dormancy")
    assert renewal["excluded"] == {"sandbox": 14, "open": 9}
    assert (renewal["first_day"], renewal["revision"]) == ("2025-03-01", 12_345)
    assert renewal["computed_at"] == "2026-10-28T12:00:00.000000Z"
    assert [each["days"] for each in renewal["horizons"]] == [14, 30, 60, 90]
    of_60 = renewal["horizons"][2]
    assert of_60["verdict"] == "better_than_both"
    assert renewal["texts"][2].startswith("The score predicts renewals: better than chance")
    assert of_60["auc"] == {"value": 0.77, "low": 0.71, "high": 0.83, "outcomes": 214}
    assert of_60["bands"][0]["rate"]["outcomes"] == of_60["bands"][0]["outcomes"] == 21
    few = dormancy["horizons"][0]
    assert (few["verdict"], few["needed"], few["auc"]) == ("too_few", 30, None)


def test_records_are_as_described(acme_reads: Reads, workspace: Workspace) -> None:
    components = forbid_extra_keys(reading.schemas())
    shape = {"$ref": "#/components/schemas/BacktestList", "components": {"schemas": components}}
    validator = jsonschema_rs.Draft202012Validator(shape)
    for verdict in Verdict:
        keep(workspace, backtest(Kind.RENEWAL, verdict), NOON)
        body = acme_reads(f"/v2/workspaces/{workspace.pk}/backtests").json()
        assert [*validator.iter_errors(body)] == []


def test_a_backtest_of_a_segment_names_it(acme_reads: Reads, workspace: Workspace) -> None:
    segment = Segment.objects.create(workspace=workspace, scope="account", name="A", conditions=[])
    keep(workspace, backtest(Kind.RENEWAL), NOON)
    keep(workspace, backtest(Kind.RENEWAL, segment=segment.pk), NOON)
    page = acme_reads(f"/v2/workspaces/{workspace.pk}/backtests", limit=1).json()
    assert [row["segment_id"] for row in page["data"]] == [None]
    page = acme_reads(page["_links"]["next"]).json()
    assert [row["segment_id"] for row in page["data"]] == [segment.pk]
    assert "next" not in page["_links"]


def test_another_product_reads_none(
    globex_reads: Reads, workspace: Workspace, globex_workspace: Workspace
) -> None:
    keep(workspace, backtest(Kind.RENEWAL), NOON)
    assert globex_reads(f"/v2/workspaces/{workspace.pk}/backtests").status_code == 404
    assert globex_reads(f"/v2/workspaces/{globex_workspace.pk}/backtests").json()["data"] == []


def test_assistants_read_the_same(
    tool: Tool, acme_reads: Reads, acme: Product, workspace: Workspace
) -> None:
    keep(workspace, backtest(Kind.RENEWAL), NOON)
    body = acme_reads(f"/v2/workspaces/{workspace.pk}/backtests").json()
    for arguments in ({}, {"workspace_id": workspace.pk}):
        assert tool("does_the_score_predict", **arguments)["data"] == body["data"]
