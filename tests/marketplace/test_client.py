"""The HTTP client of the marketplace: requests, links, and errors."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
import requests
import responses
from pytest_django import Settings
from responses import matchers

from core.version import VERSION
from marketplace.source import client
from marketplace.source.client import App, Credentials, LicenseQuery, MarketplaceClient, RetryPolicy
from marketplace.source.errors import (
    CredentialsRejected,
    MarketplaceBadRequest,
    MarketplaceError,
    MarketplaceForbidden,
    MarketplaceNotFound,
    MarketplaceUnavailable,
    UnexpectedResponse,
)
from marketplace.source.pages import ReportPage
from marketplace.source.responses import parse_retry_after
from tests.cases import each
from tests.marketplace.connections import NOON

ADDRESS = "https://market.example"
REST = f"{ADDRESS}/marketplace/rest/3"
VENDOR = f"{REST}/developer-space/vendor/1234567"
LISTING = f"{REST}/product-listing/developer-space/dev-1"
LICENSES = f"{REST}/reporting/developer-space/dev-1/licenses"
PLANTED = "planted-token"
QUERY = LicenseQuery("prod-1")


@pytest.fixture
def http() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock() as mocked:
        yield mocked


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def speaker(settings: Settings, slept: list[float]) -> MarketplaceClient:
    settings.MARKETPLACE_API_URL = ADDRESS
    steady = replace(client.BACKOFF, jitter=0.0)
    retry_policy = RetryPolicy(
        4, 5.0, 60.0, 120.0, sleep=slept.append, now=lambda: NOON, backoff=steady
    )
    return client.create_client(Credentials("me@example.com", PLANTED), retry_policy)


# --- What is sent ---------------------------------------------------------------------------


def test_a_request_sends_basic_authentication_and_accepts_json(
    http: responses.RequestsMock, speaker: MarketplaceClient
) -> None:
    http.get(VENDOR, json={"developerId": "dev-1"})
    assert speaker.developer_id("1234567") == "dev-1"
    request = http.calls[0].request
    expected = base64.b64encode(b"me@example.com:planted-token").decode()
    assert request.headers["Authorization"] == f"Basic {expected}"
    assert request.headers["Accept"] == "application/json"
    assert request.headers["User-Agent"] == f"engagement-data-service/{VERSION}"
    assert request.req_kwargs["timeout"] == (5.0, 5.0)  # type: ignore[attr-defined]
    assert request.req_kwargs["stream"] is True  # type: ignore[attr-defined]


def test_credentials_may_contain_any_characters() -> None:
    encoded = Credentials("söhne@example.com", "п").header().removeprefix("Basic ")
    assert base64.b64decode(encoded).decode() == "söhne@example.com:п"


def test_the_repr_of_credentials_hides_the_token() -> None:
    assert PLANTED not in repr(Credentials("me", PLANTED))


def test_a_session_ignores_the_environment_and_cookies(
    http: responses.RequestsMock, speaker: MarketplaceClient
) -> None:
    session = client.new_session()
    assert session.trust_env is False
    http.get(VENDOR, json={"developerId": "dev-1"}, headers={"Set-Cookie": "a=b; Path=/"})
    session.get(VENDOR)
    assert len(session.cookies) == 0


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        (QUERY, {}),
        (LicenseQuery("prod-1", updated_since=date(2026, 9, 19)), {"lastUpdated": "2026-09-19"}),
        (LicenseQuery("prod-1", always_free=True), {"showLifeTimeFreeLicenses": "true"}),
        (LicenseQuery("prod-1", boundary="isolated"), {"cloudComplianceBoundaries": "isolated"}),
    ],
)
def test_the_parameters_of_a_page_of_licenses(
    http: responses.RequestsMock,
    speaker: MarketplaceClient,
    query: LicenseQuery,
    parameters: dict[str, str],
) -> None:
    common = {"productId": "prod-1", "withDataInsights": "true", "limit": "50", "offset": "100"}
    exactly = matchers.query_param_matcher({**common, **parameters})
    http.get(LICENSES, match=[exactly], json={"licenses": [], "_links": {}})
    assert speaker.licenses("dev-1", query, 100) == ReportPage([], has_more=False)


def test_an_identifier_cannot_change_the_path(
    http: responses.RequestsMock, speaker: MarketplaceClient
) -> None:
    http.get(f"{REST}/developer-space/vendor/..%2F..%2Fx%3Fy", json={"developerId": "dev-1"})
    assert speaker.developer_id("../../x?y") == "dev-1"


# --- Licenses -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("links", "has_more"),
    [
        ({"next": {"href": "/rest/1.0/somewhere/else"}}, True),
        ({"next": {"href": "https://evil.example"}}, True),
        ({"next": "text"}, True),
        ({"next": None}, False),
        ({"next": {}}, False),
        ({"self": {"href": "/x"}}, False),
        ({}, False),
        (None, False),
    ],
)
def test_only_the_presence_of_the_next_link_counts(
    http: responses.RequestsMock, speaker: MarketplaceClient, links: Any, has_more: bool
) -> None:
    http.get(LICENSES, json={"licenses": [{"a": 1}], "_links": links})
    page = speaker.licenses("dev-1", QUERY, 0)
    assert page.has_more == has_more
    assert [bytes(record) for record in page.records] == [b'{"a": 1}']


# --- The vendor's apps ----------------------------------------------------------------------


def listing(*names: str, next_link: Any = None) -> dict[str, Any]:
    items = [{"productId": f"id of {name}", "appKey": name, "appName": name} for name in names]
    return {"items": items, "links": {"self": "/x", "next": next_link}}


def test_all_pages_of_the_apps_are_read_with_the_same_credentials(
    http: responses.RequestsMock, speaker: MarketplaceClient
) -> None:
    first = matchers.query_param_matcher({"limit": "50", "includePrivate": "true"})
    path = "/rest/3/product-listing/developer-space/dev-1?limit=50"
    http.get(LISTING, match=[first], json=listing("a", "b", next_link=f"{path}&cursor=2"))
    second = matchers.query_param_matcher({"limit": "50", "cursor": "2"})
    http.get(LISTING, match=[second], json=listing("c"))
    assert list(speaker.apps("dev-1")) == [App(f"id of {name}", name, name) for name in "abc"]
    authorizations = {call.request.headers["Authorization"] for call in http.calls}
    assert len(authorizations) == 1


def test_an_app_that_lacks_fields_is_still_listed(
    http: responses.RequestsMock, speaker: MarketplaceClient
) -> None:
    items: list[dict[str, Any]] = [{"productId": "1", "appName": None, "new": {}}, {}]
    http.get(LISTING, json={"items": items, "links": None})
    assert list(speaker.apps("dev-1")) == [App("1", "", ""), App("", "", "")]


@pytest.mark.parametrize(
    "link",
    [
        "https://evil.example/rest/3",
        "//evil.example/rest/3",
        "/\\evil.example",
        "\\\\evil.example",
        "/@evil.example/",
        "@evil.example",
        ".evil.example/",
        "rest/3/without-slash",
        "/rest/../../other",
        "/rest/%2e%2e/other",
        "/rest/%2E%2e/other",
        "/rest/3 HTTP/1.1",
        "/rest/3\r\nHost: evil.example",
        "/rest/3\nx",
        "/rest/\x00",
        "/rest/%0d%0aHost:evil",
        "/rest/\u2028",
        "javascript:alert(1)",
        " /rest/3",
    ],
)
def test_a_link_that_could_lead_the_credentials_elsewhere_is_not_followed(
    http: responses.RequestsMock, speaker: MarketplaceClient, link: str
) -> None:
    http.get(LISTING, json=listing("a", next_link=link))
    with pytest.raises(UnexpectedResponse, match="leads elsewhere"):
        list(speaker.apps("dev-1"))
    assert len(http.calls) == 1


@pytest.mark.parametrize("link", [5, ["/rest"], {"href": "/rest"}, True])
def test_a_link_that_is_no_string_is_an_unexpected_structure(
    http: responses.RequestsMock, speaker: MarketplaceClient, link: Any
) -> None:
    http.get(LISTING, json=listing("a", next_link=link))
    with pytest.raises(UnexpectedResponse, match="unexpected structure"):
        list(speaker.apps("dev-1"))


def test_the_same_cursor_is_followed_once(
    http: responses.RequestsMock, speaker: MarketplaceClient
) -> None:
    links = iter(f"/rest/3/product-listing/developer-space/dev-1?x={n}&cursor=2" for n in range(9))
    http.add_callback(
        responses.GET,
        LISTING,
        lambda request: (200, {}, json.dumps(listing("a", next_link=next(links)))),
    )
    with pytest.raises(UnexpectedResponse, match="does not end"):
        list(speaker.apps("dev-1"))
    assert len(http.calls) == 2


def test_a_listing_has_at_most_a_hundred_further_pages(
    http: responses.RequestsMock, speaker: MarketplaceClient
) -> None:
    numbers = iter(range(1000))

    def answer(_: Any) -> tuple[int, dict[str, str], str]:
        link = f"/rest/3/product-listing/developer-space/dev-1?cursor={next(numbers)}"
        return 200, {}, json.dumps(listing("a", next_link=link))

    http.add_callback(responses.GET, LISTING, answer)
    with pytest.raises(UnexpectedResponse, match="does not end"):
        list(speaker.apps("dev-1"))
    assert len(http.calls) == client.MAX_LISTING_PAGES + 1


# --- Answers that are none ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (400, MarketplaceBadRequest),
        (401, CredentialsRejected),
        (403, MarketplaceForbidden),
        (404, MarketplaceNotFound),
        (410, MarketplaceNotFound),
        (301, UnexpectedResponse),
        (302, UnexpectedResponse),
        (307, UnexpectedResponse),
        (204, UnexpectedResponse),
        (418, UnexpectedResponse),
    ],
)
def test_a_permanent_error_is_not_retried(
    http: responses.RequestsMock,
    speaker: MarketplaceClient,
    slept: list[float],
    status: int,
    failure: type[MarketplaceError],
) -> None:
    http.get(VENDOR, status=status, headers={"Location": "https://evil.example/"}, json={})
    with pytest.raises(failure):
        speaker.developer_id("1234567")
    assert (len(http.calls), slept) == (1, [])


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        (b"<html>", "text/html; charset=utf-8", "it is a web page"),
        (b"  <!doctype html>", "application/json", "it is a web page"),
        (b"", "application/json", "it is not complete JSON"),
        (b'{"developerId": "d', "application/json", "it is not complete JSON"),
        (b'{"developerId": "\xff"}', "application/json", "it is not complete JSON"),
        (b"[" * 200_000, "application/json", "it is not complete JSON"),
        (b"[]", "application/json", "its JSON has an unexpected structure"),
        (b"null", "application/json", "its JSON has an unexpected structure"),
        (b"{}", "application/json", "its JSON has an unexpected structure"),
        (b'{"developerId": 5}', "application/json", "its JSON has an unexpected structure"),
        (b'{"developerId": " "}', "application/json", "it contains no developer ID"),
    ],
)
def test_the_error_says_why_a_response_cannot_be_decoded(
    http: responses.RequestsMock,
    speaker: MarketplaceClient,
    body: bytes,
    content_type: str,
    reason: str,
) -> None:
    http.get(VENDOR, body=body, content_type=content_type)
    with pytest.raises(UnexpectedResponse) as error:
        speaker.developer_id("1234567")
    assert error.value.reason == reason
    assert len(http.calls) == 1


# --- Trying again ---------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 599])
def test_a_request_is_retried_three_times_with_growing_delays(
    http: responses.RequestsMock, speaker: MarketplaceClient, slept: list[float], status: int
) -> None:
    http.get(VENDOR, status=status)
    with pytest.raises(MarketplaceUnavailable, match=f"it returned {status}"):
        speaker.developer_id("1234567")
    assert len(http.calls) == 4
    assert slept == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (requests.ConnectionError("planted-token"), "the connection failed"),
        (requests.exceptions.ConnectTimeout(), "it does not respond in time"),
        (requests.exceptions.ReadTimeout(), "it does not respond in time"),
        (requests.exceptions.SSLError(), "its certificate is not trusted"),
        (requests.exceptions.ChunkedEncodingError(), "the connection failed"),
        (requests.exceptions.ProxyError(), "the connection failed"),
    ],
)
def test_a_network_error_is_retried_and_not_quoted(
    http: responses.RequestsMock,
    speaker: MarketplaceClient,
    slept: list[float],
    error: Exception,
    reason: str,
) -> None:
    http.get(VENDOR, body=error)
    with pytest.raises(MarketplaceUnavailable) as unavailable:
        speaker.developer_id("1234567")
    assert str(unavailable.value) == unavailable.value.reason == reason
    assert len(slept) == 3


def test_a_second_attempt_may_succeed(
    http: responses.RequestsMock, speaker: MarketplaceClient, slept: list[float]
) -> None:
    http.get(VENDOR, status=503, headers={"Retry-After": "7"})
    http.get(VENDOR, json={"developerId": "dev-1"})
    assert speaker.developer_id("1234567") == "dev-1"
    assert slept == [7.0]


@pytest.mark.parametrize("retry_after", ["61", "3600", "Thu, 24 Sep 2026 13:00:00 GMT"])
def test_a_retry_after_of_more_than_a_minute_ends_the_attempts(
    http: responses.RequestsMock, speaker: MarketplaceClient, slept: list[float], retry_after: str
) -> None:
    http.get(VENDOR, status=429, headers={"Retry-After": retry_after})
    with pytest.raises(MarketplaceUnavailable):
        speaker.developer_id("1234567")
    assert slept == []


def test_the_minute_applies_to_all_delays_together(
    http: responses.RequestsMock, speaker: MarketplaceClient, slept: list[float]
) -> None:
    http.get(VENDOR, status=429, headers={"Retry-After": "25"})
    with pytest.raises(MarketplaceUnavailable) as error:
        speaker.developer_id("1234567")
    assert slept == [25.0, 25.0]
    assert error.value.retry_after == 25.0


@each(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("120", 120.0),
        (" 5 ", 5.0),
        ("9" * 500, 86_400.0),
        ("Thu, 24 Sep 2026 12:00:30 GMT", 30.0),
        ("Thu, 24 Sep 2026 14:00:30 +0200", 30.0),
        ("Thu, 24 Sep 2026 12:00:30", 30.0),
        ("Thursday, 24-Sep-26 12:00:30 GMT", 30.0),
        ("Thu, 24 Sep 2026 11:00:00 GMT", 0.0),
        ("Thu, 99 Sep 2026 11:00:00 GMT", None),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
    ],
)
def test_retry_after_is_parsed_in_both_formats(header: str | None, seconds: float | None) -> None:
    assert parse_retry_after(header, NOON) == seconds


def test_a_page_gives_up_sooner_than_a_sync(settings: Settings) -> None:
    assert client.INTERACTIVE_RETRY_POLICY.attempts < client.BACKGROUND_RETRY_POLICY.attempts
    assert client.INTERACTIVE_RETRY_POLICY.total_timeout < 30
    assert client.BACKGROUND_RETRY_POLICY.max_total_delay <= 60
