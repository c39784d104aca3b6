"""Page processes keep pages that compute from delaying data."""

import itertools
import json
import os
import re
import selectors
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import psutil
import pytest
from django.conf import settings
from django.urls import URLPattern, get_resolver

from config.local.postgres import stop_process
from config.server import gunicorn, handover, webworker
from ingestion.cors import CorsView
from ingestion.forget_requests import ForgetView
from ingestion.views import ValidationView
from tests.start.running import free_port, listens, survivors, until

PAGE, DOOR, HEALTH = "/v2/users", "/v2/track", "/healthz"


class Answer(NamedTuple):
    """A response of the application, or an error."""

    status: int
    headers: dict[str, str]
    body: str

    @property
    def process(self) -> int:
        return int(self.body.split()[0])

    @property
    def read(self) -> int:
        return int(self.body.split()[2])


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._reader = self.socket.makefile("rb")

    def send(self, path: str, body: bytes = b"", *headers: str) -> None:
        self.socket.sendall(request(path, body, *headers))

    def send_all_but_one(self, path: str) -> None:
        """Send a request of two bytes but for the last, once its head has been read."""
        self.socket.sendall(request(path, b"ab", "Expect: 100-continue")[:-2])
        assert self._reader.readline().startswith(b"HTTP/1.1 100")
        self._reader.readline()
        self.socket.sendall(b"a")

    def read(self) -> Answer:
        status, headers = self._reader.readline(), {}
        while line := self._reader.readline().decode().strip():
            name, value = line.lower().split(": ", 1)
            headers[name] = value
        body = self._reader.read(int(headers["content-length"]))
        return Answer(int(status.split()[1]), headers, body.decode())

    def ask(self, path: str, body: bytes = b"", *headers: str) -> Answer:
        self.send(path, body, *headers)
        return self.read()

    def is_closed(self) -> bool:
        try:
            return self._reader.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._reader.close()
        self.socket.close()


def request(path: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Server:
    def __init__(self, ingestion: int, pages: int) -> None:
        self.port = free_port()
        command = gunicorn.gunicorn_command("127.0.0.1", self.port, ingestion, pages)
        command.append("tests.start.telling:application")
        self.process = subprocess.Popen(command, cwd=settings.BASE_DIR, env=dict(os.environ))

    def workers(self) -> list[psutil.Process]:
        return survivors(psutil.Process(self.process.pid).children())


@contextmanager
def serving(ingestion: int, pages: int) -> Iterator[Server]:
    server = Server(ingestion, pages)
    try:
        until(lambda: listens(server.port), "the server")
        yield server
    finally:
        stop_process(server.process, signal.SIGTERM, timeout=10)


@contextmanager
def stopped(process: int) -> Iterator[None]:
    """Suspend a process, as if it computed all the time."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One process of each kind."""
    with serving(1, 1) as server:
        yield server


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[[], Client]]:
    with ExitStack() as stack:

        def connect() -> Client:
            client = Client(server.port)
            stack.callback(client.close)
            return client

        yield connect


Connect = Callable[[], Client]


def test_each_kind_of_request_has_processes_of_its_own(connect: Connect) -> None:
    page, door, health = (connect().ask(path) for path in (PAGE, DOOR, HEALTH))
    assert page.process != door.process == health.process


def test_a_page_process_that_computes_delays_no_data(connect: Connect) -> None:
    connection = connect()
    page = connection.ask(PAGE).process
    # It has given the connection back.
    assert connection.ask(HEALTH).process != page
    with stopped(page):
        waiting = [connect() for _ in range(20)]
        for client in waiting:
            client.send(PAGE)
        assert all(connect().ask(DOOR).status == 200 for _ in range(10))
        assert connect().ask(HEALTH).status == 200
        # Also on a connection that the page process answered on before.
        assert connection.ask(DOOR).status == 200
    assert all(client.read().process == page for client in waiting)


def test_a_connection_may_mix_what_it_asks_for(connect: Connect) -> None:
    client = connect()
    requests = [PAGE, DOOR, DOOR, PAGE, PAGE, HEALTH, DOOR, PAGE]
    answers = [client.ask(path, b"a" * 10) for path in requests]
    assert [answer.read for answer in answers] == [10] * len(requests)
    assert len({answer.body.split()[1] for answer in answers}) == 1, "the client's own port"
    by_kind: dict[str, set[int]] = {}
    for path, answer in zip(requests, answers, strict=True):
        by_kind.setdefault(PAGE if path == PAGE else DOOR, set()).add(answer.process)
    pages, doors = by_kind[PAGE], by_kind[DOOR]
    assert len(pages) == len(doors) == 1 and pages != doors


def test_pipelined_requests_are_answered_in_order(connect: Connect) -> None:
    client = connect()
    requests = [(PAGE, 3), (DOOR, 5), (PAGE, 0), (PAGE, 7), (DOOR, 1)]
    client.socket.sendall(b"".join(request(path, b"a" * length) for path, length in requests))
    assert [client.read().read for _ in requests] == [length for _, length in requests]
    assert client.ask(DOOR).status == 200


@pytest.mark.parametrize("length", [1, 7_000, 500_000])
def test_a_body_is_handed_over_in_any_number_of_pieces(length: int, connect: Connect) -> None:
    client = connect()
    assert client.ask(PAGE, b"a" * length).read == length
    data = request(PAGE, b"a" * length)
    for piece in (data[:3], data[3:30], data[30:-1], data[-1:]):
        client.socket.sendall(piece)
        # A piece of its own on the wire.
        assert connect().ask(HEALTH).status == 200
    assert client.read().read == length
    assert client.ask(DOOR, b"a").read == 1


