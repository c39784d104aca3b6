"""A CRM's server: requests, faults, and a record of what was written."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from harness.threads import serving


class Answer(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str] = {}


class Call(NamedTuple):
    method: str
    path: str
    body: Any

    @property
    def inputs(self) -> list[Any]:
        return (self.body or {}).get("inputs") or (self.body or {}).get("records") or []


# Gets a call and what the CRM would answer; returns another answer, or None to lose the response
# after the CRM did what was asked.
Fault = Callable[[Call, Callable[[], Answer]], Answer | None]


class FakeCrm:
    """``records`` are the values of each record. ``idle_writes`` counts writes that change nothing,
    and ``created`` has the ids of records that requests created."""

    def __init__(self) -> None:
        self.url = ""
        self.key = "planted-key"
        self.records: dict[str, dict[str, Any]] = {}
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.idle_writes = 0
        self.created: list[str] = []
        self.written_rows = 0

    def answer(self, call: Call, token: str) -> Answer:
        raise NotImplementedError

    def handle(self, call: Call, token: str) -> Answer | None:
        self.calls.append(call)
        if self.faults:
            return self.faults.pop(0)(call, lambda: self.answer(call, token))
        return self.answer(call, token)

    def store(self, id: str, values: dict[str, Any]) -> None:
        """Write values into a record that is there."""
        record = self.records[id]
        self.written_rows += 1
        if all(record.get(name) == value for name, value in values.items()):
            self.idle_writes += 1
        record.update(values)

    def paths(self, end: str) -> list[Call]:
        return [call for call in self.calls if call.path.partition("?")[0].endswith(end)]


def lost(call: Call, answer: Callable[[], Answer]) -> None:
    """The CRM does it, and nobody hears of it."""
    answer()


def instead(status: int, body: Any = None, **headers: str) -> Fault:
    """Does nothing and answers something else."""
    return lambda call, answer: Answer(status, body, headers)


def normal(call: Call, answer: Callable[[], Answer]) -> Answer:
    return answer()


class _Handler(BaseHTTPRequestHandler):
    crm: FakeCrm

    def _handle(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(content) if content else None
        except ValueError:
            body = content.decode()
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        answer = self.crm.handle(Call(self.command, self.path, body), token)
        if answer is None:
            self.close_connection = True
            return
        text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    do_GET = do_POST = do_PATCH = _handle

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def running(crm: FakeCrm) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"crm": crm}))
    server.daemon_threads = True
    crm.url = f"http://127.0.0.1:{server.server_address[1]}"
    with serving(server):
        yield
