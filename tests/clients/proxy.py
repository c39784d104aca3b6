"""A proxy between a client and the service, which records requests and can drop responses."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

from harness.threads import serving

CONNECTION_ONLY = {"connection", "keep-alive", "transfer-encoding"}


class Exchange(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    status: int


class Proxy:
    """Forwards everything, except the first *lose* responses that say that data arrived."""

    def __init__(self, address: str, lose: int = 0) -> None:
        self.seen: list[Exchange] = []
        self._upstream = urlsplit(address).netloc
        self._lose = lose
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator["Proxy"]:
        with serving(self._server):
            yield self

    def statuses(self) -> list[int]:
        """Return the statuses of the POSTs, in the order of their responses."""
        return [exchange.status for exchange in self.seen if exchange.method == "POST"]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                proxy._pass_on(self)

            do_OPTIONS = do_GET = do_POST

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

        return Handler

    def _pass_on(self, handler: BaseHTTPRequestHandler) -> None:
        # The SDKs announce the length of what they send.
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        headers = dict(handler.headers.items())
        upstream = http.client.HTTPConnection(self._upstream, timeout=30)
        try:
            upstream.request(handler.command, handler.path, body, headers)
            answer = upstream.getresponse()
            content = answer.read()
        finally:
            upstream.close()
        self.seen.append(Exchange(handler.command, handler.path, headers, answer.status))
        if handler.command == "POST" and answer.status == 200 and self._is_lost():
            handler.close_connection = True
            return
        handler.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in CONNECTION_ONLY:
                handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)

    def _is_lost(self) -> bool:
        with self._lock:
            self._lose -= 1
            return self._lose >= 0
