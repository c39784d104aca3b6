"""The HTTP side of the doors: decode, accept, answer 202."""

from datetime import datetime

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from engagement.core import request_ids
from ingestion import errors, refused
from ingestion.cors import CorsView
from ingestion.doors import DecodedRequest, bodies
from ingestion.doors.headers import Headers
from ingestion.errors import IngestionError
from ingestion.inbox import group_commit


class IngestionView(CorsView):
    """A door on the web: ``IngestionView.as_view(door=v2.track)``."""

    http_method_names = ["post", "options"]
    max_body_bytes = bodies.MAX_SINGLE_BODY_BYTES

    @staticmethod
    def door(body: str, headers: Headers, received_at: datetime) -> DecodedRequest:
        raise NotImplementedError

    def post(self, request: Request) -> HttpResponse:
        received_at = timezone.now()
        body = ""
        try:
            body = bodies.read(request, self.max_body_bytes)
            decoded = self.door(body, request.META, received_at)
        except IngestionError as error:
            self.note_refusal(error, body, request, received_at)
            raise
        # It would stay in memory until the commit.
        del body
        group_commit.accept(
            decoded.messages, decoded.key, received_at, request_ids.from_environ(request.META)
        )
        return self.success_response()

    def note_refusal(
        self, error: IngestionError, body: str, request: Request, received_at: datetime
    ) -> None:
        """Have the product's ingestion log show the request, if it is the sender's fault."""
        if error.status >= 500:
            return
        if key := refused.find_key(body, request.META):
            path = request.path_info
            refused.add(refused.describe(error, key, path, request.META, received_at))

    def success_response(self) -> HttpResponse:
        """202 with an empty body: the messages are committed."""
        response = HttpResponse(status=202)
        # An empty body has no type.
        del response["Content-Type"]
        return response

    def handle_exception(self, exc: Exception) -> Response:
        if not isinstance(exc, group_commit.InboxUnavailable):
            return super().handle_exception(exc)
        message = f"The data could not be stored. Retry in {exc.retry_after} s."
        return self.error_response(
            IngestionError(503, "unavailable", message, retry_after=exc.retry_after)
        )


class BatchView(IngestionView):
    """Takes many messages, some of which may be invalid."""

    def success_response(self) -> HttpResponse:
        return HttpResponse(b'{"success": true}', content_type="application/json")


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


class SegmentSdkView(BatchView, SegmentWebhookView):
    """Answers as Segment's SDKs expect: the one for Python accepts only 200 as success."""
