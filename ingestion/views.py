"""The HTTP side of the doors: decode, accept, answer 202."""

from datetime import datetime

from django.db import Error
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from access.logins.security_log import client_address
from core import credentials, request_ids, trace_context
from core.rate_limits import RateLimit
from engagement.models import Product
from ingestion import errors, refusals, validation
from ingestion.cors import CorsView
from ingestion.doors import DecodedRequest, bodies
from ingestion.doors.decoding import spelling_hint
from ingestion.doors.headers import Headers
from ingestion.errors import IngestionError
from ingestion.inbox import group_commit

# Validations of one process. An address may be that of many people.
REQUESTS_PER_MINUTE = 60
REQUESTS_PER_ADDRESS = 300
RETRY_AFTER = 5
_per_key = RateLimit(REQUESTS_PER_MINUTE)
_per_address = RateLimit(REQUESTS_PER_ADDRESS)


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
            hinted = spelling_hint(error, body)
            self.note_refusal(hinted, body, request, received_at)
            raise hinted from None
        # It would stay in memory until the commit.
        del body
        group_commit.accept(
            decoded.messages,
            decoded.key,
            received_at,
            request_ids.from_environ(request.META),
            trace_context.from_environ(request.META),
        )
        return self.success_response()

    def note_refusal(
        self, error: IngestionError, body: str, request: Request, received_at: datetime
    ) -> None:
        """Have the product's ingestion log show the request, if it is the sender's fault."""
        if error.status >= 500:
            return
        if key := refusals.find_key(body, request.META):
            path = request.path_info
            refusals.add(refusals.describe(error, key, path, request.META, received_at))

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


class ValidationView(IngestionView):
    """Says what a door would make of a request, and accepts nothing."""

    accepted_status = 202

    @staticmethod
    def find_reader(request: HttpRequest) -> Product | None:
        """The product that the request may read. Set where the view is routed, because only other
        apps know. Raises IngestionError."""
        raise NotImplementedError

    def post(self, request: Request) -> HttpResponse:
        received_at = timezone.now()
        reader = self.find_reader(request)
        body = ""
        try:
            body = bodies.read(request, self.max_body_bytes)
            decoded = self.door(body, request.META, received_at)
        except IngestionError as raised:
            if raised.status >= 500:
                raise
            error = spelling_hint(raised, body)
            key = refusals.find_key(body, request.META)
            self._limit(request, key, reader)
            return Response(validation.report_error(error, key, reader))
        self._limit(request, decoded.key, reader)
        status = self.accepted_status
        return Response(validation.report(decoded, received_at, status, reader))

    def _limit(self, request: Request, key: str, reader: Product | None) -> None:
        """Raise IngestionError if the key or the address has sent too many requests. A read token
        has a limit of its own."""
        if reader is not None:
            return
        wait = max(
            _per_key.wait(credentials.digest(key)), _per_address.wait(client_address(request))
        )
        if wait:
            message = (
                f"At most {REQUESTS_PER_MINUTE} requests a minute are validated. Retry in {wait} s."
            )
            raise IngestionError(429, "rate_limited", message, retry_after=wait)

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, Error):
            return super().handle_exception(group_commit.InboxUnavailable(RETRY_AFTER))
        if isinstance(exc, IngestionError) and exc.status == 401:
            return self.error_response(exc, {"WWW-Authenticate": "Bearer"})
        return super().handle_exception(exc)


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
