"""Serves the simulated marketplace over HTTP, in threads."""

import socket
import threading
import time
from contextlib import suppress
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from harness.marketplace.endpoints import CONTROL_PREFIX, Marketplace
from harness.marketplace.faults import SimulatedResponse
from harness.marketplace.feed import Feed
from harness.marketplace.reports import generate_licenses, generate_reports
from harness.marketplace.vendor import SimulatedVendor, create_vendor

LOOPBACK = "127.0.0.1"


class Simulator(Marketplace):
    """A simulated marketplace that listens on a port while its ``with`` block runs."""

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
        """A simulator with generated licenses, the same for the same seed and day. With
        *always_free* all of them are in the list of always free licenses."""
        vendor = create_vendor(seed)
        records = generate_licenses(vendor, seed, number, today)
        if always_free:
            records = ({**record, "licenseType": "FREE"} for record in records)
        simulator = cls(Feed(records), vendor, port=port)
        simulator.other_reports.reports = generate_reports(vendor, seed, number, today)
        return simulator

    @property
    def url(self) -> str:
        """The value for MARKETPLACE_API_URL."""
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
        """Stop listening and close all connections."""
        self._server.server_close()
        self._server.close_connections()


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
        """Ignore clients that disconnect midway."""

    def close_connections(self) -> None:
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._send(self.server.marketplace.respond(self.path, dict(self.headers.items())))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        marketplace = self.server.marketplace
        if self.path.startswith(CONTROL_PREFIX):
            self._send(marketplace.control(self.path, body))
        else:
            self._send(marketplace.respond(self.path, dict(self.headers.items()), "POST"))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a sync reads a thousand pages."""

    def _send(self, response: SimulatedResponse) -> None:
        if response.drops_connection:
            self.close_connection = True
            return
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        for name, value in response.headers.items():
            self.send_header(name, value)
        declared = (
            len(response.body) if response.content_length is None else response.content_length
        )
        self.send_header("Content-Length", str(declared))
        self.close_connection = declared != len(response.body)
        if response.trickle:
            self._trickle(response)
            return
        # Headers and body in one system call, without a delay between them.
        self._headers_buffer.append(b"\r\n" + response.body)  # type: ignore[attr-defined]
        self.flush_headers()

    def _trickle(self, response: SimulatedResponse) -> None:
        """Send the response byte by byte, until the client disconnects."""
        head = b"".join([*self._headers_buffer, b"\r\n"])  # type: ignore[attr-defined]
        self._headers_buffer.clear()  # type: ignore[attr-defined]
        if not response.trickles_headers:
            self.wfile.write(head)
        trickled = head + response.body if response.trickles_headers else response.body
        for byte in trickled:
            time.sleep(response.trickle)
            self.wfile.write(bytes([byte]))
