"""Every address outside the admin with tokens of every kind of rights.

The addresses come from the URL resolver. A new one must be listed here with what it needs.
"""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import URLResolver, get_resolver
from django.utils import timezone
from pytest_django import Settings

from engagement.models import Product, Segment, Workspace
from ingestion.cors import CorsView
from readapi.models import ApiToken
from readapi.rights import is_within, parse_address
from readapi.views.base import ReadView
from tests.admin.conftest import root
from tests.readapi.rows import make_account, make_user

__all__ = ["root"]

# What a token needs to read an address, by the name of its view.
ACCOUNT, USER, ANY, MCP, METRICS = "account", "user", "any", "mcp", "metrics"
READ: dict[str, tuple[str, set[str]]] = {
    "WorkspaceList": ("/v2/workspaces?expand=stats", {ANY}),
    "WorkspaceDetail": ("/v2/workspaces/{workspace}", {ANY}),
    "BacktestList": ("/v2/workspaces/{workspace}/backtests", {ACCOUNT}),
    "FeatureList": ("/v2/workspaces/{workspace}/features", {ACCOUNT}),
    "ActivationDetail": ("/v2/workspaces/{workspace}/activation", {ACCOUNT}),
    "CohortList": ("/v2/workspaces/{workspace}/cohorts", {ACCOUNT}),
    "ForecastList": ("/v2/workspaces/{workspace}/forecasts", {ACCOUNT}),
    "TrendList": ("/v2/workspaces/{workspace}/trends", {ANY}),
    "ChanceList": ("/v2/workspaces/{workspace}/chances", {ACCOUNT}),
    "ChangesDetail": ("/v2/workspaces/{workspace}/changes", {ACCOUNT}),
    "AccountList": ("/v2/accounts?workspace_id={workspace}&expand=traits,metrics", {ACCOUNT}),
    "AccountDetail": (
        "/v2/accounts/{account}?workspace_id={workspace}"
        "&expand=insights,traits,segments,events,history,license_events,chances",
        {ACCOUNT},
    ),
    "AccountUsers": ("/v2/accounts/{account}/users?workspace_id={workspace}", {ACCOUNT, USER}),
    "AccountTimeline": ("/v2/accounts/{account}/timeline?workspace_id={workspace}", {ACCOUNT}),
    "UserList": ("/v2/users?workspace_id={workspace}&expand=metrics", {USER}),
    "UserDetail": (
        "/v2/users/{user}?workspace_id={workspace}&expand=segments,events,history",
        {USER},
    ),
    "UserTimeline": ("/v2/users/{user}/timeline?workspace_id={workspace}", {ACCOUNT, USER}),
    "SegmentList": ("/v2/segments?workspace_id={workspace}&expand=counts", {ANY}),
    "SegmentDetail": ("/v2/segments/{segment}?workspace_id={workspace}", {ANY}),
    "SegmentMembers": ("/v2/segments/{segment}/members?workspace_id={workspace}", {USER}),
    "LicenseEventList": ("/v2/license-events", {ACCOUNT}),
    "LegacyAccountView": (
        "/v1/accounts?workspace_id={workspace}&id={account}&expand=insights,traits",
        {ACCOUNT},
    ),
    "McpView": ("/mcp", {MCP}),
    "metrics": ("/metrics", {METRICS}),
}
# They take no token: keys decide in the background, or everybody may see them.
NEEDS_NO_TOKEN = {
    *("sdk", "chunk", "UnknownPathView", "openapi", "docs", "guides", "guide"),
    *("healthz", "readyz", "other_release", "RedirectView"),
    # An invite, or the link of an email, is the credential.
    *("invite_view", "ConfirmEmailView", "UnsubscribeView"),
}
# For tokens of their own (tests/notifications/test_hooks.py).
HOOKS = {"HookList", "HookDetail", "HookSamples"}
PLANTED = "planted.person@initech.example"


@pytest.fixture
def ids(workspace: Workspace) -> dict[str, int]:
    account = make_account(workspace, "initech", 5, traits={"name": "Initech"}, active_users=1)
    user = make_user(
        workspace,
        "u-1",
        5,
        traits={"email": PLANTED, "name": PLANTED, "plan": "pro"},
        account=account,
    )
    segment = Segment.objects.get(workspace=workspace, scope="user", name="All")
    return {
        "workspace": workspace.pk,
        "account": account.pk,
        "user": user.pk,
        "segment": segment.pk,
    }


