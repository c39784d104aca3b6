"""The id that a sender or a proxy gave a request, to find it again in logs and lists."""

import re
import secrets
from collections.abc import Mapping, MutableMapping
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

ENVIRON_KEY = "HTTP_X_REQUEST_ID"
RESPONSE_HEADER = "X-Request-ID"
MAX_REQUEST_ID_LENGTH = 64
# It goes into logs, and into pages that people search: nothing but what ids are made of.
_SAFE = re.compile(rf"[A-Za-z0-9._-]{{1,{MAX_REQUEST_ID_LENGTH}}}")


def from_environ(headers: Mapping[str, Any]) -> str | None:
    """``X-Request-ID`` from the WSGI environment; None where it is absent or not an id."""
    value: str | None = headers.get(ENVIRON_KEY)
    return value if value and _SAFE.fullmatch(value) else None


def get_or_assign(headers: MutableMapping[str, Any]) -> str:
    """The given id or, where there is none, one that the request has from now on.

    So the line that is logged about a fault and the answer to the request name the same.
    """
    request_id = from_environ(headers)
    if request_id is None:
        headers[ENVIRON_KEY] = request_id = secrets.token_hex(8)
    return request_id


def add_to_response(request: HttpRequest, response: HttpResponseBase) -> None:
    """Name the request's id, where it has one, in the answer to it."""
    if request_id := from_environ(request.META):
        response.headers[RESPONSE_HEADER] = request_id
