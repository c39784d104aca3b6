"""Errors of the read API. All have one shape, always in JSON."""

import logging
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from core import request_ids
from core.database import distribution, sql

logger = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 5

# The same text for a record that does not exist and for one of another product.
NOT_FOUND = "No such record for this token."
UNAVAILABLE = "The database cannot be reached at the moment. Try again shortly."
TOO_SLOW = "The request took too long. Request fewer records, or try again later."


class InvalidRequest(Exception):
    """An invalid request. The response is 400.

    ``code`` is for programs, ``message`` is for people, and ``field`` names the parameter at fault.
    """

    def __init__(self, code: str, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field


class Forbidden(Exception):
    """The token may not do that. The response is 403."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class NotFound(Exception):
    """The record does not exist, or the token must not see it. The response is 404."""


class NotReady(Exception):
    """What the request needs takes too long now; the text says what to do. The response is 503."""


class ReplicaUnavailable(Exception):
    """The replica cannot be read; the text says why. The response is 503."""


def exception_handler(error: Exception, context: dict[str, Any]) -> Response:
    """The response to any exception that a view raises. DRF calls this."""
    if isinstance(error, InvalidRequest):
        return _response(400, error.code, error.message, field=error.field)
    if isinstance(error, Forbidden):
        return _response(403, error.code, str(error))
    if isinstance(error, NotFound | Http404):
        return _response(404, "not_found", str(error) or NOT_FOUND)
    if isinstance(error, exceptions.APIException):
        return _framework_error_response(error, context["view"].allowed_methods)
    if isinstance(error, NotReady):
        return _unavailable(str(error))
    if isinstance(error, sql.StatementTimeout):
        return _unavailable(TOO_SLOW)
    if isinstance(error, RequestDataTooBig):
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        return _response(413, "payload_too_large", f"The body must be at most {limit:,} bytes.")
    if isinstance(error, SuspiciousOperation):
        # Django's text may quote the request.
        return _response(400, "invalid_request", "This request's host or URL is not accepted.")
    request = context["request"]
    path, extra = request.path, {"request": request}
    request_ids.get_or_assign(request.META)
    if isinstance(error, ReplicaUnavailable) or is_connection_error(error):
        server, reason = ("database", type(error).__name__)
        if isinstance(error, ReplicaUnavailable):
            server, reason = ("replica", str(error))
        logger.warning("The %s did not answer %s: %s", server, path, reason, extra=extra)
        return _unavailable(UNAVAILABLE)
    if isinstance(error, DatabaseError) and distribution.is_changing():
        logger.warning("The tables are being distributed; %s failed.", path, extra=extra)
        return _unavailable(UNAVAILABLE)
    logger.error("The read API failed on %s", path, exc_info=error, extra=extra)
    return _response(500, "internal_error", "Something went wrong. The error has been logged.")


def _unavailable(message: str) -> Response:
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
    return _response(503, "unavailable", message, headers=headers)


def _framework_error_response(
    error: exceptions.APIException, allowed_methods: Sequence[str]
) -> Response:
    headers = {}
    if auth_header := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = auth_header
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(int(wait))
    return _response(
        error.status_code, _code(error), _message(error, allowed_methods), headers=headers
    )


def rate_limit_message(limit: int) -> str:
    return f"The limit is {limit} requests a minute. Wait as many seconds as Retry-After says."


def _message(error: exceptions.APIException, allowed_methods: Sequence[str]) -> str:
    if isinstance(error, exceptions.Throttled):
        return rate_limit_message(settings.READ_REQUESTS_PER_MINUTE)
    if isinstance(error, exceptions.MethodNotAllowed):
        method = "POST" if "POST" in allowed_methods else "GET"
        return f"This endpoint does not support the method. Use {method}."
    return str(error.detail)


def _code(error: exceptions.APIException) -> str:
    match error:
        case exceptions.AuthenticationFailed() | exceptions.NotAuthenticated():
            return "invalid_token"
        case exceptions.Throttled():
            return "rate_limited"
        case _:
            return str(error.default_code)


def _response(
    status: int,
    code: str,
    message: str,
    *,
    field: str | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    error = {"code": code, "message": message}
    if field is not None:
        error["field"] = field
    return Response({"error": error}, status=status, headers=headers)


def is_connection_error(error: Exception) -> bool:
    """Whether the connection failed, and not a statement.

    A failed connection has no SQLSTATE, or one of class 08 (connection), 57P (server shutting
    down), or 53 (out of connections).
    """
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    sqlstate = getattr(error.__cause__, "sqlstate", None)
    return sqlstate is None or str(sqlstate).startswith(("08", "57P", "53"))
