"""GET /v2/workspaces/{id}/activation, the same for assistants, and activation of one record."""

from datetime import timedelta

from engagement.models import Product
from engagement.rescoring import activation
from engagement.rescoring.jobs import ACTIVATION
from engagement.rules.steps import Step
from tests.engagement.history import NOON
from tests.jobs import run_job
from tests.readapi.conftest import Reads
from tests.readapi.scored import TODAY, account_id, fill, user_id
from tests.readapi.test_mcp import Tool, tool

__all__ = ["tool"]


def test_who_has_done_which_steps(
    acme: Product, acme_reads: Reads, globex_reads: Reads, tool: Tool
) -> None:
    workspace = fill(acme)
    address = f"/v2/workspaces/{workspace.pk}/activation"
    empty = acme_reads(address).json()["data"]
    assert (empty["day"], empty["steps"], empty["weeks"]) == (None, [], [])

    steps = [
        Step("Open", "event", "opened", within_days=60),
        Step("Share", "event", "shared", at_least=5, within_days=60),
    ]
    for scope in ("account", "user"):
        activation.request(workspace, "user" if scope == "user" else "account", steps)
    run_job(ACTIVATION, NOON)
    own = acme_reads(address).json()["data"]
    assert (own["total"], own["activated"], own["day"]) == (2, 1, TODAY.isoformat())
    assert own["share"]["outcomes"] == 2
    opened, shared = own["steps"]
    assert (opened["reached"], opened["stuck"], opened["on_the_way"]) == (1, 1, 0)
    assert (shared["name"], shared["reached"]) == ("Share", 1)
    assert shared["text"] == "Event “shared” 5 times within 60 days"
    assert len(own["weeks"]) == 16
    assert tool("who_is_activated", workspace_id=workspace.pk)["data"] == own
    users = acme_reads(address, subjects="user").json()["data"]
    assert (users["subjects"], users["total"], users["activated"]) == ("user", 3, 1)
    assert globex_reads(address).status_code == 404

    expand = {"workspace_id": workspace.pk, "expand": "activation"}
    hooli = acme_reads(f"/v2/accounts/{account_id(acme, 'hooli')}", **expand).json()["data"]
    assert hooli["activation"] == {
        **{"state": "stuck", "next_step": "Open", "activated_on": None},
        "steps": [
            {"name": "Open", "is_done": False, "done_on": None},
            {"name": "Share", "is_done": False, "done_on": None},
        ],
    }
    ann = acme_reads(f"/v2/users/{user_id(acme, 'ann')}", **expand).json()["data"]["activation"]
    assert (ann["state"], ann["activated_on"]) == ("activated", TODAY.isoformat())
    bob = acme_reads(f"/v2/users/{user_id(acme, 'bob')}", **expand).json()["data"]["activation"]
    assert (bob["state"], bob["next_step"]) == ("on_the_way", "Share")
    week_before = (TODAY - timedelta(days=8)).isoformat()
    assert bob["steps"][0] == {"name": "Open", "is_done": True, "done_on": week_before}
