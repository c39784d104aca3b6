"""The application without its pages, as ingestion processes serve it."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from config.server import handover, security_headers
from core import request_ids

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def refuse_pages(application: Application, *, has_page_processes: bool) -> Application:
    """Wrap the application so that it refuses page requests.

    The response is 503 if the page processes are full, and 404 if there are none.
    """

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if handover.process_kind(environ["PATH_INFO"].encode("latin-1")) != handover.PAGES:
            return application(environ, start_response)
        if has_page_processes:
            headers = [("Retry-After", "2")]
            message = "Too many requests are waiting. Try again in 2 s."
            return _refuse(environ, start_response, "503 Unavailable", message, headers)
        message = "This server only accepts data. Send this request to a server of pages."
        return _refuse(environ, start_response, "404 Not Found", message, [])

    return serve


def _refuse(
    environ: dict[str, Any],
    start_response: Callable[..., Any],
    status: str,
    message: str,
    headers: list[tuple[str, str]],
) -> Iterable[bytes]:
    """Return an error in the read API's format."""
    code = status.partition(" ")[2].lower().replace(" ", "_")
    body = json.dumps({"error": {"code": code, "message": message}}).encode()
    headers += [
        *security_headers.HEADERS,
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
    ]
    if request_id := request_ids.from_environ(environ):
        headers.append((request_ids.RESPONSE_HEADER, request_id))
    start_response(status, headers)
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]
