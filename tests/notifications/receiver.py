"""A server on this machine that receives notifications and keeps them."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from harness.threads import serving


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def content(self) -> Any:
        return json.loads(self.body)

    @property
    def data(self) -> Any:
        return self.content["data"]


@dataclass
class Receiver:
    """``answer`` gives the status, or the status and headers, for what was received."""

    url: str = ""
    received: list[Received] = field(default_factory=list)
    answer: Callable[[Received], Any] = lambda received: 204

    def texts(self) -> list[str]:
        return [received.data["text"] for received in self.received]


class _Handler(BaseHTTPRequestHandler):
    receiver: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        received = Received(self.path, headers, body)
        self.receiver.received.append(received)
        answer = self.receiver.answer(received)
        status, extra = answer if isinstance(answer, tuple) else (answer, {})
        self.send_response(status)
        for name, value in extra.items():
            self.send_header(name, value)
        self.end_headers()
        if status != 204:
            self.wfile.write(b"thank you")

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    handler = type("Handler", (_Handler,), {"receiver": receiver})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    with serving(server):
        yield receiver


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "It did not happen in time."
        time.sleep(0.01)