def test_connection_close_is_respected(connect: Connect) -> None:
    client = connect()
    assert client.ask(PAGE, b"", "Connection: close").status == 200
    assert client.is_closed()


def test_invalid_requests_are_refused(connect: Connect) -> None:
    for data in (b"\r\nnonsense\r\n\r\n", b"GET " + b"/a" * 9000 + b" HTTP/1.1\r\n\r\n"):
        client = connect()
        client.socket.sendall(data)
        assert client.read().status in (400, 414)
    connection = connect()
    connection.socket.sendall(b"GET /admin/ HTTP/1.1\r\nContent-Length: x\r\n\r\n")
    assert connection.read().status == 400
    assert connection.is_closed()


def test_a_page_request_without_room_gets_503_at_once(connect: Connect) -> None:
    page = connect().ask(PAGE).process
    with stopped(page), selectors.DefaultSelector() as selector:
        for _ in range(webworker.MAX_LENT_CONNECTIONS + 1):
            client = connect()
            client.send(PAGE, b"", "X-Request-ID: here")
            selector.register(client.socket, selectors.EVENT_READ, client)
        (key, _), *_ = selector.select(20)
        refused: Client = key.data
        answer = refused.read()
        assert (answer.status, answer.headers["retry-after"]) == (503, "2")
        assert answer.headers["x-request-id"] == "here"
        assert json.loads(answer.body)["error"]["code"] == "unavailable"
        # Its connection goes on.
        assert refused.ask(DOOR).status == connect().ask(DOOR).status == 200
    until(lambda: connect().ask(PAGE).status == 200, "a page")


def test_a_killed_page_process_ends_what_it_answered_and_is_replaced(
    connect: Connect, server: Server
) -> None:
    page = connect().ask(PAGE).process
    with_it, behind_it = connect(), connect()
    with_it.send_all_but_one(PAGE)
    os.kill(page, signal.SIGSTOP)
    behind_it.send(PAGE)
    assert connect().ask(DOOR).status == 200
    os.kill(page, signal.SIGKILL)
    assert with_it.is_closed()
    assert behind_it.read().process != page
    assert len(server.workers()) == 2


def test_a_killed_ingestion_process_is_replaced(connect: Connect, server: Server) -> None:
    connection = connect()
    ingestion = connection.ask(DOOR).process
    os.kill(ingestion, signal.SIGKILL)
    assert connection.is_closed()
    assert connect().ask(DOOR).process != ingestion
    assert connect().ask(PAGE).status == 200


def test_it_stops_after_the_requests_in_progress() -> None:
    with serving(1, 1) as server:
        client, idle = Client(server.port), Client(server.port)
        assert idle.ask(PAGE).status == 200
        client.send_all_but_one(PAGE)
        server.process.terminate()
        assert idle.is_closed()
        client.socket.sendall(b"b")
        assert client.read().read == 2
        assert server.process.wait(20) == 0
        client.close()
        idle.close()


@pytest.mark.parametrize(("ingestion", "pages", "page"), [(1, 0, 404), (0, 1, 200)])
def test_a_server_of_one_kind(ingestion: int, pages: int, page: int) -> None:
    with serving(ingestion, pages) as server:
        client = Client(server.port)
        assert client.ask(HEALTH).status == client.ask(DOOR).status == 200
        answer = client.ask(PAGE)
        assert answer.status == page
        if page == 404:
            assert json.loads(answer.body)["error"]["code"] == "not_found"
        assert len(server.workers()) == 1
        client.close()


def test_process_kind_agrees_with_the_ingestion_urls() -> None:
    doors: set[str] = set()
    others: set[str] = set()
    for pattern in get_resolver().url_patterns:
        if not isinstance(pattern, URLPattern):
            continue
        view = getattr(pattern.callback, "view_class", None) or getattr(
            pattern.callback, "cls", None
        )
        # Ingestion processes also serve what SDKs load before they send. Validating and forgetting
        # read the database, so page processes do that.
        of_pages = (ValidationView, ForgetView)
        is_door = view and issubclass(view, CorsView) and view not in of_pages
        kinds = doors if is_door else others
        kinds |= spellings(str(pattern.pattern))
    assert len(doors) > 15
    assert {
        path for path in doors if handover.process_kind(path.encode()) != handover.INGESTION
    } == set()
    assert {
        path for path in others if handover.process_kind(path.encode()) == handover.INGESTION
    } == set()


def spellings(pattern: str) -> set[str]:
    """The paths of one of our patterns."""
    if not pattern.startswith("^"):
        return {"/" + re.sub(r"<int:\w+>", "1", pattern)}
    pattern = re.sub(r"\(\?P<\w+>[^()]+\)", "edk_one", pattern)
    if not pattern.endswith("/?$"):
        return {"/v1/anything/else", "/v2/anything"}
    # Each optional part, and each choice.
    parts = re.findall(r"\(\?:([^()]+)\)(\?)?|([^()]+)", pattern[1:-1])
    choices = [
        [fixed] if fixed else [*choice.split("|"), *([""] if optional else [])]
        for choice, optional, fixed in parts
    ]
    paths = {"/" + "".join(words) for words in itertools.product(*choices)}
    return {
        spelling for path in paths for spelling in (path.replace("/?", ""), path.replace("/?", "/"))
    }
