"""GET /v2/workspaces/{id}/changes, and the same for assistants."""

from datetime import UTC, datetime, timedelta
from typing import Any

import jsonschema_rs
import pytest

from config.openapi import reading
from engagement.models import Account, AccountEngagement, Segment, Workspace
from engagement.rescoring.rescore import rescore
from tests.engagement.alarms.rows import alarm
from tests.engagement.history import group, tell
from tests.openapi.walking import forbid_extra_keys
from tests.readapi.conftest import Reads
from tests.readapi.test_mcp import Tool, tool

__all__ = ["tool"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def busy(workspace: Workspace) -> Workspace:
    """Two new accounts, of which one pays and has an alarm."""
    now = datetime.now(UTC)
    tell(workspace.product, group("initech", plan="pro"), group("hooli", plan="free"))
    # Soon after midnight, the last day of which alarms are decided is not yesterday.
    Account.objects.update(first_seen_at=now - timedelta(days=3))
    rescore(now)
    row = AccountEngagement.objects.select_related("account").get(account__external_id="initech")
    alarm(row, since=now.date() - timedelta(days=3))
    return workspace


def paying(workspace: Workspace, scope: str = "account") -> Segment:
    condition = {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"}
    return Segment.objects.create(
        workspace=workspace, scope=scope, name=f"Paying {scope}s", conditions=[condition]
    )


def test_a_week_a_day_and_a_segment(acme_reads: Reads, busy: Workspace) -> None:
    def changes(query: str = "") -> dict[str, Any]:
        body = acme_reads(f"/v2/workspaces/{busy.pk}/changes{query}").json()
        data: dict[str, Any] = body["data"]
        return data

    week = changes()
    assert week["text"] == "1 alarm began and 2 accounts are new."
    assert week["began"]["by_insight"] == {"trend_down": 1}
    (began,) = week["began"]["first"]
    assert began["account"]["tracking_id"] == "initech" and week == changes("?period=week")
    day = changes("?period=day")
    assert day["period"]["first"] == day["period"]["last"] == week["period"]["last"]
    assert day["began"]["count"] == 0 and day["text"].startswith("A quiet day")
    own = changes(f"?segment_id={paying(busy).pk}")
    assert (own["new"]["count"], own["began"]["count"]) == (1, 1)


def test_records_are_as_described(acme_reads: Reads, busy: Workspace) -> None:
    components = forbid_extra_keys(reading.schemas())
    shape = {"$ref": "#/components/schemas/ChangesDetail", "components": {"schemas": components}}
    validator = jsonschema_rs.Draft202012Validator(shape)
    body = acme_reads(f"/v2/workspaces/{busy.pk}/changes").json()
    assert body["data"]["began"]["first"] and [*validator.iter_errors(body)] == []


def test_what_cannot_be_answered_says_why(
    acme_reads: Reads, globex_reads: Reads, workspace: Workspace
) -> None:
    url = f"/v2/workspaces/{workspace.pk}/changes"
    Workspace.objects.filter(pk=workspace.pk).update(scores=None)
    missing = acme_reads(url)
    assert missing.status_code == 404 and "no scores yet" in missing.json()["error"]["message"]
    rescore(datetime.now(UTC))
    error = acme_reads(f"{url}?period=month").json()["error"]
    assert error["message"] == "period accepts: week, day."
    of_users = acme_reads(f"{url}?segment_id={paying(workspace, 'user').pk}")
    assert of_users.status_code == 400 and of_users.json()["error"]["field"] == "segment_id"
    assert acme_reads(f"{url}?segment_id=987654321").status_code == 404
    assert globex_reads(url).status_code == 404


def test_assistants_get_the_same(acme_reads: Reads, tool: Tool, busy: Workspace) -> None:
    body = acme_reads(f"/v2/workspaces/{busy.pk}/changes?period=day").json()
    assert tool("what_changed", period="day")["data"] == body["data"]
