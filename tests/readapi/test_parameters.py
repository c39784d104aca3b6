"""Each endpoint accepts only its own parameters. Lists may be repeated."""

from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from engagement.models import Workspace
from readapi import views
from readapi.views.base import ReadView
from tests.cases import each
from tests.openapi.conftest import described as described
from tests.openapi.walking import operations
from tests.readapi.conftest import Reads
from tests.readapi.rows import make_account, make_user

PAGING = ["limit", "offset", "cursor"]
COMMON = ["min_score", "trait", "sort", "expand", "traits", "total"]
CHANGES = [*COMMON, "changed_since", *PAGING]
LOOK_UP = ["match_type", "match_value", "tracking_id", "name"]
ACCEPTED: dict[str, list[str]] = {
    "/v2/workspaces": ["expand", "limit", "offset", "cursor"],
    "/v2/license-events": [
        *("account_id", "type", "since", "until", "withdrawn", "changed_since"),
        *PAGING,
    ],
    "/v2/workspaces/{workspace}": ["expand"],
    "/v2/workspaces/{workspace}/backtests": PAGING,
    "/v2/workspaces/{workspace}/features": PAGING,
    "/v2/workspaces/{workspace}/forecasts": PAGING,
    "/v2/workspaces/{workspace}/trends": ["from", "to", "interval", "segment_id", *PAGING],
    "/v2/workspaces/{workspace}/activation": ["subjects"],
    "/v2/workspaces/{workspace}/cohorts": ["subjects", "event", "by", *PAGING],
    "/v2/workspaces/{workspace}/chances": ["kind", "order", *PAGING],
    "/v2/workspaces/{workspace}/changes": ["period", "segment_id"],
    "/v2/accounts": [
        "workspace_id",
        *LOOK_UP,
        "domain",
        "segment_id",
        "owner",
        "tag",
        "insight",
        "activity",
        "license_event",
        "license_event_days",
        *CHANGES,
    ],
    "/v2/accounts/{account}": ["workspace_id", "expand", "traits"],
    "/v2/accounts/{account}/users": ["workspace_id", *COMMON, *PAGING],
    "/v2/accounts/{account}/timeline": ["workspace_id", "kinds", *PAGING],
    "/v2/users": ["workspace_id", *LOOK_UP, "email", "segment_id", *CHANGES],
    "/v2/users/{user}": ["workspace_id", "expand", "traits"],
    "/v2/users/{user}/timeline": ["workspace_id", "kinds", *PAGING],
    "/v2/segments": [
        *("workspace_id", "scope", "exclude_defaults", "expand", "limit", "offset", "cursor")
    ],
    "/v2/segments/{segment}": ["workspace_id"],
    "/v2/segments/{segment}/members": ["workspace_id", *COMMON, *PAGING],
    "/v1/accounts": ["workspace_id", "id", "match_type", "match_value", "expand"],
}
# Parameters that look like filters, and those of other endpoints.
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


def required_parameters(template: str, ids: dict[str, int]) -> dict[str, Any]:
    """The parameters that the endpoint requires."""
    parameters: dict[str, Any] = {}
    if "workspace_id" in ACCEPTED[template]:
        parameters["workspace_id"] = ids["workspace"]
    if template == "/v1/accounts":
        parameters["id"] = ids["account"]
    return parameters


@each("template", ACCEPTED)
def test_the_error_for_an_unknown_parameter_lists_the_known_ones(
    template: str, acme_reads: Reads, ids: dict[str, int]
) -> None:
    address = template.format(**ids)
    assert acme_reads(address, **required_parameters(template, ids)).status_code == 200
    for name in UNKNOWN:
        if name in ACCEPTED[template]:
            continue
        response = acme_reads(address, **required_parameters(template, ids), **{name: "1"})
        assert response.status_code == 400, name
        error = response.json()["error"]
        assert (error["code"], error["field"]) == ("unknown_parameter", name)
        assert error["message"] == (
            f"Unknown parameter. This endpoint accepts: {', '.join(ACCEPTED[template])}."
        )


def test_an_unknown_filter_returns_no_records(acme_reads: Reads, ids: dict[str, int]) -> None:
    for filter in ({"mail": "a@b.example"}, {"account_id": ids["account"]}):
        response = acme_reads("/v2/users", workspace_id=ids["workspace"], **filter)
        assert response.status_code == 400
        assert "data" not in response.json()


def test_head_checks_parameters_too(acme_token: str, client: Any) -> None:
    headers = {"authorization": f"Bearer {acme_token}"}
    assert client.head("/v2/workspaces?page=2", headers=headers).status_code == 400


def test_the_description_lists_the_accepted_parameters(described: dict[str, Any]) -> None:
    documented = {
        path: {parameter["name"] for parameter in spec["parameters"] if parameter["in"] == "query"}
        for method, path, spec in operations(described)
        if method == "get" and path.startswith("/v") and spec["tags"] != ["Hooks"]
    }
    assert documented == {
        template.replace("}", "_id}"): set(names) for template, names in ACCEPTED.items()
    }
    read_views = [
        view for name in views.__all__ if issubclass(view := getattr(views, name), ReadView)
    ]
    assert sorted(map(sorted, documented.values())) == sorted(
        sorted(view.PARAMETERS) for view in read_views
    )


@pytest.mark.parametrize(
    ("query", "expansions"),
    [
        ("expand=traits&expand=history", ["traits", "history"]),
        ("expand=traits,events&expand=history&expand=traits", ["traits", "events", "history"]),
        ("expand=&expand=traits", ["traits"]),
    ],
)
def test_expand_may_be_repeated(
    query: str, expansions: list[str], acme_reads: Reads, ids: dict[str, int]
) -> None:
    for template in ("/v2/accounts/{account}", "/v2/users/{user}"):
        scope = urlencode(required_parameters(template, ids))
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


def test_page_links_have_accepted_parameters_only(acme_reads: Reads, ids: dict[str, int]) -> None:
    first = acme_reads(
        f"/v2/segments?workspace_id={ids['workspace']}&limit=2&expand=counts&expand=counts"
    ).json()
    second = acme_reads(first["_links"]["next"])
    assert second.status_code == 200
    links = second.json()["_links"]
    for link in (first["_links"]["next"], links["next"], links["prev"]):
        assert set(parse_qs(urlsplit(link).query)) <= set(ACCEPTED["/v2/segments"])
        assert acme_reads(link).json()["_expansions"] == ["counts"]
