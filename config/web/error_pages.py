"""Responses to requests that no view answers, and to old URLs of static files.

People get a page. Programs get JSON, and so does everybody in a process without pages, which cannot
link to any.
"""

import json

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.views import defaults

from config.web.middleware import API_PREFIXES
from core import request_ids

TOO_LARGE = (RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Return 413 for a form that is too large, and 400 for any other invalid request."""
    if _is_for_programs(request):
        # Django's text may quote the request.
        return _error(request, 400, "invalid_request", "This request is not valid.")
    if isinstance(exception, TOO_LARGE):
        return render(request, "413.html", status=413)
    return defaults.bad_request(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Return 404."""
    if _is_for_programs(request):
        return _error(request, 404, "not_found", "This endpoint does not exist.")
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """Return 500, with the id under which the log has the error."""
    if _is_for_programs(request):
        request_ids.get_or_assign(request.META)
        message = "This is an error in the service, and it has been logged. Try again in a moment."
        return _error(request, 500, "internal_error", message)
    return defaults.server_error(request)


def _is_for_programs(request: HttpRequest) -> bool:
    return not settings.HAS_PAGES or request.path_info.startswith(API_PREFIXES)


def _error(request: HttpRequest, status: int, code: str, message: str) -> HttpResponse:
    body = json.dumps({"error": {"code": code, "message": message}})
    response = HttpResponse(body, status=status, content_type="application/json")
    response.headers["Content-Length"] = str(len(response.content))
    request_ids.add_to_response(request, response)
    return response


def other_release(request: HttpRequest, path: str) -> HttpResponse:
    """Redirect the URL of another release, such as that of a page served during an upgrade.

    WhiteNoise has served what exists, so a URL of this release has no file.
    """
    current = static(path)
    if request.path == current:
        raise Http404
    return redirect(current)
