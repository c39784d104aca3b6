"""Keeps what only people's pages need out of the way of machines."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import SimpleTemplateResponse
from django.urls import resolve

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
        return response
