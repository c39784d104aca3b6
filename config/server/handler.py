"""Django's entry for WSGI, which takes whatever a client calls its content type."""

from typing import Any

from django.core.handlers.wsgi import WSGIHandler, WSGIRequest


class LenientRequest(WSGIRequest):
    """A request whose content type need not make sense."""

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        try:
            super()._set_content_type_params(meta)  # type: ignore[misc]
        except ValueError:
            # Django only expects names of encodings that nobody knows. One that can be no name,
            # such as NUL written as charset*=utf-8''%00, would be answered with 500.
            self.content_type, self.content_params = "", {}


class LenientHandler(WSGIHandler):
    request_class = LenientRequest
