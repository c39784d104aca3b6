"""Django's WSGI handler, made tolerant of malformed content types."""

from typing import Any

from django.core.handlers.wsgi import WSGIHandler, WSGIRequest


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
