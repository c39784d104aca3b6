"""GET /v2/workspaces/{id}/features, the same for assistants, and features of one record."""

from datetime import timedelta

from engagement.models import Feature, Product
from tests.engagement.history import NOON
from tests.jobs import run_job
from tests.readapi.conftest import Reads
from tests.readapi.scored import TODAY, account_id, fill, user_id
from tests.readapi.test_mcp import Tool, tool
from trends.usage import features
from trends.usage.nights import JOB

__all__ = ["tool"]

YESTERDAY = (TODAY - timedelta(days=1)).isoformat()


def test_features_and_who_uses_them(
    acme: Product, globex_reads: Reads, acme_reads: Reads, tool: Tool
) -> None:
    workspace = fill(acme)
    sharing, printing = (
        Feature.objects.create(product=acme, name=name) for name in ("Sharing", "Printing")
    )
    features.set_events(sharing, ["shared"])
    features.set_events(printing, ["printed"])
    address = f"/v2/workspaces/{workspace.pk}/features"
    uncounted = acme_reads(address).json()["data"][0]
    assert (uncounted["through"], uncounted["used_accounts"]) == (None, None)

    run_job(JOB, NOON)
    own, unused = acme_reads(address).json()["data"]
    assert own == {
        **{"id": sharing.pk, "name": "Sharing", "events": ["shared"], "through": YESTERDAY},
        **{"used_accounts": 1, "active_accounts": 2},
        **{"started_accounts": 1, "stopped_accounts": 0},
    }
    assert (unused["used_accounts"], unused["active_accounts"]) == (0, 2)
    assert tool("list_features", workspace_id=workspace.pk)["data"] == [own, unused]
    assert globex_reads(address).status_code == 404

    expand = {"workspace_id": workspace.pk, "expand": "features"}
    for path, state in (
        (f"/v2/accounts/{account_id(acme, 'initech')}", "used"),
        (f"/v2/users/{user_id(acme, 'ann')}", "used"),
        (f"/v2/users/{user_id(acme, 'bob')}", "never"),
    ):
        own_features = acme_reads(path, **expand).json()["data"]["features"]
        states = {each["name"]: each["state"] for each in own_features}
        assert states == {"Sharing": state, "Printing": "never"}
    # Today counts, too.
    record = acme_reads(f"/v2/users/{user_id(acme, 'ann')}", **expand).json()["data"]
    assert record["features"][0]["last_used_on"] == TODAY.isoformat()
