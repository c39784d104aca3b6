"""Clients that hold connections without using them do not keep others out."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from config.server import webworker
from tests.start.running import web_worker

# The connections of the one worker. It keeps fifty of them free.
CONNECTIONS = 60
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with web_worker("--worker-connections", str(CONNECTIONS)) as port:
        yield port


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connect(port: int, stack: ExitStack, first_bytes: bytes) -> socket.socket:
    client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
    client.sendall(first_bytes)
    return client


def is_answered(client: socket.socket) -> bool:
    answer = b""
    while not answer.endswith(b"\r\n\r\nok") and (part := client.recv(1000)):
        answer += part
    return answer.startswith(b"HTTP/1.1 200 OK")


def test_idle_connections_make_room_for_new_ones(port: int, stack: ExitStack) -> None:
    idle = []
    for _ in range(4 * CONNECTIONS):
        client = connect(port, stack, REQUEST)
        assert is_answered(client)
        idle.append(client)
    # The one that was idle for the longest time is closed, the latest may go on.
    assert idle[0].recv(1) == b""
    idle[-1].sendall(REQUEST)
    assert is_answered(idle[-1])


def test_an_active_connection_stays_open(port: int, stack: ExitStack) -> None:
    busy = connect(port, stack, REQUEST)
    for _ in range(4 * CONNECTIONS):
        assert is_answered(connect(port, stack, REQUEST))
        assert is_answered(busy)
        busy.sendall(REQUEST)
    assert is_answered(busy)


@pytest.mark.parametrize("first_bytes", [b"", b"GET", HEAD + b"X-Slow: ", HEAD + b"\r\n12345"])
def test_clients_that_never_finish_a_request_make_room(
    first_bytes: bytes, port: int, stack: ExitStack
) -> None:
    for _ in range(4 * CONNECTIONS):
        connect(port, stack, first_bytes)
    assert is_answered(connect(port, stack, REQUEST))


def test_a_slow_but_steady_client_times_out() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reader = webworker.ClientReader(ours)
        reader.allow(0.2)
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            while time.monotonic() - began < 20:
                theirs.send(b"a")
                assert reader.chunk() == b"a"
        with pytest.raises(TimeoutError):
            reader.chunk()
