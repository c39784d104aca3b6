"""How the read API says no: one shape for every error, always JSON."""

import logging
from typing import Any

from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from engagement.core import request_ids
from engagement.database import sql

logger = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 5

# Said alike of what does not exist and of what belongs to another product.
NOT_FOUND = "Nothing that this token can see has this id."


class InvalidRequest(Exception):
    """A request that cannot mean anything; answered with 400.

    ``code`` is for programs, ``message`` for people, ``field`` names the parameter at fault.
    """

    def __init__(self, code: str, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field


class NotFound(Exception):
    """There is nothing there, or nothing that the token may see; answered with 404."""


class ReplicaUnavailable(Exception):
    """The replica cannot be read from, and why; answered with 503."""


def exception_handler(error: Exception, context: dict[str, Any]) -> Response:
    """The answer to an exception that a view raised. DRF calls this; nothing gets past it."""
    if isinstance(error, InvalidRequest):
        return _response(400, error.code, error.message, field=error.field)
    if isinstance(error, NotFound | Http404):
        return _response(404, "not_found", str(error) or NOT_FOUND)
    if isinstance(error, exceptions.APIException):
        return _to_framework_error(error)
    if isinstance(error, sql.StatementTimeout):
        return _response(
            503,
            "unavailable",
            "The answer took too long. Ask for less at once, or try again later.",
            headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
        )
    if isinstance(error, SuspiciousOperation):
        # Its text may quote the request; the sentence for people is ours.
        return _response(400, "invalid_request", "This request's host or address is not accepted.")
    request = context["request"]
    path, about = request.path, {"request": request}
    request_ids.get_or_assign(request.META)
    if isinstance(error, ReplicaUnavailable) or is_connection_error(error):
        who, why = ("database", type(error).__name__)
        if isinstance(error, ReplicaUnavailable):
            who, why = ("replica", str(error))
        logger.warning("The %s could not answer %s: %s", who, path, why, extra=about)
        return _response(
            503,
            "unavailable",
            "The database cannot be reached at the moment. Try again shortly.",
            headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
        )
    logger.error("The read API failed on %s", path, exc_info=error, extra=about)
    return _response(500, "internal_error", "This is a fault of the service; it has been logged.")


def _to_framework_error(error: exceptions.APIException) -> Response:
    headers = {}
    if auth_header := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = auth_header
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(int(wait))
    return _response(error.status_code, _code(error), _message(error), headers=headers)


def _message(error: exceptions.APIException) -> str:
    if isinstance(error, exceptions.Throttled):
        limit = settings.READ_REQUESTS_PER_MINUTE
        return f"This token may make {limit} requests a minute. Wait as long as Retry-After says."
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
    """Whether the connection failed, as against a statement that the database refused.

    A lost or impossible connection carries no SQLSTATE, or one of class 08 (connection), 57P
    (server shutting down) or 53 (out of connections).
    """
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    sqlstate = getattr(error.__cause__, "sqlstate", None)
    return sqlstate is None or str(sqlstate).startswith(("08", "57P", "53"))
