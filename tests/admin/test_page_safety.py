"""Security headers of pages, which API requests do not pay for."""

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from config import environment
from config.web.middleware import SecurityHeadersMiddleware
from tests.start.running import manage

pytestmark = pytest.mark.django_db


def test_every_page_forbids_what_is_inline_and_what_is_elsewhere() -> None:
    for address in (reverse("admin:login"), "/admin/nothing/", "/nothing"):
        policy = Client().get(address).headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and "*" not in policy


def test_pages_carry_the_other_headers() -> None:
    headers = Client().get(reverse("admin:login")).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "camera=()" in headers["Permissions-Policy"]
    assert "no-store" in headers["Cache-Control"]


def test_browsers_report_where_an_operator_wants_them_to(settings: Settings) -> None:
    address = "https://reports.example.com/csp?project=1"
    assert "report-uri" not in Client().get(reverse("admin:login"))["Content-Security-Policy"]
    settings.CSP_REPORT_URI = address
    policy = Client().get(reverse("admin:login"))["Content-Security-Policy"]
    assert policy.endswith(f"; report-uri {address}")


@pytest.mark.parametrize(
    "address", ["reports.example.com", "https://a b", "https://a; script-src *", "https://a,b"]
)
def test_an_address_of_reports_cannot_change_the_policy(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDS_CSP_REPORT_URI", address)
    with pytest.raises(ImproperlyConfigured, match="EDS_CSP_REPORT_URI must look like"):
        environment.report_url("EDS_CSP_REPORT_URI")


@pytest.mark.slow
@pytest.mark.parametrize(("preload", "header"), [("", "False"), ("true", "True")])
def test_a_host_goes_on_the_browsers_list_only_if_an_operator_says_so(
    preload: str, header: str
) -> None:
    show = (
        "from django.conf import settings as s; print(s.SECURE_HSTS_SECONDS, s.SECURE_HSTS_PRELOAD)"
    )
    variables = {"EDS_HTTPS": "true", "EDS_HSTS_PRELOAD": preload}
    ended = manage(settings.DATA_DIR, "shell", "--no-imports", "-c", show, **variables)
    assert ended.stdout.split() == ["31536000", header], ended.stderr


def test_api_responses_have_no_page_headers() -> None:
    answer = Client().get("/healthz")
    assert "Content-Security-Policy" not in answer.headers
    assert "Permissions-Policy" not in answer.headers


def test_a_view_may_set_a_policy_of_its_own() -> None:
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse(headers={"Content-Security-Policy": "default-src 'self'"})

    answer = SecurityHeadersMiddleware(view)(HttpRequest())
    assert answer.headers["Content-Security-Policy"] == "default-src 'self'"


def test_debug_pages_keep_their_style(settings: Settings) -> None:
    settings.DEBUG = True
    answer = SecurityHeadersMiddleware(lambda request: HttpResponse(status=500))(HttpRequest())
    assert "Content-Security-Policy" not in answer.headers


def test_cookies_are_for_our_pages_alone() -> None:
    assert settings.SESSION_COOKIE_HTTPONLY and settings.CSRF_COOKIE_HTTPONLY
    assert settings.SESSION_COOKIE_SAMESITE == settings.CSRF_COOKIE_SAMESITE == "Lax"
    assert settings.SESSION_COOKIE_AGE == 12 * 3600


@pytest.mark.slow
def test_behind_https_cookies_are_bound_to_the_host() -> None:
    show = (
        "from django.conf import settings as s; print(s.SESSION_COOKIE_NAME, s.CSRF_COOKIE_NAME, "
        "s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE, s.CLIENT_ADDRESS_KEY); "
        "from config.web.message_storage import HostCookieStorage as m; print(m.cookie_name); "
        "from access.logins.time_zones import COOKIE; print(COOKIE)"
    )
    result = manage(settings.DATA_DIR, "shell", "--no-imports", "-c", show, EDS_HTTPS="true")
    assert result.stdout.split() == [
        "__Host-eds-session",
        "__Host-eds-csrf",
        "True",
        "True",
        "HTTP_X_FORWARDED_FOR",
        "__Host-eds-messages",
        "__Host-eds-zone",
    ], result.stderr
