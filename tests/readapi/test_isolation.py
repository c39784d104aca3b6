"""Records of other products do not exist for a token."""

from typing import Any

import pytest

from engagement.models import Segment, Workspace
from tests.readapi.conftest import Reads
from tests.readapi.rows import make_account, make_user

UNKNOWN = 999_999_999
NOWHERE = {"account": UNKNOWN, "user": UNKNOWN, "segment": UNKNOWN, "account_segment": UNKNOWN}

IN_ACMES_WORKSPACE = [
    "/v2/workspaces/{workspace}",
    "/v2/workspaces/{workspace}?expand=stats",
    "/v2/workspaces/{workspace}/backtests",
    "/v2/workspaces/{workspace}/features",
    "/v2/workspaces/{workspace}/forecasts",
    "/v2/workspaces/{workspace}/trends",
    "/v2/workspaces/{workspace}/activation",
    "/v2/workspaces/{workspace}/cohorts",
    "/v2/workspaces/{workspace}/cohorts?subjects=user&by=plan",
    "/v2/workspaces/{workspace}/chances",
    "/v2/accounts?workspace_id={workspace}",
    "/v2/accounts?workspace_id={workspace}&offset=0&limit=1",
    "/v2/accounts?workspace_id={workspace}&cursor={accounts_cursor}",
    "/v2/accounts?workspace_id={workspace}&match_type=domain&match_value=initech.example",
    "/v2/accounts?workspace_id={workspace}&match_type=name&match_value=Initech",
    "/v2/accounts?workspace_id={workspace}&match_type=tracking_id&match_value=initech",
    "/v2/accounts?workspace_id={workspace}&segment_id={account_segment}&total=true",
    "/v2/accounts?workspace_id={workspace}&expand=traits,metrics&traits=domain&sort=score",
    "/v2/accounts?workspace_id={workspace}&sort=-change&insight=trend_up",
    "/v2/accounts?workspace_id={workspace}&changed_since=start",
    "/v2/users?workspace_id={workspace}&sort=name",
    "/v2/accounts/{account}?workspace_id={workspace}",
    "/v2/accounts/{account}/timeline?workspace_id={workspace}",
    "/v2/workspaces/{workspace}/changes?segment_id={account_segment}",
    "/v2/accounts/{account}/users?workspace_id={workspace}&expand=traits",
    "/v2/accounts/{account}?workspace_id={workspace}"
    "&expand=insights,traits,segments,events,history",
    "/v2/users?workspace_id={workspace}",
    "/v2/users?workspace_id={workspace}&cursor={users_cursor}",
    "/v2/users?workspace_id={workspace}&match_type=email&match_value=milton@initech.example",
    "/v2/users?workspace_id={workspace}&match_type=tracking_id&match_value=u-1",
    "/v2/users?workspace_id={workspace}&match_type=plan&match_value=pro",
    "/v2/users?workspace_id={workspace}&segment_id={segment}&expand=traits,metrics",
    "/v2/users/{user}?workspace_id={workspace}",
    "/v2/users/{user}/timeline?workspace_id={workspace}",
    "/v2/users/{user}?workspace_id={workspace}&expand=traits&traits=plan",
    "/v2/users/{user}?workspace_id={workspace}&expand=segments,events,history",
    "/v2/segments?workspace_id={workspace}&expand=counts",
    "/v2/segments?workspace_id={workspace}&cursor={segments_cursor}",
    "/v2/segments/{segment}?workspace_id={workspace}",
    "/v2/segments/{segment}/members?workspace_id={workspace}",
    "/v2/segments/{segment}/members?workspace_id={workspace}&cursor={members_cursor}",
    "/v1/accounts?workspace_id={workspace}&id={account}",
    "/v1/accounts?workspace_id={workspace}&match_type=domain&match_value=initech.example",
]
ACMES_IDS_IN_GLOBEX_WORKSPACE = [
    "/v2/accounts/{account}?workspace_id={globex_workspace}",
    "/v2/users/{user}?workspace_id={globex_workspace}",
    "/v2/users/{user}/timeline?workspace_id={globex_workspace}",
    "/v2/accounts/{account}/users?workspace_id={globex_workspace}",
    "/v2/accounts/{account}/timeline?workspace_id={globex_workspace}",
    "/v2/workspaces/{globex_workspace}/changes?segment_id={account_segment}",
    "/v2/accounts?workspace_id={globex_workspace}&segment_id={account_segment}",
    "/v2/users?workspace_id={globex_workspace}&segment_id={segment}",
    "/v2/segments/{segment}?workspace_id={globex_workspace}",
    "/v2/segments/{segment}/members?workspace_id={globex_workspace}",
    "/v1/accounts?workspace_id={globex_workspace}&id={account}",
]
LOOK_UPS_IN_GLOBEX_WORKSPACE = [
    "/v2/accounts?workspace_id={globex_workspace}",
    "/v2/accounts?workspace_id={globex_workspace}&match_type=domain&match_value=initech.example",
    "/v2/accounts?workspace_id={globex_workspace}&match_type=name&match_value=Initech",
    "/v2/accounts?workspace_id={globex_workspace}&match_type=tracking_id&match_value=initech",
    "/v2/accounts?workspace_id={globex_workspace}&domain=initech.example",
    "/v2/accounts?workspace_id={globex_workspace}&name=Initech",
    "/v2/accounts?workspace_id={globex_workspace}&tracking_id=initech",
    "/v2/accounts?workspace_id={globex_workspace}&trait=domain:initech.example",
    "/v2/accounts?workspace_id={globex_workspace}&min_score=0",
    "/v2/accounts?workspace_id={globex_workspace}&sort=name",
    "/v2/accounts?workspace_id={globex_workspace}&changed_since=start",
    "/v2/users?workspace_id={globex_workspace}&changed_since=start",
    "/v2/users?workspace_id={globex_workspace}&email=milton@initech.example",
    "/v2/users?workspace_id={globex_workspace}&tracking_id=u-1",
    "/v2/users?workspace_id={globex_workspace}&trait=plan:pro",
    "/v2/users?workspace_id={globex_workspace}",
    "/v2/users?workspace_id={globex_workspace}&match_type=email&match_value=milton@initech.example",
    "/v2/users?workspace_id={globex_workspace}&match_type=tracking_id&match_value=u-1",
    "/v2/users?workspace_id={globex_workspace}&match_type=plan&match_value=pro",
]


