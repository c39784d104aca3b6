"""The base of all views that SDKs call, also from pages of other origins."""

import re
from typing import Any

from django.http import HttpRequest
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from ingestion import errors
from ingestion.errors import IngestionError

# Any page may send data: a key allows nothing else, and cookies are never read.
CORS_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    # Pages need these to know when to retry and to report a request's id.
    "Access-Control-Expose-Headers": "Retry-After, X-Request-ID",
}
# Segment's SDK for browsers counts its retries in X-Retry-Count. RudderStack's sends AnonymousId
# and SentAt. Libraries that trace a page's requests send traceparent and tracestate.
ALLOWED_HEADERS = (
    "Authorization, Content-Type, Content-Encoding, Idempotency-Key, X-Request-ID, "
    "X-Retry-Count, AnonymousId, SentAt, traceparent, tracestate"
)
# RudderStack's SDK also describes its retries, in headers that differ between its versions.
_RETRY_HEADER = re.compile(r"rsa-[a-z-]{1,40}", re.ASCII | re.IGNORECASE)
MAX_RETRY_HEADERS = 20


class CorsView(APIView):
    """A view that pages of any origin may call, and that answers errors in JSON."""

    @property
    def method(self) -> str:
        """The view's one method, apart from OPTIONS."""
        return self.http_method_names[0].upper()

    def options(  # type: ignore[override]  # DRF's own signature, see its stubs
        self, request: Request, *args: Any, **kwargs: Any
    ) -> Response:
        """Answer a browser's preflight request."""
        requested_headers = request.META.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "")
        return Response(
            headers={
                "Access-Control-Allow-Methods": self.method,
                "Access-Control-Allow-Headers": _allowed_headers(requested_headers),
                "Access-Control-Max-Age": "86400",
                "Vary": "Access-Control-Request-Headers",
                "Allow": ", ".join(self.allowed_methods),
            }
        )

    def error_response(
        self, error: IngestionError, headers: dict[str, str] | None = None
    ) -> Response:
        return errors.error_response(error, headers)

    def initialize_request(  # type: ignore[override]  # its stubs know no other request
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpRequest:
        """Return Django's own request: the doors need nothing that DRF's adds."""
        return request

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
            case MethodNotAllowed():
                message = f"This endpoint does not support the method. Use {self.method}."
                error = IngestionError(405, "method_not_allowed", message)
                return self.error_response(error, {"Allow": ", ".join(self.allowed_methods)})
        raise exc


def _allowed_headers(requested_headers: str) -> str:
    """The headers that a page may send: ours, and those requested that describe a retry."""
    names = [name.strip() for name in requested_headers.split(",", 100)]
    retries = [name for name in names if _RETRY_HEADER.fullmatch(name)]
    return ", ".join([ALLOWED_HEADERS, *retries[:MAX_RETRY_HEADERS]])
