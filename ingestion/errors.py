"""The one failure that a door knows, and how the client is told of it."""

from rest_framework.response import Response


class IngestionError(Exception):
    """A request that cannot be accepted as it is; nothing of it is queued.

    ``code`` is for programs, ``message`` is a sentence for people that says what to do, and
    ``field`` is the name of the field at fault as the client spells it, or None. None of them
    quotes what the client sent: it may hold a key or personal data.
    """

    def __init__(self, status: int, code: str, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.field = field


def missing_field(field: str) -> IngestionError:
    """A required field is absent, null or blank."""
    return IngestionError(
        400, "missing_field", f"{field} is required and must be a non-empty string.", field
    )


def invalid_field(field: str, message: str) -> IngestionError:
    """A field has a value that it cannot have."""
    return IngestionError(400, "invalid_field", message, field)


def error_response(refused: IngestionError, headers: dict[str, str] | None = None) -> Response:
    """The answer in the shape that every error of the service has."""
    error = {"code": refused.code, "message": refused.message}
    if refused.field is not None:
        error["field"] = refused.field
    return Response({"error": error}, status=refused.status, headers=headers)
