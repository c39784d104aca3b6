"""The simulator responds like the marketplace, and simulates its faults on request."""

import json
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest
import requests
from django.core.management import CommandError, call_command

from harness.marketplace import records, reports
from harness.marketplace.faults import (
    ConnectionDrop,
    Endpoint,
    ErrorStatus,
    Fault,
    HtmlPage,
    IncompleteBody,
    Latency,
    NextLink,
    OversizedBody,
    PaginationDrift,
    Redirect,
    TruncatedJson,
    UnexpectedJson,
)
from harness.marketplace.feed import Feed
from harness.marketplace.server import Simulator
from harness.marketplace.vendor import create_vendor

TODAY = date(2026, 9, 24)
REST = "/marketplace/rest/3"


class Caller:
    """Sends requests to the simulator with its credentials."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        owner = simulator.vendor
        self.session = requests.Session()
        self.session.auth = (owner.user_name, owner.token)
        self.listing = f"{REST}/product-listing/developer-space/{owner.developer_id}"
        self.reporting = f"{REST}/reporting/developer-space/{owner.developer_id}/licenses"
        self.vendor = f"{REST}/developer-space/vendor/{owner.vendor_id}"

    def get(self, path: str, **parameters: Any) -> requests.Response:
        address = self.simulator.url + path
        return self.session.get(address, params=parameters, timeout=10, allow_redirects=False)

    def page(self, **parameters: Any) -> list[Any]:
        answer = self.get(self.reporting, **{"withDataInsights": "true", **parameters})
        assert answer.status_code == 200, answer.text
        rows: list[Any] = answer.json()["licenses"]
        return rows

    def pages(self, **parameters: Any) -> Iterator[list[Any]]:
        offset, has_more = 0, True
        while has_more:
            answer = self.get(self.reporting, offset=offset, **parameters).json()
            yield answer["licenses"]
            offset, has_more = offset + 50, "next" in answer["_links"]

    def tell(self, what: str, body: Any = None) -> requests.Response:
        data = body if isinstance(body, str) else json.dumps(body)
        return requests.post(f"{self.simulator.url}/simulator/{what}", data=data, timeout=10)


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with Simulator.with_licenses(330, today=TODAY) as served:
        yield served


@pytest.fixture
def caller(simulator: Simulator) -> Iterator[Caller]:
    caller = Caller(simulator)
    with caller.session:
        yield caller


# --- The three addresses ------------------------------------------------------------------------


def test_a_vendor_has_a_developer_id(caller: Caller) -> None:
    assert caller.get(caller.vendor).json() == {"developerId": caller.simulator.vendor.developer_id}
    assert caller.get(f"{REST}/developer-space/vendor/99999999").status_code == 404


def test_the_cursor_of_the_listing_repeats_the_parameters(caller: Caller) -> None:
    first = caller.get(caller.listing, limit=50, includePrivate="true").json()
    link = first["links"]["next"]
    assert link.startswith("/rest/3/product-listing/")
    last = caller.get(f"/marketplace{link}").json()
    assert "next" not in last["links"]
    names = [item["appName"] for item in [*first["items"], *last["items"]]]
    assert names == [app.name for app in caller.simulator.vendor.apps]


def test_private_apps_are_listed_on_request_only(caller: Caller) -> None:
    listed = caller.get(caller.listing).json()["items"]
    assert {item["state"] for item in listed} == {"PUBLIC"}


def test_licenses_come_in_pages_with_unreliable_links(caller: Caller) -> None:
    first = caller.get(caller.reporting).json()
    assert len(first["licenses"]) == 50
    href = first["_links"]["next"]["href"]
    assert caller.get(f"/marketplace{href}").status_code == 404
    sizes = [len(page) for page in caller.pages()]
    assert sizes[:-1] == [50] * (len(sizes) - 1) and 0 < sizes[-1] <= 50


def test_a_page_after_the_last_is_empty(caller: Caller) -> None:
    assert caller.page(offset=10_000) == []


@pytest.mark.parametrize(
    "parameters",
    [
        {"limit": 51},
        {"limit": 0},
        {"offset": -1},
        {"offset": "x"},
        {"lastUpdated": "soon"},
        {"cloudComplianceBoundaries": "none"},
    ],
)
def test_parameters_that_the_marketplace_rejects(caller: Caller, parameters: Any) -> None:
    assert caller.get(caller.reporting, **parameters).status_code == 400


def test_unknown_parameters_are_ignored(caller: Caller) -> None:
    assert caller.page(colour="red") == caller.page()


def test_only_licenses_of_the_requested_app(caller: Caller) -> None:
    other = caller.simulator.vendor.apps[1].product_id
    mine = caller.page()[0]
    caller.simulator.feed.add({**mine, "productId": other}, at=0)
    assert [row["productId"] for row in caller.page(productId=other)] == [other]
    assert other not in [row["productId"] for row in caller.page(productId=mine["productId"])]


def test_a_leaking_record_passes_every_filter(caller: Caller) -> None:
    other = caller.simulator.vendor.apps[1].product_id
    caller.simulator.feed.add({"productId": other, "lastUpdated": "2001-01-01"}, at=0, leaks=True)
    parameters = {"productId": caller.simulator.vendor.app.product_id, "lastUpdated": "2026-09-20"}
    assert caller.page(**parameters)[0]["productId"] == other


def test_last_updated_means_on_or_after_that_day(caller: Caller) -> None:
    since = (TODAY - timedelta(days=5)).isoformat()
    recent = caller.page(lastUpdated=since)
    everything = [row for page in caller.pages() for row in page]
    assert 0 < len(recent) < len(everything)
    expected = [row["appEntitlementNumber"] for row in everything if row["lastUpdated"] >= since]
    assert [row["appEntitlementNumber"] for row in recent] == expected


def test_always_free_licenses_come_alone_and_on_request_only(caller: Caller) -> None:
    free = caller.page(showLifeTimeFreeLicenses="true")
    assert {row["licenseType"] for row in free} == {"FREE"}
    assert all(row["licenseType"] != "FREE" for page in caller.pages() for row in page)


def test_always_free_licenses_may_come_with_the_others() -> None:
    owner = create_vendor()
    feed = Feed(reports.generate_licenses(owner, 1, 600, TODAY))
    with Simulator(feed, owner, mixes_passes=True) as simulator:
        caller = Caller(simulator)
        with caller.session:
            rows = [row for page in caller.pages(showLifeTimeFreeLicenses="true") for row in page]
    assert len({row["licenseType"] for row in rows}) > 1
    assert any(row["licenseType"] == "FREE" for row in rows)


@pytest.mark.parametrize("boundary", ["fedramp_moderate", "isolated_cloud"])
def test_special_clouds_come_on_request_only(caller: Caller, boundary: str) -> None:
    kind = {"fedramp_moderate": "government", "isolated_cloud": "isolated"}[boundary]
    mine = {**caller.page()[0], "cloudId": "there"}
    caller.simulator.feed.add(records.add_oddity(mine, kind), at=0)
    assert "there" in [
        row.get("cloudId") for row in caller.page(cloudComplianceBoundaries=boundary)
    ]
    assert "there" not in [row.get("cloudId") for row in caller.page()]


def test_data_insights_come_on_request_only(caller: Caller) -> None:
    assert "parentProductName" in caller.page()[0]
    assert "parentProductName" not in caller.page(withDataInsights="false")[0]


@pytest.mark.parametrize("credentials", [None, ("reports@lumenworks.example", "wrong")])
def test_every_endpoint_returns_401_without_valid_credentials(
    caller: Caller, credentials: Any
) -> None:
    for path in (caller.vendor, caller.listing, caller.reporting, "/elsewhere"):
        answer = requests.get(caller.simulator.url + path, auth=credentials, timeout=10)
        assert answer.status_code == 401


def test_another_developer_space_is_forbidden(caller: Caller) -> None:
    mine = caller.simulator.vendor.developer_id
    for path in (caller.listing, caller.reporting):
        assert caller.get(path.replace(mine, "somebody")).status_code == 403


def test_requests_are_recorded_without_credentials(caller: Caller) -> None:
    caller.get(caller.reporting, offset=50)
    request = caller.simulator.requests[-1]
    assert (request.endpoint, request.offset, request.status) == (Endpoint.LICENSES, 50, 200)
    assert "User-Agent" in request.headers and "Authorization" not in request.headers


# --- The data -----------------------------------------------------------------------------------


def test_the_same_seed_and_day_generate_the_same_licenses() -> None:
    def generated(seed: int) -> list[Any]:
        return list(reports.generate_licenses(create_vendor(seed), seed, 300, TODAY))

    def numbers(rows: list[Any]) -> set[str]:
        return {row["appEntitlementNumber"] for row in rows}

    assert generated(1) == generated(1)
    assert not numbers(generated(1)) & numbers(generated(2))
    assert create_vendor(1) != create_vendor(2)


def test_the_name_of_a_site_does_not_depend_on_the_number_of_licenses() -> None:
    few = list(reports.generate_licenses(create_vendor(), 1, 20, TODAY))
    many = list(reports.generate_licenses(create_vendor(), 1, 200, TODAY))
    assert many[:20] == few
    assert few[0]["cloudId"] == records.create_site(1, 0).cloud_id


def test_generated_licenses_contain_every_oddity_and_sites_with_two_licenses() -> None:
    rows = list(reports.generate_licenses(create_vendor(), 1, 1000, TODAY))
    assert len(rows) == 1000
    for kind, fields in records.ODDITIES.items():
        values = {name: value for name, value in fields.items() if value is not records.MISSING}
        assert any(values.items() <= row.items() for row in rows if values), kind
    sites = [row["cloudId"] for row in rows if (row.get("cloudId") or "").strip()]
    assert len(set(sites)) < len(sites)


def test_invalid_records_are_served_unchanged(caller: Caller) -> None:
    caller.simulator.feed.add(*records.MALFORMED, at=0)
    assert caller.page()[: len(records.MALFORMED)] == records.MALFORMED


def test_the_feed_can_change_at_run_time(caller: Caller) -> None:
    feed = caller.simulator.feed
    before = caller.page()
    assert feed.touch(2, TODAY, tier="9 Users") == caller.page()[:2]
    assert [row["tier"] for row in caller.page(lastUpdated=TODAY.isoformat())][:2] == [
        "9 Users"
    ] * 2
    feed.remove(0)
    assert caller.page()[1:] != before[1:]
    assert caller.page()[0]["cloudId"] == before[1]["cloudId"]


# --- Misbehaving --------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403, 404, 410, 429, 500, 502, 503])
def test_error_status(caller: Caller, status: int) -> None:
    caller.simulator.add_faults(ErrorStatus(status=status))
    answer = caller.get(caller.vendor)
    assert answer.status_code == status
    assert answer.json()


@pytest.mark.parametrize("wait", ["7", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_rate_limit_sends_retry_after_in_both_formats(caller: Caller, wait: str) -> None:
    caller.simulator.add_faults(ErrorStatus(status=429, retry_after=wait))
    assert caller.get(caller.vendor).headers["Retry-After"] == wait


def test_a_fault_affects_its_endpoint_and_page_a_number_of_times(caller: Caller) -> None:
    caller.simulator.add_faults(
        ErrorStatus(status=503, on=Endpoint.LICENSES, offset=50, after=1, times=2)
    )
    assert caller.get(caller.vendor).status_code == 200
    assert caller.get(caller.reporting, offset=0).status_code == 200
    statuses = [caller.get(caller.reporting, offset=50).status_code for _ in range(4)]
    assert statuses == [200, 503, 503, 200]


def test_all_faults_are_removed_together(caller: Caller) -> None:
    caller.simulator.add_faults(ErrorStatus(status=500), Latency(seconds=0))
    caller.simulator.clear_faults()
    assert caller.get(caller.vendor).status_code == 200


def test_html_page(caller: Caller) -> None:
    caller.simulator.add_faults(HtmlPage())
    answer = caller.get(caller.reporting)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/html") and "<title>" in answer.text


def test_truncated_json(caller: Caller) -> None:
    caller.simulator.add_faults(TruncatedJson())
    with pytest.raises(ValueError):
        caller.get(caller.reporting).json()


@pytest.mark.parametrize("fault", [IncompleteBody(), ConnectionDrop()])
def test_incomplete_body_and_connection_drop(caller: Caller, fault: Fault) -> None:
    caller.simulator.add_faults(fault)
    with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
        caller.get(caller.reporting)
    caller.simulator.clear_faults()
    assert caller.get(caller.reporting).status_code == 200


@pytest.mark.parametrize("value", [[], "text", {"licenses": "none"}, None])
def test_unexpected_json(caller: Caller, value: Any) -> None:
    caller.simulator.add_faults(UnexpectedJson(value=value))
    assert caller.get(caller.reporting).json() == value


def test_oversized_body_plain_and_compressed(caller: Caller) -> None:
    for packed in (False, True):
        caller.simulator.clear_faults()
        caller.simulator.add_faults(OversizedBody(megabytes=2, packed=packed))
        answer = caller.get(caller.vendor)
        assert len(answer.content) > 2 * 1024 * 1024
        length = int(answer.headers["Content-Length"])
        assert (length < 10_000) is packed


def test_redirect(caller: Caller) -> None:
    caller.simulator.add_faults(Redirect(to="http://127.0.0.1:9/"))
    answer = caller.get(caller.vendor)
    assert (answer.status_code, answer.headers["Location"]) == (302, "http://127.0.0.1:9/")


@pytest.mark.parametrize("link", ["//evil.example/", "/../../admin", 7, "/rest/3/x\r\n"])
def test_next_link(caller: Caller, link: Any) -> None:
    caller.simulator.add_faults(NextLink(link=link))
    assert caller.get(caller.listing).json()["links"]["next"] == link
    assert caller.get(caller.reporting).json()["_links"]["next"] == {"href": link}


def test_pagination_drift(caller: Caller) -> None:
    straight = caller.page(offset=50)
    caller.simulator.add_faults(PaginationDrift(rows=3))
    assert caller.page(offset=50)[3:] == straight[:-3]
    caller.simulator.clear_faults()
    caller.simulator.add_faults(PaginationDrift(rows=50))
    assert caller.page(offset=50) == caller.page(offset=0)


# --- From another process -----------------------------------------------------------------------


def test_the_control_endpoints_change_the_simulator(caller: Caller) -> None:
    response = caller.tell("misbehave", {"fault": "status", "status": 429, "retry_after": "5"})
    assert response.status_code == 200
    assert caller.get(caller.vendor).status_code == 429
    caller.tell("behave")
    assert caller.get(caller.vendor).status_code == 200
    caller.tell("touch", {"licenses": 3, "on": "2027-01-01", "fields": {"tier": "7 Users"}})
    assert [row["tier"] for row in caller.page(lastUpdated="2027-01-01")] == ["7 Users"] * 3


def test_the_token_can_be_replaced_at_run_time(caller: Caller) -> None:
    token = caller.tell("replace-token").json()["token"]
    assert caller.get(caller.vendor).status_code == 401
    caller.session.auth = (caller.simulator.vendor.user_name, token)
    assert caller.get(caller.vendor).status_code == 200


@pytest.mark.parametrize(
    "body", ['{"fault": "unheard-of"}', '{"fault": "status"}', "{", '{"fault": "html", "x": 1}']
)
def test_invalid_control_requests_change_nothing(caller: Caller, body: str) -> None:
    assert caller.tell("misbehave", body).status_code == 400
    assert caller.get(caller.vendor).status_code == 200
    assert caller.tell("something-else").status_code == 404


def test_the_command_explains_that_its_port_is_in_use(simulator: Simulator) -> None:
    port = int(simulator.url.rpartition(":")[2])
    with pytest.raises(CommandError, match=f"Cannot listen on port {port}.*--port"):
        call_command("marketplace_simulator", port=port, licenses=1)
