"""GET /v2/workspaces/{id}/forecasts, and the same for assistants."""

from datetime import UTC, datetime, timedelta

import jsonschema_rs
import pytest

from config.openapi import reading
from core.jobs import run
from engagement.models import Workspace
from engagement.rescoring.rescore import rescore
from outcomes.forecasts import jobs
from outcomes.kinds import Kind
from outcomes.reading import QUEUE
from tests.openapi.walking import forbid_extra_keys
from tests.outcomes.forecasts import Planted, plant
from tests.readapi.conftest import Reads
from tests.readapi.test_mcp import Tool, tool

__all__ = ["tool"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def forecast(workspace: Workspace) -> Workspace:
    """Two annual terms and a monthly license, one month after another term of which a forecast was
    made."""
    rescore(datetime.now(UTC))
    now = datetime.now(UTC)
    last = (now.replace(day=1) - timedelta(days=1)).replace(day=1)
    past = Planted("past", last.date() + timedelta(days=3), 0.9)
    ahead = [
        *(Planted(name, now.date() + timedelta(days=2), 0.5, cents=100) for name in "ab"),
        Planted("m", now.date() + timedelta(days=2), kind=Kind.MONTHLY_STAY),
    ]
    for time, terms in ((last, [past]), (now, [past.ended(), *ahead])):
        plant(workspace.product, terms, time.date())
        jobs.request_due(time)
        run.run_due(QUEUE, lambda time=time: time)  # type: ignore[misc]
    return workspace


def test_each_kind_is_a_record_with_intervals_counts_and_words(
    acme_reads: Reads, forecast: Workspace
) -> None:
    body = acme_reads(f"/v2/workspaces/{forecast.pk}/forecasts").json()
    by_kind = {row["kind"]: row for row in body["data"]}
    assert set(by_kind) == {"renewal", "monthly_stay"}
    renewal = by_kind["renewal"]
    seats = renewal["total"]["seats"]
    assert (seats["terms"], seats["due"], seats["expected"]) == (2, 20, 10)
    assert 0 <= seats["low"] <= 10 <= seats["high"] <= 20
    assert renewal["texts"]["seats"].startswith("Of 20 seats of annual terms")
    (past,) = renewal["past"]
    assert (past["happened"]["seats"], past["open"]) == (10, 0)
    assert renewal["coverage"]["seats"]["outcomes"] == 1
    assert by_kind["monthly_stay"]["total"] == {}


def test_records_are_as_described(acme_reads: Reads, forecast: Workspace) -> None:
    components = forbid_extra_keys(reading.schemas())
    shape = {"$ref": "#/components/schemas/ForecastList", "components": {"schemas": components}}
    validator = jsonschema_rs.Draft202012Validator(shape)
    body = acme_reads(f"/v2/workspaces/{forecast.pk}/forecasts").json()
    assert body["data"] and [*validator.iter_errors(body)] == []


def test_assistants_and_other_products(
    acme_reads: Reads, globex_reads: Reads, tool: Tool, forecast: Workspace
) -> None:
    body = acme_reads(f"/v2/workspaces/{forecast.pk}/forecasts").json()
    for arguments in ({}, {"workspace_id": forecast.pk}):
        assert tool("what_will_renew", **arguments)["data"] == body["data"]
    assert globex_reads(f"/v2/workspaces/{forecast.pk}/forecasts").status_code == 404
