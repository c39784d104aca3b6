"""Each endpoint takes the parameters that it has and no others; lists may be repeated."""

from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from engagement.models import Workspace
from readapi import views
from readapi.views.base import ReadView
from tests.openapi.conftest import described as described
from tests.openapi.walking import operations
from tests.readapi.conftest import Reads
from tests.readapi.rows import make_account, make_user

ACCEPTED: dict[str, list[str]] = {
    "/v2/workspaces": ["expand", "limit", "offset", "cursor"],
    "/v2/workspaces/{workspace}": ["expand"],
    "/v2/accounts": ["workspace_id", "match_type", "match_value", "limit", "offset", "cursor"],
    "/v2/accounts/{account}": ["workspace_id", "expand"],
    "/v2/users": ["workspace_id", "match_type", "match_value", "limit", "offset", "cursor"],
    "/v2/users/{user}": ["workspace_id", "expand", "traits"],
    "/v2/segments": [
        *("workspace_id", "scope", "exclude_defaults", "expand", "limit", "offset", "cursor")
    ],
    "/v2/segments/{segment}": ["workspace_id"],
    "/v2/segments/{segment}/members": ["workspace_id", "limit", "offset", "cursor"],
    "/v1/accounts": ["workspace_id", "id", "match_type", "match_value", "expand"],
}
# What callers took for filters, and parameters of other endpoints.
UNKNOWN = [
    *("email", "account_id", "segment_id", "sort", "page", "q", "format", "Limit", "é", ""),
    *("traits", "id", "scope", "workspace_id", "match_type", "cursor", "exclude_defaults"),
]


@pytest.fixture
def ids(workspace: Workspace) -> dict[str, int]:
    account = make_account(workspace, "initech", 3, traits={"domain": "initech.example"})
    user = make_user(workspace, "u-1", 3, traits={"email": "a@b.example", "b": 1})
    segment = workspace.segments.order_by("pk")[0]
    return {
        "workspace": workspace.pk,
        "account": account.pk,
        "user": user.pk,
        "segment": segment.pk,
    }


def asked(template: str, ids: dict[str, int]) -> dict[str, Any]:
    """What the endpoint is asked at least."""
    found: dict[str, Any] = {}
    if "workspace_id" in ACCEPTED[template]:
        found["workspace_id"] = ids["workspace"]
    if template == "/v1/accounts":
        found["id"] = ids["account"]
    return found


@pytest.mark.parametrize("template", ACCEPTED)
def test_an_unknown_parameter_is_refused_with_the_accepted_ones(
    template: str, acme_reads: Reads, ids: dict[str, int]
) -> None:
    address = template.format(**ids)
    assert acme_reads(address, **asked(template, ids)).status_code == 200
    for name in UNKNOWN:
        if name in ACCEPTED[template]:
            continue
        response = acme_reads(address, **asked(template, ids), **{name: "1"})
        assert response.status_code == 400, name
        error = response.json()["error"]
        assert (error["code"], error["field"]) == ("unknown_parameter", name)
        assert error["message"] == (
            f"Unknown parameter. This endpoint accepts: {', '.join(ACCEPTED[template])}."
        )


def test_a_look_up_by_a_parameter_that_does_not_exist_answers_with_nobody(
    acme_reads: Reads, ids: dict[str, int]
) -> None:
    for filter in ({"email": "a@b.example"}, {"account_id": ids["account"]}):
        response = acme_reads("/v2/users", workspace_id=ids["workspace"], **filter)
        assert response.status_code == 400
        assert "data" not in response.json()


def test_head_is_held_to_the_same(acme_token: str, client: Any) -> None:
    headers = {"authorization": f"Bearer {acme_token}"}
    assert client.head("/v2/workspaces?page=2", headers=headers).status_code == 400


def test_the_description_has_what_the_endpoints_accept(described: dict[str, Any]) -> None:
    told = {
        path: {one["name"] for one in said["parameters"] if one["in"] == "query"}
        for method, path, said in operations(described)
        if method == "get"
    }
    assert told == {
        template.replace("}", "_id}"): set(names) for template, names in ACCEPTED.items()
    }
    shown = [view for name in views.__all__ if issubclass(view := getattr(views, name), ReadView)]
    assert sorted(map(sorted, told.values())) == sorted(sorted(view.PARAMETERS) for view in shown)


@pytest.mark.parametrize(
    ("query", "expansions"),
    [
        ("expand=traits&expand=history", ["traits", "history"]),
        ("expand=traits,events&expand=history&expand=traits", ["traits", "events", "history"]),
        ("expand=&expand=traits", ["traits"]),
    ],
)
def test_expand_may_be_repeated_as_generated_clients_do(
    query: str, expansions: list[str], acme_reads: Reads, ids: dict[str, int]
) -> None:
    for template in ("/v2/accounts/{account}", "/v2/users/{user}"):
        scope = urlencode(asked(template, ids))
        response = acme_reads(f"{template.format(**ids)}?{scope}&{query}")
        assert response.status_code == 200, response.content
        assert response.json()["_expansions"] == expansions


def test_traits_may_be_repeated(acme_reads: Reads, ids: dict[str, int]) -> None:
    address = f"/v2/users/{ids['user']}?workspace_id={ids['workspace']}&expand=traits"
    body = acme_reads(f"{address}&traits=email&traits=b,none").json()
    assert body["data"]["traits"] == {"email": "a@b.example", "b": 1, "none": None}
    nine = "".join(f"&traits={name}" for name in "abcdefghi")
    assert acme_reads(address + nine).json()["error"]["code"] == "too_many_traits"


@pytest.mark.parametrize("name", ["workspace_id", "limit", "match_type", "match_value", "cursor"])
def test_no_other_parameter_may_be_repeated(
    name: str, acme_reads: Reads, ids: dict[str, int]
) -> None:
    response = acme_reads(f"/v2/users?{name}=1&{name}=1")
    error = response.json()["error"]
    assert (error["code"], error["field"]) == ("invalid_parameter", name)


def test_links_to_other_pages_carry_accepted_parameters_only(
    acme_reads: Reads, ids: dict[str, int]
) -> None:
    first = acme_reads(
        f"/v2/segments?workspace_id={ids['workspace']}&limit=2&expand=counts&expand=counts"
    ).json()
    second = acme_reads(first["_links"]["next"])
    assert second.status_code == 200
    links = second.json()["_links"]
    for link in (first["_links"]["next"], links["next"], links["prev"]):
        assert set(parse_qs(urlsplit(link).query)) <= set(ACCEPTED["/v2/segments"])
        assert acme_reads(link).json()["_expansions"] == ["counts"]
