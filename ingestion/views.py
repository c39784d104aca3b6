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
from ingestion.doors import DecodedRequest, bodies, v1, v2
from ingestion.doors.headers import Headers
from ingestion.errors import IngestionError
from ingestion.inbox import group_commit

# Any page may send data: a key allows nothing but that, and no cookie is ever looked at.
CORS_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    # Otherwise a page would not see when it may try again, nor its request's id.
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
    """A door on the web. Subclasses name the door."""

    http_method_names = ["post", "options"]
    limit = bodies.MAX_SINGLE_BODY_BYTES

    @staticmethod
    def door(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
        raise NotImplementedError

    def post(self, request: Request) -> HttpResponse:
        received_at = timezone.now()
        body = bodies.read(request, self.limit)
        sent = self.door(body, request.META, received_at)
        group_commit.accept(
            sent.messages, sent.key, received_at, request_ids.from_environ(request.META)
        )
        return self.accepted()

    def options(  # type: ignore[override]  # DRF's own signature, see its stubs
        self, request: Request, *args: Any, **kwargs: Any
    ) -> Response:
        """Answer a browser that asks what it may send."""
        return Response(headers={**PREFLIGHT_HEADERS, "Allow": ", ".join(self.allowed_methods)})

    def accepted(self) -> HttpResponse:
        """The answer once the messages are committed: 202 with an empty body."""
        response = HttpResponse(status=202)
        # Nothing is sent, so there is nothing to describe.
        del response["Content-Type"]
        return response

    def refusal(self, refused: IngestionError, headers: dict[str, str] | None = None) -> Response:
        """The answer to a request that is not accepted."""
        return errors.error_response(refused, headers)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Skip content negotiation, authentication, permissions and throttling.

        Answers have one format, whatever a client says that it accepts, and keys are checked in
        the background. Looking into it would be most of a request's cost.
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
                return self.refusal(exc)
            case group_commit.InboxUnavailable():
                message = f"The data could not be stored. Send it again in {exc.retry_after} s."
                refused = IngestionError(503, "unavailable", message)
                return self.refusal(refused, {"Retry-After": str(exc.retry_after)})
            case MethodNotAllowed():
                refused = IngestionError(405, "method_not_allowed", "Use POST at this address.")
                return self.refusal(refused, {"Allow": ", ".join(self.allowed_methods)})
        raise exc


class IdentifyView(IngestionView):
    door = staticmethod(v2.identify)


class GroupView(IngestionView):
    door = staticmethod(v2.group)


class TrackView(IngestionView):
    door = staticmethod(v2.track)


class LegacyUserView(IngestionView):
    door = staticmethod(v1.user)


class LegacyGroupView(IngestionView):
    door = staticmethod(v1.group)


class LegacyEventView(IngestionView):
    door = staticmethod(v1.event)
