"""The application as ingestion processes serve it: without its pages."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from config.server import handover
from engagement.core import request_ids

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def refuse_pages(application: Application, *, has_page_processes: bool) -> Application:
    """The application without its pages.

    A page is 503 where the page processes have no room for it, and 404 where there are none.
    """

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if handover.process_kind(environ["PATH_INFO"].encode("latin-1")) != handover.PAGES:
            return application(environ, start_response)
        if has_page_processes:
            headers = [("Retry-After", "2")]
            message = "Too many requests wait for an answer. Try again in 2 s."
            return _refuse(environ, start_response, "503 Unavailable", message, headers)
        message = "This server accepts data and nothing else. Ask one that serves pages."
        return _refuse(environ, start_response, "404 Not Found", message, [])

    return serve


def _refuse(
    environ: dict[str, Any],
    start_response: Callable[..., Any],
    status: str,
    message: str,
    headers: list[tuple[str, str]],
) -> Iterable[bytes]:
    """Answer with an error in the shape of the read API's."""
    code = status.partition(" ")[2].lower().replace(" ", "_")
    body = json.dumps({"error": {"code": code, "message": message}}).encode()
    headers += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    if request_id := request_ids.from_environ(environ):
        headers.append((request_ids.RESPONSE_HEADER, request_id))
    start_response(status, headers)
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]
