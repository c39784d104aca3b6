"""The id that a sender or a proxy gives a request, to find it in logs and lists."""

import re
import secrets
from collections.abc import Mapping, MutableMapping
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

ENVIRON_KEY = "HTTP_X_REQUEST_ID"
RESPONSE_HEADER = "X-Request-ID"
MAX_REQUEST_ID_LENGTH = 64
# The id goes into logs and pages, so it may only have the characters of ids.
_SAFE = re.compile(rf"[A-Za-z0-9._-]{{1,{MAX_REQUEST_ID_LENGTH}}}")


def from_environ(headers: Mapping[str, Any]) -> str | None:
    """``X-Request-ID`` from the WSGI environment; None if it is absent or not an id."""
    value: str | None = headers.get(ENVIRON_KEY)
    return value if value and _SAFE.fullmatch(value) else None


def get_or_assign(headers: MutableMapping[str, Any]) -> str:
    """The request's id. Assigns one to a request without an id.

    So the log line about an error and the response name the same id.
    """
    request_id = from_environ(headers)
    if request_id is None:
        headers[ENVIRON_KEY] = request_id = secrets.token_hex(8)
    return request_id


def add_to_response(request: HttpRequest, response: HttpResponseBase) -> None:
    """Add the request's id to the response, if it has one."""
    if request_id := from_environ(request.META):
        response.headers[RESPONSE_HEADER] = request_id
