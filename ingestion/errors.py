"""The one error that a door raises, and its HTTP response."""

from rest_framework.response import Response


class IngestionError(Exception):
    """A request that cannot be accepted. Nothing of it is queued.

    ``code`` is for programs. ``message`` is for people: what is wrong, then what to do. ``field``
    is the invalid field as the client spells it, or None. None of them quotes what the client sent,
    which may contain a key or personal data. ``retry_after`` is in seconds, for status 503.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        field: str | None = None,
        *,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.retry_after = retry_after


def missing_field(field: str) -> IngestionError:
    """A required field is absent, null or blank."""
    return IngestionError(
        400, "missing_field", f"{field} is required and must be a non-empty string.", field
    )


def invalid_field(field: str, message: str) -> IngestionError:
    return IngestionError(400, "invalid_field", message, field)


def out_of_range(field: str) -> IngestionError:
    return invalid_field(
        field, f"{field} contains a number that is out of range. Send a smaller number."
    )


def error_response(error: IngestionError, headers: dict[str, str] | None = None) -> Response:
    """The response, in the shape of all errors of the service."""
    body = {"code": error.code, "message": error.message}
    if error.field is not None:
        body["field"] = error.field
    headers = dict(headers or {})
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    return Response({"error": body}, status=error.status, headers=headers)
