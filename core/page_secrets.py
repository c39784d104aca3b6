"""Which responses show a secret, so that they are not compressed."""

from django.http import HttpRequest

_KEY = "eds.secret"


def mark_secret(request: HttpRequest) -> None:
    """Note that the response to the request shows a secret."""
    request.META[_KEY] = True


def shows_secret(request: HttpRequest) -> bool:
    return _KEY in request.META
