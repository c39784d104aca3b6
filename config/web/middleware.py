"""Middlewares: a fast path for API requests, and security headers, the time zone, and a time limit
for pages."""

import logging
from collections.abc import Callable
from functools import lru_cache

import psycopg
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.response import SimpleTemplateResponse
from django.urls import resolve
from django.utils import timezone

from access.logins import time_zones
from core import request_ids
from core.database import retries, sql

logger = logging.getLogger(__name__)

# Machines call these: no session, cookies, CSRF, or static files.
API_PREFIXES = (
    *("/v1/", "/v2/", "/segment", "/beacon/", "/sourceConfig", "/analytics"),
    *("/healthz", "/readyz", "/metrics", "/mcp"),
)


# Load balancers and monitors reach each machine directly.
OPEN_PATHS = frozenset(("/healthz", "/readyz", "/metrics"))
HTTPS_REQUIRED = {
    "error": {
        "code": "https_required",
        "message": "Send requests to https://. Nothing of this one was accepted. Replace its key "
        "or token if others could read it on the way.",
    }
}


# Finding the view takes a sixth of our own time for a message, and senders call few paths.
_resolve = lru_cache(maxsize=128)(resolve)


class ApiFastPathMiddleware:
    """Calls the view of an API request directly, without the middlewares that follow this one.

    API requests carry their credentials and have no session, so sessions, CSRF, messages, and
    static files would only cost time.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(API_PREFIXES):
            return self.get_response(request)
        if settings.HTTPS and not (request.is_secure() or request.path_info in OPEN_PATHS):
            return JsonResponse(HTTPS_REQUIRED, status=403)
        match = request.resolver_match = _resolve(request.path_info, settings.ROOT_URLCONF)
        response: HttpResponseBase = match.func(request, *match.args, **match.kwargs)
        if isinstance(response, SimpleTemplateResponse):
            response = response.render()
        # That of a 304 would be the length of the response that the client has.
        has_length = response.has_header("Content-Length") or response.status_code == 304
        if isinstance(response, HttpResponse) and not has_length:
            response.headers["Content-Length"] = str(len(response.content))
        request_ids.add_to_response(request, response)
        return response


# Scripts and styles are files of the service. Browsers run nothing inline, so injected scripts do
# not run.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
# No page uses any of these.
PERMISSIONS_POLICY = (
    "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"
)


class SecurityHeadersMiddleware:
    """Adds security headers. A view's own headers take precedence."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        request_ids.add_to_response(request, response)
        response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
        if response.headers.get("Content-Type", "").startswith("text/html"):
            # Pages have personal data. Django lets browsers cache some, such as the password form.
            response.headers.setdefault("Cache-Control", "no-store")
        # Django's debug pages have inline styles and scripts.
        if not (settings.DEBUG and response.status_code >= 400):
            response.headers.setdefault("Content-Security-Policy", _policy())
        return response


def _policy() -> str:
    report = settings.CSP_REPORT_URI
    return f"{CONTENT_SECURITY_POLICY}; report-uri {report}" if report else CONTENT_SECURITY_POLICY


class TimeZoneMiddleware:
    """Shows the times of the admin's pages in the time zone of the login."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith("/admin/"):
            return self.get_response(request)
        with timezone.override(time_zones.current_time_zone(request)):
            return self.get_response(request)


# Statements of an admin page that run longer are canceled.
PAGE_TIMEOUT_SECONDS = 20.0
SAFE_METHODS = ("GET", "HEAD")


class PageTimeoutMiddleware:
    """Cancels the statements of an admin page that takes too long.

    Saving has no limit. Neither has a download, which is sent after its view has returned.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not _is_limited(request):
            return self.get_response(request)
        with sql.cancel_after(PAGE_TIMEOUT_SECONDS):
            return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Return 503 if the request failed because its statement was canceled, or because a node
        of a cluster is missing.

        Django calls this before it builds a 500 response, so ``__call__`` sees no exception.
        """
        if retries.is_missing_node(error):
            return render(request, "503_node.html", status=503)
        if not (_is_limited(request) and _was_canceled(error)):
            return None
        logger.warning("Canceled a page because a statement took too long: %s", request.path)
        return render(request, "503.html", status=503)


def _is_limited(request: HttpRequest) -> bool:
    return request.method in SAFE_METHODS and request.path_info.startswith("/admin/")


def _was_canceled(error: Exception) -> bool:
    canceled = psycopg.errors.QueryCanceled
    return isinstance(error, sql.StatementTimeout) or isinstance(error.__cause__, canceled)
