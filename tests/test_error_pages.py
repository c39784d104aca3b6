"""A request that no view answers gets JSON or a page, with the security headers, in any process."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import Client
from pytest_django import Settings

from config import ingestion_urls
from config.server import handover, security_headers
from config.server.ingestion_only import refuse_pages
from config.server.without_pages import INGESTION_URLS, MIDDLEWARE
from config.web.middleware import API_PREFIXES
from ingestion import browser_sdk

pytestmark = pytest.mark.django_db

KEY = "edk_0123456789"
CHUNK = min(browser_sdk.CHUNKS)
# Below each public prefix: paths that exist, and paths that do not.
PATHS = [
    *ingestion_urls.API_PATHS,
    *(f"{prefix.rstrip('/')}{rest}" for prefix in API_PREFIXES for rest in ("", "/", "/x", "/x/y")),
    *("/segment/analytics-next/bundles/x.js", f"/analytics-next/bundles/{CHUNK}"),
    *("/analytics.js/v1/", f"/analytics.js/v1/{KEY}/analytics.min.js", "/analytics-next/bundles/"),
    *(f"/v1/projects/{KEY}/settings", "/v1/projects//settings", "/sourceConfig/x"),
    *(
        "/nothing",
        "/",
        "/admin/",
        "/static/x",
        "/favicon.ico",
        "/docs",
        "/invite/",
        "/openapi.json",
    ),
]
METHODS = ("get", "head", "post", "put", "patch", "delete", "options", "trace")


@pytest.fixture(params=[handover.INGESTION, handover.ANY])
def kind(request: pytest.FixtureRequest, settings: Settings) -> str:
    """Serve as a process of that kind does."""
    kind: str = request.param
    if kind == handover.INGESTION:
        settings.ROOT_URLCONF = INGESTION_URLS
        settings.MIDDLEWARE = [*MIDDLEWARE]
        settings.HAS_PAGES = False
    return kind


def assert_is_whole(response: Any, kind: str, what: str) -> None:
    assert response.status_code < 500 or response.status_code == 503, what
    for name, value in security_headers.HEADERS:
        assert response.headers[name] == value, (what, name)
    if response.status_code >= 400 and response.content and kind == handover.INGESTION:
        assert isinstance(json.loads(response.content), dict), what


def test_no_path_is_a_500_in_any_process(kind: str) -> None:
    client = Client(raise_request_exception=False)
    for path in PATHS:
        for method in METHODS:
            response = getattr(client, method)(path)
            assert_is_whole(response, kind, f"{method} {path}")


@pytest.mark.parametrize(
    "path",
    ["/segment/analytics-next/bundles/x.js", "/analytics.js/v1/", "/analytics.js/x", "/v1/x"],
)
def test_what_is_not_there_is_json_for_programs(path: str, kind: str) -> None:
    response = Client().get(path, headers={"X-Request-ID": "abc"})
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "not_found"
    assert response.headers["X-Request-ID"] == "abc"


def test_an_error_is_json_with_the_id_of_its_log_line(
    kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(browser_sdk, "_response", fail)
    path = f"/analytics.js/v1/{KEY}/analytics.min.js"
    response = Client(raise_request_exception=False).get(path)
    assert_is_whole_error(response)
    (record,) = [record for record in caplog.records if record.name == "django.request"]
    assert record.request.META["HTTP_X_REQUEST_ID"] == response.headers["X-Request-ID"]  # type: ignore[attr-defined]


def assert_is_whole_error(response: Any) -> None:
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "internal_error"
    assert "secret" not in response.content.decode()
    assert int(response.headers["Content-Length"]) == len(response.content)
    for name, value in security_headers.HEADERS:
        assert response.headers[name] == value


def test_people_get_pages() -> None:
    response = Client().get("/nothing")
    assert response.status_code == 404 and b"Page not found" in response.content


@pytest.mark.parametrize("has_page_processes", [True, False])
def test_a_page_that_is_refused_has_the_headers_too(has_page_processes: bool) -> None:
    started: list[tuple[str, dict[str, str]]] = []

    def application(*_: object) -> list[bytes]:
        raise AssertionError

    def start_response(status: str, headers: list[tuple[str, str]]) -> None:
        started.append((status, dict(headers)))

    serve: Callable[..., Any] = refuse_pages(application, has_page_processes=has_page_processes)
    (body,) = serve({"PATH_INFO": "/admin/", "REQUEST_METHOD": "GET"}, start_response)
    ((status, headers),) = started
    assert status.startswith("503" if has_page_processes else "404") and "error" in json.loads(body)
    assert headers.items() >= dict(security_headers.HEADERS).items()


def test_a_request_that_is_not_valid_is_json_for_programs(kind: str) -> None:
    from config.web import error_pages

    request = HttpRequest()
    request.path_info = "/v2/track"
    response = error_pages.bad_request(request, ValueError("secret"))
    assert response.status_code == 400 and b"secret" not in response.content
