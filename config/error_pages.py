"""Responses to invalid requests for a page, and to old URLs of static files."""

from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.views import defaults

TOO_LARGE = (RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Return 413 for a form that is too large, and 400 for any other invalid request."""
    if isinstance(exception, TOO_LARGE):
        return render(request, "413.html", status=413)
    return defaults.bad_request(request, exception)


def other_release(request: HttpRequest, path: str) -> HttpResponse:
    """Redirect the URL of another release, such as that of a page served during an upgrade.

    WhiteNoise has served what exists, so a URL of this release has no file.
    """
    current = static(path)
    if request.path == current:
        raise Http404
    return redirect(current)
