"""Django's WSGI handler, made tolerant of malformed content types, and made to count requests."""

import time
from typing import Any

from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.http import HttpRequest
from django.http.response import HttpResponseBase


class LenientRequest(WSGIRequest):
    """A request whose Content-Type may be malformed."""

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        try:
            super()._set_content_type_params(meta)  # type: ignore[misc]
        except ValueError:
            # Django handles unknown charsets but not impossible ones, such as a NUL written as
            # charset*=utf-8''%00. They would cause a 500.
            self.content_type, self.content_params = "", {}


class LenientHandler(WSGIHandler):
    request_class = LenientRequest


class WebHandler(LenientHandler):
    """Notes each request that it answers."""

    def __init__(self) -> None:
        super().__init__()
        # Models can be imported only now.
        from config.server import observing

        self.observing = observing

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        started = time.perf_counter()
        span = self.observing.begin(request)
        response = super().get_response(request)
        self.observing.observe(request, response, time.perf_counter() - started, span)
        return response
