"""Keeps what only people's pages need out of the way of machines, and pages safe."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import SimpleTemplateResponse
from django.urls import resolve

from engagement import request_ids

# Everything under these is asked by machines: no session, no cookies, no CSRF, no static files.
MACHINE_PREFIXES = ("/v1/", "/v2/", "/segment", "/healthz", "/readyz", "/metrics")


class MachineLane:
    """Sends API requests straight to their view, past the middlewares that follow this one.

    The APIs carry their credentials in each request and never look at a session, so sessions,
    CSRF, messages and static files would only cost them time.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(MACHINE_PREFIXES):
            return self.get_response(request)
        match = request.resolver_match = resolve(request.path_info)
        response: HttpResponseBase = match.func(request, *match.args, **match.kwargs)
        if isinstance(response, SimpleTemplateResponse):
            response = response.render()
        if isinstance(response, HttpResponse) and not response.has_header("Content-Length"):
            response.headers["Content-Length"] = str(len(response.content))
        request_ids.give_back(request, response)
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


class PageSafety:
    """Tells browsers what a page may do. A view that sets a policy of its own keeps it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        request_ids.give_back(request, response)
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
