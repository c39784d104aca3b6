"""The response to an invalid request for a page."""

from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views import defaults

TOO_LARGE = (RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Return 413 for a form that is too large, and 400 for any other invalid request."""
    if isinstance(exception, TOO_LARGE):
        return render(request, "413.html", status=413)
    return defaults.bad_request(request, exception)
