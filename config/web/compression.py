"""Compression of pages and static files. The read API compresses its own responses.

The length of a compressed page tells how much of it repeats, and so may betray a secret next to
text that an attacker chose (BREACH). Sessions are SameSite, so no other site can request a page as
somebody who is logged in; CSRF tokens differ in each response; Django's middleware adds bytes of
random length. Pages that show a secret are not compressed at all.
"""

from collections.abc import Callable, Mapping
from gzip import compress
from http import HTTPStatus
from pathlib import Path
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.cache import patch_vary_headers
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

from core.page_secrets import shows_secret
from readapi.transfer import accepts_gzip

FILE_LEVEL = 9
FILES = ("text/", "application/json", "application/javascript", "image/svg+xml")
# Downloads are sent while they are built.
PAGES = ("text/html", "application/json")


class PageCompressionMiddleware(GZipMiddleware):
    """Compresses pages, except those that show a secret, and downloads."""

    def process_response(self, request: HttpRequest, response: Any) -> Any:
        is_page = response.headers.get("Content-Type", "").startswith(PAGES)
        if shows_secret(request) or not is_page:
            return response
        return super().process_response(request, response)


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # it has no types
    """WhiteNoise, with the files compressed in memory: each of them once, when it is first read."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        super().__init__(get_response)
        self._compressed: dict[str, bytes] = {}

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        static_file = None if self.autorefresh else self.files.get(request.path_info)
        if static_file is None:
            response: HttpResponseBase = super().__call__(request)
            return response
        if request.method == "GET" and accepts_gzip(request.META):
            head = static_file.get_response("HEAD", request.META)
            headers = dict(head.headers)
            if head.status == HTTPStatus.OK and _is_compressible(headers):
                return _with_content(self._content(static_file), headers)
        plain: HttpResponseBase = self.serve(static_file, request)
        if _is_compressible(plain.headers):
            patch_vary_headers(plain, ("Accept-Encoding",))
        return plain

    def _content(self, static_file: StaticFile) -> bytes:
        path = static_file.alternatives[0][1]
        if path not in self._compressed:
            self._compressed[path] = compress(Path(path).read_bytes(), FILE_LEVEL, mtime=0)
        return self._compressed[path]


def _is_compressible(headers: Mapping[str, str]) -> bool:
    return headers.get("Content-Type", "").startswith(FILES)


def _with_content(content: bytes, headers: dict[str, str]) -> HttpResponse:
    response = HttpResponse(content, headers=headers)
    patch_vary_headers(response, ("Accept-Encoding",))
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Content-Length"] = str(len(content))
    return response
