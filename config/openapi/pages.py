"""What the web shows of the description: itself, and a page to read and try it."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from config.middleware import CONTENT_SECURITY_POLICY
from config.openapi import assembly

# The page's own style sheet carries its icons with it.
POLICY = CONTENT_SECURITY_POLICY.replace("img-src 'self'", "img-src 'self' data:")


@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    """The OpenAPI description, for anybody: it holds nothing of anybody's data."""
    response = HttpResponse(assembly.render_schema(), content_type="application/json")
    response.headers["Cache-Control"] = "public, max-age=300"
    return response


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """The page that shows the description, from files of our own: it works offline."""
    response = render(request, "config/docs.html")
    response.headers["Content-Security-Policy"] = POLICY
    return response
