"""The OpenAPI description on the web: the file, and a page to read and try it."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from config.openapi import assembly
from config.web.middleware import CONTENT_SECURITY_POLICY

# The page's style sheet contains its icons.
POLICY = CONTENT_SECURITY_POLICY.replace("img-src 'self'", "img-src 'self' data:")


@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    """The OpenAPI description. It is public, because it contains no data."""
    response = HttpResponse(assembly.render_schema(), content_type="application/json")
    response.headers["Cache-Control"] = "public, max-age=300"
    return response


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """The page that shows the description. It loads only our own files, so it works offline."""
    response = render(request, "config/docs.html")
    response.headers["Content-Security-Policy"] = POLICY
    return response
