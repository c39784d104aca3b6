"""Hands requests from ingestion processes to page processes, which share one port.

Ingestion processes accept all connections and all data. Any other request may compute for
seconds, and would delay every other connection of its process. So an ingestion process lends the
connection to a page process for that one request, over a Unix socket. It keeps its own descriptor
open meanwhile, because a closed one would stay registered for events in the kernel.
"""

import re
import socket
from contextlib import ExitStack, suppress

# The kinds of processes and of requests. Any process serves a request of kind ANY.
INGESTION, PAGES, ANY = "ingestion", "pages", ""

_DOORS = re.compile(
    rb"(?:/v2/(?:identify|group|track|batch)"
    rb"|(?:/segment)?(?:/beacon)?/v1/(?!accounts\b)[a-z]+"
    # What SDKs load before they send. It needs no database.
    rb"|(?:/segment)?(?:/v1/projects/[^/]+/settings|/sourceConfig"
    rb"|/analytics\.js/.+|/analytics-next/.+)"
    rb"|/segment)/?"
)
# Health checks tell load balancers whether data is accepted, so busy pages must not delay them.
_HEALTH_PATHS = {b"/healthz", b"/readyz"}
# Bytes. The server refuses longer request lines.
MAX_REQUEST_LINE = 8190

# Bytes of a request that can be handed over together with its connection.
_MAX_MESSAGE_BYTES = 64 * 1024
# Bytes that may wait for the page processes. The system may permit less.
_QUEUE_BYTES = 256 * 1024
# Says that the connection stays open. The beginning of the next request follows.
_STAYS_OPEN = b"+"


def process_kind(path: bytes) -> str:
    """Return the kind of process that serves *path*, as the client spelled it.

    An ingestion path in another spelling counts as a page. Page processes accept its data, too.
    """
    if _DOORS.fullmatch(path):
        return INGESTION
    return ANY if path in _HEALTH_PATHS else PAGES


def process_kind_of_head(head: bytes) -> str | None:
    """Return the kind of the request that begins with *head*, or None if it needs more bytes."""
    words = head.split(b" ", 2)
    if len(words) == 3:
        return process_kind(words[1].partition(b"?")[0])
    # The server refuses such a request.
    is_broken = b"\n" in head.lstrip() or len(head) > MAX_REQUEST_LINE
    return ANY if is_broken else None


class LentConnection:
    """A connection lent to a page process for one request, with the bytes already read of it."""

    def __init__(self, client: socket.socket, reply: socket.socket, data: bytes) -> None:
        self.client = client
        self.data = data
        self._reply = reply

    def give_back(self, data: bytes) -> None:
        """Return the open connection to its owner, with *data* already read of the next request."""
        # The owner may have died.
        with suppress(OSError):
            self._reply.sendall(_STAYS_OPEN + data)

    def close(self) -> None:
        """Close our end. The owner closes a connection that was not given back."""
        self.client.close()
        self._reply.close()


class HandoverQueue:
    """Connections that wait for a page process. Create it before forking.

    It outlives the page processes: the replacement of a killed one serves what waited.
    """

    def __init__(self) -> None:
        self._writer, self._reader = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for end in (self._writer, self._reader):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _QUEUE_BYTES)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _QUEUE_BYTES)

    def fileno(self) -> int:
        """Return the descriptor that is readable while a connection waits."""
        return self._reader.fileno()

    def lend(self, client: socket.socket, data: bytes) -> socket.socket | None:
        """Queue the connection for a page process, with *data* already read of its request.

        Return the socket to pass to ``wait_until_returned``, or None if the queue is full.
        """
        if len(data) > _MAX_MESSAGE_BYTES:
            return None
        with ExitStack() as stack, suppress(OSError):
            ours, theirs = (stack.enter_context(end) for end in socket.socketpair())
            socket.send_fds(self._writer, [data], [client.fileno(), theirs.fileno()])
            stack.pop_all()
            theirs.close()
            return ours
        return None

    def take(self) -> LentConnection | None:
        """Return the connection that has waited longest, or None if another process took it."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._reader, _MAX_MESSAGE_BYTES, 2)
        except OSError:
            return None
        sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        if len(sockets) < 2:
            # This process has too many open files. The owner closes the connection.
            for received in sockets:
                received.close()
            return None
        client, reply = sockets
        return LentConnection(client, reply, data)


def wait_until_returned(reply: socket.socket) -> bytes | None:
    """Wait for a lent connection. Return the bytes already read of its next request.

    Return None if the page process closed the connection.
    """
    message = b""
    with reply, suppress(ConnectionResetError):
        while data := reply.recv(_MAX_MESSAGE_BYTES):
            message += data
    return message.removeprefix(_STAYS_OPEN) if message else None
