"""The web worker: gunicorn's gevent worker, made fair between connections."""

import errno
import gc
import logging
import socket
import time
from contextlib import suppress
from functools import partial
from typing import Any

import gevent
from gevent.event import Event
from gevent.pool import Pool
from gevent.server import StreamServer
from gevent.socket import wait_read
from gunicorn import util
from gunicorn.http import errors
from gunicorn.http.parser import RequestParser
from gunicorn.http.unreader import SocketUnreader
from gunicorn.workers.ggevent import GeventWorker

from config import gunicorn, long_addresses

logger = logging.getLogger(__name__)

# Seconds that a client may take for the head of a request once it began, and then for its body;
# and that it may be silent in the middle of either or not take what we send.
HEAD_TIMEOUT = 10
BODY_TIMEOUT = 60
SILENCE_TIMEOUT = 30
# So many places for new connections are kept free, at the cost of those that wait the longest.
SPARE_CONNECTIONS = 50
# What of a body that nobody wanted is read away, so that the client sees our answer.
LINGER_BYTES = 8 * 1024 * 1024
LINGER_SECONDS = 2.0
READ_SIZE = 64 * 1024

GONE = {errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF, errno.ETIMEDOUT}


class Reader(SocketUnreader):  # type: ignore[misc]
    """Reads from a client that may take only so long, and knows whether we wait for it."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.is_idle = False
        self.is_waiting = False
        self._deadline = 0.0

    def allow(self, seconds: float) -> None:
        """What is read from now on must come within so many seconds."""
        self._deadline = time.monotonic() + seconds

    def chunk(self, size_hint: int | None = None) -> bytes:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.sock.settimeout(min(left, SILENCE_TIMEOUT))
        self.is_waiting = True
        try:
            data: bytes = super().chunk(size_hint)
            return data
        finally:
            self.is_waiting = False
            self.sock.settimeout(SILENCE_TIMEOUT)

    def wait_for_request(self, seconds: float) -> None:
        """Wait for the first byte of a request; TimeoutError where none comes."""
        self.is_idle = self.is_waiting = True
        try:
            wait_read(self.sock.fileno(), timeout=seconds)
        finally:
            self.is_idle = self.is_waiting = False


class Worker(GeventWorker):  # type: ignore[misc]
    """Serves HTTP/1 connections, each in a greenlet of its own.

    After each request a connection gives way to the others. gevent switches only where a read
    would block, so a client that keeps its next request ready would be served on and on while
    others wait for seconds.

    Where its connections become too many it closes those that wait for their clients, whoever began
    to wait first: clients that hold connections without using them cannot keep others out.
    """

    def init_process(self) -> None:
        # In the order in which they began to wait for their request.
        self._open: dict[Any, Reader] = {}
        self._stopping = Event()
        super().init_process()

    def load_wsgi(self) -> None:
        super().load_wsgi()
        # gevent itself would write the traceback line by line, in no format.
        gevent.get_hub().print_exception = _log_failure  # type: ignore[method-assign,assignment]
        # What is loaded stays. Without this every full collection looks through all of it, and
        # all requests wait for some 50 ms.
        gc.collect()
        gc.freeze()

    def run(self) -> None:
        servers = [self._listen(listener) for listener in self.sockets]
        while self.alive:
            self.notify()
            self._stopping.wait(1.0)
        for server in servers:
            server.close()
        for client in [client for client, reader in self._open.items() if reader.is_idle]:
            _read_no_more(client)
        with _within(self.cfg.graceful_timeout):
            for server in servers:
                server.pool.join()  # type: ignore[union-attr]

    def _listen(self, listener: Any) -> StreamServer:
        listener.setblocking(1)
        pool = Pool(self.worker_connections)
        server = StreamServer(listener, handle=partial(self.handle, listener, pool), spawn=pool)
        if not gunicorn.SPREADS_CONNECTIONS and self.cfg.workers > 1:
            # Leave connections on the shared socket to the others.
            server.max_accept = 1
        server.start()
        return server

    def handle_exit(self, sig: int, frame: Any) -> None:
        super().handle_exit(sig, frame)
        self._stopping.set()

    def handle(self, listener: Any, pool: Pool, client: Any, addr: Any) -> None:
        if pool.free_count() < SPARE_CONNECTIONS:
            self._make_room()
        client.settimeout(SILENCE_TIMEOUT)
        parser = RequestParser(self.cfg, client, addr)
        reader = parser.unreader = Reader(client)
        request = None
        try:
            name = listener.getsockname()
            while request := self._next_request(parser, reader):
                self.handle_request(name, request, client, addr)
                if not self._finish(parser, reader):
                    break
                gevent.sleep(0)
        except (errors.NoMoreData, StopIteration, TimeoutError):
            pass
        except OSError as error:
            if error.errno not in GONE:
                self.log.exception("A connection failed.")
        except Exception as error:
            self.handle_error(request, client, addr, error)
        finally:
            self._open.pop(client, None)
            util.close(client)

    def _make_room(self) -> None:
        """Close the connection that has waited for its client for the longest time, if any does."""
        for client, reader in self._open.items():
            if reader.is_waiting:
                del self._open[client]
                _read_no_more(client)
                return

    def _next_request(self, parser: Any, reader: Reader) -> Any:
        """The connection's next request; None or TimeoutError where there is none to come."""
        if not self.alive:
            return None
        self._open.pop(reader.sock, None)
        self._open[reader.sock] = reader
        if not reader.buf.getbuffer().nbytes:
            reader.wait_for_request(self.cfg.keepalive)
        # TimeoutError, as from a socket: whoever calls us closes the connection.
        reader.allow(HEAD_TIMEOUT)
        request = next(parser)
        reader.allow(BODY_TIMEOUT)
        return request

    def _finish(self, parser: Any, reader: Reader) -> bool:
        """Read what is left of the body; False where that is too much and the connection ends."""
        client = reader.sock
        reader.allow(LINGER_SECONDS)
        if parser.finish_body(deadline=time.monotonic() + LINGER_SECONDS):
            return True
        _throw_away(client)
        return False

    def handle_error(self, request: Any, client: Any, addr: Any, error: BaseException) -> None:
        if not isinstance(error, errors.LimitRequestLine):
            super().handle_error(request, client, addr, error)
            return
        # It may have gone already.
        with suppress(OSError):
            client.sendall(long_addresses.response(self.cfg.limit_request_line))
            _throw_away(client)


def _throw_away(client: Any) -> None:
    """Read what the client still sends, for a while, so that it sees our answer.

    Closing while unread data waits would reset the connection, and the client could lose the
    answer that told it why.
    """
    with _within(LINGER_SECONDS):
        client.shutdown(socket.SHUT_WR)
        left = LINGER_BYTES
        while left > 0 and (data := client.recv(READ_SIZE)):
            left -= len(data)


def _log_failure(context: object, *failure: Any) -> None:
    """What a greenlet raised and nobody caught."""
    logger.error("%r failed", context, exc_info=failure)


def _read_no_more(client: Any) -> None:
    """Have the connection end as if its client had closed it; what it sent before is read."""
    # It may have gone already.
    with suppress(OSError):
        client.shutdown(socket.SHUT_RD)


def _within(seconds: float) -> Any:
    """A block that is left silently once its time is up."""
    return gevent.Timeout(seconds, False)  # type: ignore[arg-type]
