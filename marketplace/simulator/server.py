"""Serves the simulated marketplace over HTTP, from threads."""

import socket
import threading
import time
from contextlib import suppress
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from marketplace.simulator.endpoints import Marketplace
from marketplace.simulator.faults import SimulatedResponse
from marketplace.simulator.feed import Feed
from marketplace.simulator.records import generate_licenses
from marketplace.simulator.vendor import SimulatedVendor, create_vendor

LOOPBACK = "127.0.0.1"


class Simulator(Marketplace):
    """A marketplace that listens. ``with Simulator(...)`` answers until the block is left."""

    def __init__(
        self, feed: Feed, vendor: SimulatedVendor, *, port: int = 0, mixes_passes: bool = False
    ) -> None:
        super().__init__(feed, vendor, mixes_passes=mixes_passes)
        self._server = _Server((LOOPBACK, port), self)

    @classmethod
    def with_licenses(
        cls,
        number: int,
        *,
        today: date,
        seed: int = 1,
        port: int = 0,
        always_free: bool = False,
    ) -> "Simulator":
        """A simulator of so many generated licenses; the same for the same seed and day. Those of
        an app that is always free come in a list of their own."""
        owner = create_vendor(seed)
        records = generate_licenses(owner, seed, number, today)
        if always_free:
            records = ({**record, "licenseType": "FREE"} for record in records)
        return cls(Feed(records), owner, port=port)

    @property
    def url(self) -> str:
        """What MARKETPLACE_API_URL is to be."""
        return f"http://{LOOPBACK}:{self._server.server_address[1]}"

    def __enter__(self) -> "Simulator":
        threading.Thread(target=self.serve_forever, name="simulator", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self.close()

    def serve_forever(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def close(self) -> None:
        """Stop listening and hang up on whoever is connected."""
        self._server.server_close()
        self._server.hang_up()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], marketplace: Marketplace) -> None:
        self.marketplace = marketplace
        self._connections: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever hung up in the middle is no concern of the simulator's."""

    def hang_up(self) -> None:
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._send(self.server.marketplace.answer(self.path, dict(self.headers.items())))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._send(self.server.marketplace.control(self.path, body))

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a line for each of a thousand pages says little."""

    def _send(self, answer: SimulatedResponse) -> None:
        if answer.hang_up:
            self.close_connection = True
            return
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        declared = len(answer.body) if answer.content_length is None else answer.content_length
        self.send_header("Content-Length", str(declared))
        self.close_connection = declared != len(answer.body)
        if answer.drip:
            self._drip(answer)
            return
        # Head and body in one piece: one system call, and no waiting between them.
        self._headers_buffer.append(b"\r\n" + answer.body)  # type: ignore[attr-defined]
        self.flush_headers()

    def _drip(self, answer: SimulatedResponse) -> None:
        """Send the answer a byte at a time, until the caller has enough of it."""
        head = b"".join([*self._headers_buffer, b"\r\n"])  # type: ignore[attr-defined]
        self._headers_buffer.clear()  # type: ignore[attr-defined]
        if not answer.drips_headers:
            self.wfile.write(head)
        slowly = head + answer.body if answer.drips_headers else answer.body
        for byte in slowly:
            time.sleep(answer.drip)
            self.wfile.write(bytes([byte]))
