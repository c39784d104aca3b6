"""Keeps what only people's pages need out of the way of machines, and pages safe."""

import logging
from collections.abc import Callable

import psycopg
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.response import SimpleTemplateResponse
from django.urls import resolve

from engagement.core import request_ids
from engagement.database import sql

logger = logging.getLogger(__name__)

# Everything under these is asked by machines: no session, no cookies, no CSRF, no static files.
API_PREFIXES = ("/v1/", "/v2/", "/segment", "/healthz", "/readyz", "/metrics")


class ApiFastPathMiddleware:
    """Sends API requests straight to their view, past the middlewares that follow this one.

    The APIs carry their credentials in each request and never look at a session, so sessions,
    CSRF, messages and static files would only cost them time.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(API_PREFIXES):
            return self.get_response(request)
        match = request.resolver_match = resolve(request.path_info)
        response: HttpResponseBase = match.func(request, *match.args, **match.kwargs)
        if isinstance(response, SimpleTemplateResponse):
            response = response.render()
        if isinstance(response, HttpResponse) and not response.has_header("Content-Length"):
            response.headers["Content-Length"] = str(len(response.content))
        request_ids.add_to_response(request, response)
        return response


# Scripts, styles, images and requests are the service's own, in files of their own. What is inline
# is not run, whoever got it into a page.
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
# None of these is of any use to our pages.
PERMISSIONS_POLICY = (
    "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"
)


class SecurityHeadersMiddleware:
    """Tells browsers what a page may do. A view that sets a policy of its own keeps it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        request_ids.add_to_response(request, response)
        response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
        if response.headers.get("Content-Type", "").startswith("text/html"):
            # Pages name people. Django's admin lets browsers keep some, such as its password form.
            response.headers.setdefault("Cache-Control", "no-store")
        # Django's debug pages carry their style and script with them.
        if not (settings.DEBUG and response.status_code >= 400):
            response.headers.setdefault("Content-Security-Policy", _policy())
        return response


def _policy() -> str:
    report = settings.CSP_REPORT_URI
    return f"{CONTENT_SECURITY_POLICY}; report-uri {report}" if report else CONTENT_SECURITY_POLICY


# A page of the admin whose statements take longer is not shown.
PAGE_TIMEOUT_SECONDS = 20.0
SAFE_METHODS = ("GET", "HEAD")


class PageTimeoutMiddleware:
    """Stops the statements of an admin page that takes too long. What is saved takes its time, and
    so does a download, which is sent after its view has returned."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not _is_limited(request):
            return self.get_response(request)
        with sql.cancel_after(PAGE_TIMEOUT_SECONDS):
            return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """The answer to a request that failed because its statement was stopped.

        Django asks here before it makes an answer of 500, so the block above sees no exception.
        """
        if not (_is_limited(request) and _was_stopped(error)):
            return None
        logger.warning("A page was given up because a statement took too long: %s", request.path)
        return render(request, "503.html", status=503)


def _is_limited(request: HttpRequest) -> bool:
    return request.method in SAFE_METHODS and request.path_info.startswith("/admin/")


def _was_stopped(error: Exception) -> bool:
    stopped = psycopg.errors.QueryCanceled
    return isinstance(error, sql.StatementTimeout) or isinstance(error.__cause__, stopped)
