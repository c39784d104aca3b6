"""Serves Segment's SDK to pages with Segment's snippet, which loads it from the host of its key.

The file is the same for every key: the snippet, or the script's URL, tells the SDK the key.
"""

import gzip
from functools import cache
from pathlib import Path
from typing import NamedTuple

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from ingestion.cors import CORS_HEADERS

FOLDER = Path(__file__).parent / "vendor" / "analytics-next"
CHUNKS = frozenset(path.name for path in FOLDER.glob("*.bundle.*.js"))

# By itself, the SDK finds its host only in an https:// URL. It would load its settings, with the
# key, from Segment otherwise.
NAME_THE_HOST = """
(function () {
  var script = document.currentScript, end = script && script.src.indexOf("/analytics.js/v1/");
  var analytics = script && window[script.dataset.globalSegmentAnalyticsKey || "analytics"];
  if (analytics && !analytics._cdn && end > 0) analytics._cdn = script.src.slice(0, end);
})();
"""


class _File(NamedTuple):
    plain: bytes
    compressed: bytes


@require_safe
def sdk(request: HttpRequest, key: str) -> HttpResponse:
    """The SDK, at the URL that the snippet loads."""
    return _response(request, _sdk(), "max-age=3600")


@require_safe
def chunk(request: HttpRequest, name: str) -> HttpResponse:
    """A part that the SDK loads when it needs it. A new version has a new name."""
    if name not in CHUNKS:
        raise Http404
    return _response(request, _chunk(name), "max-age=31536000, immutable")


def _response(request: HttpRequest, file: _File, caching: str) -> HttpResponse:
    is_compressed = "gzip" in request.headers.get("Accept-Encoding", "")
    headers = CORS_HEADERS | {"Cache-Control": caching, "Vary": "Accept-Encoding"}
    if is_compressed:
        headers["Content-Encoding"] = "gzip"
    body = file.compressed if is_compressed else file.plain
    return HttpResponse(body, content_type="text/javascript; charset=utf-8", headers=headers)


@cache
def _sdk() -> _File:
    license_text = (FOLDER / "LICENSE.md").read_text("utf-8")
    preamble = f"/*! @segment/analytics-next\n\n{license_text.strip()}\n*/{NAME_THE_HOST}"
    return _file(preamble.encode() + (FOLDER / "standalone.js").read_bytes())


@cache
def _chunk(name: str) -> _File:
    return _file((FOLDER / name).read_bytes())


def _file(content: bytes) -> _File:
    return _File(content, gzip.compress(content, mtime=0))
