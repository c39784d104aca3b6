"""Hands requests from ingestion processes to page processes, which share one port.

Ingestion processes take all connections and accept data. Any other request may compute for
seconds, and everybody who is connected to its process would wait for that. So an ingestion process
lends the connection to a page process for that one request, over a Unix socket. It keeps its own
descriptor meanwhile: closed, it would stay registered for events in the kernel.
"""

import re
import socket
from contextlib import ExitStack, suppress

# The kinds of processes, and of requests. A request of no kind is served by whoever reads it.
INGESTION, PAGES, ANY = "ingestion", "pages", ""

_DOORS = re.compile(
    rb"/v2/(?:identify|group|track)|/v1/(?:users|groups|events)|/segment(?:/v1/[a-z]+)?"
)
# What load balancers ask each machine says whether data is accepted, however busy the pages are.
_OF_EITHER = {b"/healthz", b"/readyz"}
# A request line that is longer than this is refused, whatever it asks for.
MAX_REQUEST_LINE = 8190

# What was read of the request already goes along.
_LONGEST_MESSAGE = 64 * 1024
# How much may wait for the page processes; the system may allow less.
_QUEUE_BYTES = 256 * 1024
# Says that the connection goes on. What was read of the next request follows.
_GOES_ON = b"+"


def process_kind(path: bytes) -> str:
    """The kind of process that serves the path, as a client spells it.

    Spelled in another way, an ingestion request counts as a page, and is accepted there.
    """
    if _DOORS.fullmatch(path):
        return INGESTION
    return ANY if path in _OF_EITHER else PAGES


def process_kind_of_head(head: bytes) -> str | None:
    """The kind of the request that begins like this; None while that is not known."""
    words = head.split(b" ", 2)
    if len(words) == 3:
        return process_kind(words[1].partition(b"?")[0])
    # The server refuses these.
    is_broken = b"\n" in head.lstrip() or len(head) > MAX_REQUEST_LINE
    return ANY if is_broken else None


class LentConnection:
    """A connection that a page process serves for one request, and what was read of that."""

    def __init__(self, client: socket.socket, reply: socket.socket, data: bytes) -> None:
        self.client = client
        self.data = data
        self._reply = reply

    def give_back(self, data: bytes) -> None:
        """The connection goes on, with this already read. Its owner may have gone."""
        with suppress(OSError):
            self._reply.sendall(_GOES_ON + data)

    def close(self) -> None:
        """Unless the connection was given back, its owner closes it, as when this process dies."""
        self.client.close()
        self._reply.close()


class HandoverQueue:
    """Connections that wait for a page process. Make it before forking.

    It outlives the page processes: what waits for one that was killed is for its replacement.
    """

    def __init__(self) -> None:
        self._writer, self._reader = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for end in (self._writer, self._reader):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _QUEUE_BYTES)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _QUEUE_BYTES)

    def fileno(self) -> int:
        """What to wait for: it is readable while a connection waits."""
        return self._reader.fileno()

    def lend(self, client: socket.socket, data: bytes) -> socket.socket | None:
        """Have a page process answer the request, of which *data* was read; None where it is full.

        ``returned`` waits at the socket for what becomes of the connection.
        """
        if len(data) > _LONGEST_MESSAGE:
            return None
        with ExitStack() as stack, suppress(OSError):
            ours, theirs = (stack.enter_context(end) for end in socket.socketpair())
            socket.send_fds(self._writer, [data], [client.fileno(), theirs.fileno()])
            stack.pop_all()
            theirs.close()
            return ours
        return None

    def take(self) -> LentConnection | None:
        """The connection that has waited the longest; None where another process took it."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._reader, _LONGEST_MESSAGE, 2)
        except OSError:
            return None
        sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        if len(sockets) < 2:
            # This process may open no more files; the owner closes the connection.
            for one in sockets:
                one.close()
            return None
        client, reply = sockets
        return LentConnection(client, reply, data)


def wait_until_returned(reply: socket.socket) -> bytes | None:
    """Wait until a lent connection is returned: what was read of its next request.

    None where the connection has ended there.
    """
    said = b""
    with reply, suppress(ConnectionResetError):
        while data := reply.recv(_LONGEST_MESSAGE):
            said += data
    return said.removeprefix(_GOES_ON) if said else None