def with_token(product: Product, **rights: Any) -> Client:
    token = ApiToken.create(product, "test", **rights)
    return Client(headers={"authorization": f"Bearer {token.secret}"})


def status(client: Client, address: str) -> tuple[int, Any]:
    if address == "/mcp":
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        response = client.post(address, ping, content_type="application/json")
    else:
        response = client.get(address)
    return response.status_code, response


def granted(rights: dict[str, Any]) -> set[str]:
    """What these rights are said to allow."""
    reads = rights.get("reads", "all")
    kinds = {"all": {ACCOUNT, USER, ANY}, "accounts": {ACCOUNT, ANY}, "users": {USER, ANY}}
    allowed = set(kinds.get(reads, ()))
    if rights.get("may_use_mcp", True):
        allowed.add(MCP)
    if rights.get("may_read_metrics", False):
        allowed.add(METRICS)
    return allowed


def test_every_address_is_listed_with_what_it_needs() -> None:
    for pattern in get_resolver().url_patterns:
        if isinstance(pattern, URLResolver):
            assert pattern.app_name == "admin", "The admin has a matrix of its own."
            continue
        view: Any = getattr(pattern.callback, "view_class", None) or getattr(
            pattern.callback, "cls", pattern.callback
        )
        is_door = isinstance(view, type) and issubclass(view, CorsView)
        name = view.__name__
        assert is_door or name in {*READ, *NEEDS_NO_TOKEN, *HOOKS}, (
            f"Say in READ what a token needs for {pattern.pattern} ({name})."
        )
    views = ReadView.__subclasses__()
    for view in views:
        views += view.__subclasses__()
        assert hasattr(view, "READS") or view.__name__ in ("RankingView", "RankedList"), view


@pytest.mark.slow
def test_each_address_with_each_kind_of_rights(
    acme: Product, globex: Product, ids: dict[str, int], settings: Settings
) -> None:
    settings.READ_REQUESTS_PER_MINUTE = 0
    now, day = timezone.now(), timedelta(days=1)
    by_reading: list[dict[str, Any]] = [
        {},
        {"reads": "accounts"},
        {"reads": "users"},
        {"reads": "nothing"},
        {"reads": "nothing", "may_use_mcp": False, "may_read_metrics": True},
        {"hides_user_traits": True},
        {"may_use_mcp": False},
        {"may_read_metrics": True},
        {"workspace_ids": [ids["workspace"]]},
        {"networks": ["127.0.0.0/8", "2001:db8::/32"]},
        {"expires_at": now + day},
    ]
    refused: list[tuple[dict[str, Any], int]] = [
        ({"networks": ["198.51.100.0/24"]}, 403),
        ({"expires_at": now - day}, 401),
        ({"revoked_at": now}, 401),
    ]
    for rights in by_reading:
        client = with_token(acme, **rights)
        for address, needs in READ.values():
            expect(client, address.format(**ids), 200 if needs <= granted(rights) else 403, rights)
    for rights, code in refused:
        client = with_token(acme, **rights)
        for address, _ in READ.values():
            expect(client, address.format(**ids), code, rights)
    elsewhere = with_token(acme, workspace_ids=[ids["workspace"] + 1])
    stranger = with_token(globex)
    for address, _ in READ.values():
        if "{" in address:
            expect(elsewhere, address.format(**ids), 403, "another workspace")
            expect(stranger, address.format(**ids), 404, "another product")


def test_neither_a_session_nor_an_ingestion_key_reads(
    root: Client, acme_key: str, ids: dict[str, int]
) -> None:
    key = Client(headers={"authorization": f"Bearer {acme_key}"})
    for client in (root, key):
        for address, _ in READ.values():
            # Without a token, /metrics is off.
            expect(client, address.format(**ids), 404 if address == "/metrics" else 401, "none")


def expect(client: Client, address: str, code: int, rights: Any) -> None:
    status_code, response = status(client, address)
    case = (rights, address, response.content[:200])
    assert status_code == code, case
    if code == 403 and address != "/metrics":
        error = response.json()["error"]
        assert error["code"] in ("insufficient_rights", "address_not_allowed"), case
        assert error["message"].endswith("."), case
    if rights in ({"hides_user_traits": True}, {"reads": "accounts"}):
        assert PLANTED.encode() not in response.content, case


def test_a_token_lists_its_workspaces_only(acme: Product, workspace: Workspace) -> None:
    Workspace.objects.create(product=acme, name="Other")
    client = with_token(acme, workspace_ids=[workspace.pk])
    assert [row["id"] for row in client.get("/v2/workspaces").json()["data"]] == [workspace.pk]


