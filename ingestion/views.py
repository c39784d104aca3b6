"""The HTTP side of the doors: decode, accept, answer 202."""

from datetime import datetime
from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from engagement.core import request_ids
from ingestion import errors
from ingestion.doors import DecodedRequest, bodies
from ingestion.doors.headers import Headers
from ingestion.errors import IngestionError
from ingestion.inbox import group_commit

# Any page may send data: a key allows nothing else, and cookies are never read.
CORS_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    # Pages need these to know when to retry and to report a request's id.
    "Access-Control-Expose-Headers": "Retry-After, X-Request-ID",
}
PREFLIGHT_HEADERS = {
    "Access-Control-Allow-Methods": "POST",
    # Segment's browser SDK counts its retries in X-Retry-Count.
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Content-Encoding, "
    "Idempotency-Key, X-Request-ID, X-Retry-Count",
    "Access-Control-Max-Age": "86400",
}


class IngestionView(APIView):
    """A door on the web: ``IngestionView.as_view(door=v2.track)``."""

    http_method_names = ["post", "options"]
    max_body_bytes = bodies.MAX_SINGLE_BODY_BYTES

    @staticmethod
    def door(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
        raise NotImplementedError

    def post(self, request: Request) -> HttpResponse:
        received_at = timezone.now()
        body = bodies.read(request, self.max_body_bytes)
        decoded = self.door(body, request.META, received_at)
        group_commit.accept(
            decoded.messages, decoded.key, received_at, request_ids.from_environ(request.META)
        )
        return self.success_response()

    def options(  # type: ignore[override]  # DRF's own signature, see its stubs
        self, request: Request, *args: Any, **kwargs: Any
    ) -> Response:
        """Answer a browser's preflight request."""
        return Response(headers={**PREFLIGHT_HEADERS, "Allow": ", ".join(self.allowed_methods)})

    def success_response(self) -> HttpResponse:
        """202 with an empty body: the messages are committed."""
        response = HttpResponse(status=202)
        # An empty body has no type.
        del response["Content-Type"]
        return response

    def error_response(
        self, error: IngestionError, headers: dict[str, str] | None = None
    ) -> Response:
        return errors.error_response(error, headers)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Skip content negotiation, authentication, permissions and throttling.

        Responses have one format, and keys are checked in the background. These steps would be
        most of a request's cost.
        """

    def perform_content_negotiation(
        self, request: Request, force: bool = False
    ) -> tuple[JSONRenderer, str]:
        return JSONRenderer(), JSONRenderer.media_type

    @property
    def default_response_headers(self) -> dict[str, str]:
        return CORS_HEADERS

    def handle_exception(self, exc: Exception) -> Response:
        match exc:
            case IngestionError():
                return self.error_response(exc)
            case group_commit.InboxUnavailable():
                message = f"The data could not be stored. Retry in {exc.retry_after} s."
                error = IngestionError(503, "unavailable", message)
                return self.error_response(error, {"Retry-After": str(exc.retry_after)})
            case MethodNotAllowed():
                message = "This endpoint does not support the method. Use POST."
                error = IngestionError(405, "method_not_allowed", message)
                return self.error_response(error, {"Allow": ", ".join(self.allowed_methods)})
        raise exc


class SegmentWebhookView(IngestionView):
    """Answers errors as Segment's clients expect."""

    def error_response(
        self, error: IngestionError, headers: dict[str, str] | None = None
    ) -> Response:
        """The usual error, with code and message repeated at the top level.

        RudderStack's SDK for Python looks for the code there. Without it, it resends a rejected
        batch again and again.
        """
        response = errors.error_response(error, headers)
        response.data |= {"code": error.code, "message": error.message}
        return response


class SegmentSdkView(SegmentWebhookView):
    """Answers as Segment's SDKs expect: the one for Python accepts only 200 as success."""

    def success_response(self) -> HttpResponse:
        return HttpResponse(b'{"success": true}', content_type="application/json")