@pytest.fixture
def ids(acme_reads: Reads, workspace: Workspace, globex_workspace: Workspace) -> dict[str, Any]:
    """Acme's IDs and cursors. All work with Acme's token."""
    traits = {"name": "Initech", "domain": "initech.example"}
    account = make_account(workspace, "initech", 5, traits=traits)
    make_account(workspace, "initrode", 9)
    traits = {"email": "milton@initech.example", "plan": "pro"}
    user = make_user(workspace, "u-1", 5, traits=traits, account=account)
    make_user(workspace, "u-2", 9)
    segment = Segment.objects.get(workspace=workspace, scope="user", name="All")
    members = f"segments/{segment.pk}/members"
    cursors = {}
    for path in ("accounts", "users", "segments", members):
        first = acme_reads(f"/v2/{path}", workspace_id=workspace.id, limit=1).json()
        kind = path.rpartition("/")[2]
        cursors[f"{kind}_cursor"] = first["_links"]["next"].rpartition("cursor=")[2]
    return {
        "workspace": workspace.id,
        "globex_workspace": globex_workspace.id,
        "account": account.id,
        "user": user.id,
        "segment": segment.pk,
        "account_segment": Segment.objects.get(workspace=workspace, scope="account", name="All").pk,
        **cursors,
    }


def test_another_products_token_gets_the_same_response_as_for_an_unknown_id(
    ids: dict[str, Any], acme_reads: Reads, globex_reads: Reads
) -> None:
    for address in IN_ACMES_WORKSPACE:
        assert acme_reads(address.format(**ids)).status_code == 200, address

        foreign = globex_reads(address.format(**ids))
        nowhere = {**ids, "workspace": UNKNOWN, **NOWHERE}
        unknown = globex_reads(address.format(**nowhere))
        assert foreign.status_code == 404, address
        assert foreign.json()["error"]["code"] == "not_found", address
        if "cursor" not in address:
            assert foreign.content == unknown.content, address


def test_an_id_of_another_product_does_not_exist(ids: dict[str, Any], globex_reads: Reads) -> None:
    for address in ACMES_IDS_IN_GLOBEX_WORKSPACE:
        foreign = globex_reads(address.format(**ids))
        unknown = globex_reads(address.format(**{**ids, **NOWHERE}))
        assert foreign.status_code == 404, address
        assert foreign.content == unknown.content, address


def test_lists_and_look_ups_find_nothing_of_another_product(
    ids: dict[str, Any], globex_reads: Reads
) -> None:
    for address in LOOK_UPS_IN_GLOBEX_WORKSPACE:
        assert globex_reads(address.format(**ids)).json()["data"] == [], address


@pytest.mark.parametrize("kind", ["accounts", "users", "segments"])
def test_another_products_cursor_is_invalid(
    kind: str, ids: dict[str, Any], globex_reads: Reads
) -> None:
    response = globex_reads(
        f"/v2/{kind}",
        workspace_id=ids["globex_workspace"],
        cursor=ids[f"{kind}_cursor"],
    )
    assert response.json()["error"]["code"] == "invalid_cursor"


def test_the_list_of_workspaces_excludes_other_products(
    ids: dict[str, Any], globex_reads: Reads
) -> None:
    listed = globex_reads("/v2/workspaces").json()["data"]
    assert [row["id"] for row in listed] == [ids["globex_workspace"]]


def test_without_a_token_everything_returns_401(ids: dict[str, Any], client: Any) -> None:
    for address in (*IN_ACMES_WORKSPACE, "/v2/workspaces"):
        assert client.get(address.format(**ids)).status_code == 401, address