def test_without_traits_of_users_nothing_shows_or_compares_them(
    acme: Product, ids: dict[str, int]
) -> None:
    client = with_token(acme, hides_user_traits=True)
    users, members = "/v2/users?workspace_id={workspace}", "/v2/segments/{segment}/members"
    for address in (
        f"{users}&expand=traits",
        f"{users}&email={PLANTED}",
        f"{users}&name={PLANTED}",
        f"{users}&trait=plan:pro",
        f"{users}&sort=-name",
        f"{users}&match_type=email&match_value={PLANTED}",
        f"{members}?workspace_id={{workspace}}&expand=traits",
        f"{members}?workspace_id={{workspace}}&trait=plan:pro",
        "/v2/users/{user}?workspace_id={workspace}&expand=traits",
    ):
        response = client.get(address.format(**ids))
        assert response.status_code == 403, address
        assert "traits of users" in response.json()["error"]["message"]
    body = client.get(f"{users}&match_type=tracking_id&match_value=u-1".format(**ids)).json()
    assert [(row["email"], row["name"]) for row in body["data"]] == [(None, None)]
    # Accounts are no people.
    accounts = client.get("/v2/accounts?workspace_id={workspace}&expand=traits".format(**ids))
    assert accounts.json()["data"][0]["traits"] == {"name": "Initech"}


def test_the_tools_for_assistants_have_the_same_rights(acme: Product, ids: dict[str, int]) -> None:
    def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
        params = {"name": name, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        response = client.post("/mcp", message, content_type="application/json")
        assert PLANTED.encode() not in response.content
        result: dict[str, Any] = response.json()["result"]
        return result

    accounts_only = with_token(acme, reads="accounts")
    assert call(accounts_only, "find_users")["isError"]
    assert call(accounts_only, "find_users", search="u-1")["isError"]
    assert call(accounts_only, "explain_user", user_id=ids["user"])["isError"]
    assert not call(accounts_only, "explain_account", account_id=ids["account"])["isError"]

    users_only = with_token(acme, reads="users", hides_user_traits=True)
    assert call(users_only, "who_moved")["isError"]
    assert call(users_only, "find_users", search=PLANTED)["isError"]
    assert call(users_only, "explain_user", user_id=ids["user"])["isError"]
    assert call(users_only, "find_users")["structuredContent"]["data"][0]["email"] is None

    elsewhere = with_token(acme, workspace_ids=[ids["workspace"] + 1])
    assert call(elsewhere, "find_accounts")["isError"]
    assert call(elsewhere, "find_accounts", workspace_id=ids["workspace"])["isError"]


def test_addresses_are_understood_as_proxies_write_them() -> None:
    networks = ["203.0.113.0/24", "2001:db8::/32"]
    for address in ("203.0.113.9", "203.0.113.9:4711", "::ffff:203.0.113.9", "[2001:db8::1]:443"):
        assert is_within(address, networks), address
    for address in ("203.0.114.9", "2001:db9::1", "", "unix:", "203.0.113.9.evil.example"):
        assert not is_within(address, networks), address
    assert str(parse_address("2001:db8::1")) == "2001:db8::1"


def test_behind_a_proxy_the_address_is_the_one_that_the_proxy_saw(
    acme: Product, settings: Settings
) -> None:
    client = with_token(acme, networks=["198.51.100.0/24"])
    forged = {"x-forwarded-for": "198.51.100.7"}
    assert client.get("/v2/workspaces", headers=forged).status_code == 403
    settings.CLIENT_ADDRESS_KEY = "HTTP_X_FORWARDED_FOR"
    for addresses, code in (("198.51.100.7", 200), ("198.51.100.7, 192.0.2.1", 403)):
        answer = client.get("/v2/workspaces", headers={"x-forwarded-for": addresses})
        assert answer.status_code == code, addresses
    assert ApiToken.objects.get().last_used_from == "198.51.100.7"


def test_rights_cost_no_statement(
    acme: Product, ids: dict[str, int], django_assert_num_queries: Any
) -> None:
    """The token, the rate limit, and so on, are the same statements with any rights."""
    plain = with_token(acme)
    limited = with_token(
        acme, workspace_ids=[ids["workspace"]], networks=["127.0.0.1"], hides_user_traits=True
    )
    address = "/v2/users?workspace_id={workspace}".format(**ids)
    for client in (plain, limited):
        client.get(address)
        with django_assert_num_queries(3):
            assert client.get(address).status_code == 200
