"""The web worker: gunicorn's gevent worker, made fair between connections."""

import errno
import gc
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
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

from config.server import gunicorn, handover, uri_too_long

logger = logging.getLogger(__name__)

# Seconds that a client may take for the head of a request once it began, and then for its body;
# and that it may be silent in the middle of either or not take what we send.
HEAD_TIMEOUT = 10
BODY_TIMEOUT = 60
SILENCE_TIMEOUT = 30
# So many places for new connections are kept free, at the cost of those that wait the longest.
SPARE_CONNECTIONS = 50
# An ingestion process has at most so many connections with the page processes.
MAX_LENT_CONNECTIONS = 500
# What of a body that nobody wanted is read away, so that the client sees our answer.
LINGER_BYTES = 8 * 1024 * 1024
LINGER_SECONDS = 2.0
READ_SIZE = 64 * 1024

DISCONNECT_ERRNOS = {errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF, errno.ETIMEDOUT}


class ClientReader(SocketUnreader):  # type: ignore[misc]
    """Reads from a client that may take only so long, and knows whether we wait for it.

    *data* was read already.
    """

    def __init__(self, client: Any, data: bytes = b"") -> None:
        super().__init__(client)
        self.unread(data)
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

    def kind_of_request(self) -> str:
        """The kind of the request that is about to be parsed."""
        head = data = self.read()
        while (kind := handover.process_kind_of_head(head)) is None and data:
            data = self.read()
            head += data
        # As unread() does with an empty buffer, for a third of its time.
        self.buf.write(head)
        return kind or handover.ANY

    def wait_for_request(self, seconds: float) -> None:
        """Wait for the first byte of a request; TimeoutError where none comes."""
        if self.buf.getbuffer().nbytes:
            return
        self.is_idle = self.is_waiting = True
        try:
            wait_read(self.sock.fileno(), timeout=seconds)
        finally:
            self.is_idle = self.is_waiting = False


class WebWorker(GeventWorker):  # type: ignore[misc]
    """Serves HTTP/1 connections, each in a greenlet of its own.

    After each request a connection gives way to the others. gevent switches only where a read
    would block, so a client that keeps its next request ready would be served on and on while
    others wait for seconds.

    Where its connections become too many it closes those that wait for their clients, whoever began
    to wait first: clients that hold connections without using them cannot keep others out.

    An ingestion process lends the connections of other requests to page processes, which take no
    connections of their own.
    """

    # Set by config.server.gunicorn before the fork: what this process serves, the server's address,
    # and the queue where it has processes of both kinds.
    kind = handover.ANY
    address: Any = None
    pages: handover.HandoverQueue | None = None
    wsgi: Any

    def init_process(self) -> None:
        # In the order in which they began to wait for their request.
        self._open: dict[Any, ClientReader] = {}
        self._pool = Pool(self.worker_connections)
        self._lent = 0
        self._stopping = Event()
        super().init_process()

    def load_wsgi(self) -> None:
        super().load_wsgi()
        # gevent itself would write the traceback line by line, in no format.
        gevent.get_hub().print_exception = _log_failure  # type: ignore[method-assign,assignment]
        if self.kind == handover.INGESTION:
            # It imports Django, which only a process that is patched may do.
            from config.server.ingestion_only import refuse_pages

            self.wsgi = refuse_pages(self.wsgi, has_page_processes=self.pages is not None)
        # What is loaded stays. Without this every full collection looks through all of it, and
        # all requests wait for some 50 ms.
        gc.collect()
        gc.freeze()

    def run(self) -> None:
        servers = [self._listen(listener) for listener in self.sockets]
        borrower = gevent.spawn(self._borrow)
        while self.alive:
            self.notify()
            self._stopping.wait(1.0)
        for server in servers:
            server.close()
        borrower.kill()
        for client in [client for client, reader in self._open.items() if reader.is_idle]:
            _read_no_more(client)
        with _within(self.cfg.graceful_timeout):
            self._pool.join()

    def _listen(self, listener: Any) -> StreamServer:
        listener.setblocking(1)
        server = StreamServer(listener, handle=self._serve, spawn=self._pool)
        if not gunicorn.HAS_BALANCED_REUSEPORT and self.cfg.workers > 1:
            # Leave connections on the shared socket to the others.
            server.max_accept = 1
        server.start()
        return server

    def _borrow(self) -> None:
        """Serve what ingestion processes lend, where this is a page process."""
        while self.pages and self.kind == handover.PAGES:
            wait_read(self.pages.fileno())
            if loan := self.pages.take():
                self._pool.spawn(self._serve_loan, loan)
            # One at a time, so that a process that has nothing else to do takes the next one.
            gevent.sleep(0)

    def handle_exit(self, sig: int, frame: Any) -> None:
        super().handle_exit(sig, frame)
        self._stopping.set()

    def _serve(self, client: Any, addr: Any) -> None:
        """Serve a connection until it ends."""
        reader = ClientReader(client)
        with self._connection(reader, addr) as parser:
            while self._has_request(reader):
                if not (self._lend(reader) or self._answer(parser, reader, addr)):
                    break
                gevent.sleep(0)

    def _serve_loan(self, loan: handover.LentConnection) -> None:
        """Answer one request."""
        reader = ClientReader(loan.client, loan.data)
        # The client may have gone, and then has no address.
        with closing(loan), suppress(OSError):
            addr = loan.client.getpeername()
            with self._connection(reader, addr) as parser:
                self._note(reader)
                reader.allow(HEAD_TIMEOUT)
                if self._answer(parser, reader, addr):
                    loan.give_back(reader.take_buffered())

    @contextmanager
    def _connection(self, reader: ClientReader, addr: Any) -> Iterator[RequestParser]:
        """The parser of the connection, which is closed afterwards whatever happens."""
        client = reader.sock
        if self._pool.free_count() < SPARE_CONNECTIONS:
            self._make_room()
        client.settimeout(SILENCE_TIMEOUT)
        parser = RequestParser(self.cfg, client, addr)
        parser.unreader = reader
        try:
            yield parser
        except (errors.NoMoreData, StopIteration, TimeoutError):
            pass
        except OSError as error:
            if error.errno not in DISCONNECT_ERRNOS:
                self.log.exception("A connection failed.")
        except Exception as error:
            self.handle_error(parser.mesg, client, addr, error)
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

    def _has_request(self, reader: ClientReader) -> bool:
        """Wait for the connection's next request; False or TimeoutError where it gets no more."""
        if not self.alive:
            return False
        self._note(reader)
        reader.wait_for_request(self.cfg.keepalive)
        # TimeoutError, as from a socket: whoever calls us closes the connection.
        reader.allow(HEAD_TIMEOUT)
        return True

    def _note(self, reader: ClientReader) -> None:
        self._open.pop(reader.sock, None)
        self._open[reader.sock] = reader

    def _answer(self, parser: Any, reader: ClientReader, addr: Any) -> bool:
        """Answer the next request; whether the connection goes on afterwards."""
        request = next(parser)
        reader.allow(BODY_TIMEOUT)
        self.handle_request(self.address, request, reader.sock, addr)
        return self._finish(parser, reader)

    def _lend(self, reader: ClientReader) -> bool:
        """Have a page process answer the next request; False where it is to be answered here.

        Raises StopIteration where the connection ends with it.
        """
        if not self.pages or reader.kind_of_request() != handover.PAGES:
            return False
        data = reader.take_buffered()
        room = self._lent < MAX_LENT_CONNECTIONS
        reply = self.pages.lend(reader.sock, data) if room else None
        if reply is None:
            reader.unread(data)
            return False
        self._lent += 1
        try:
            more = handover.wait_until_returned(reply)
        finally:
            self._lent -= 1
        if more is None:
            raise StopIteration
        reader.unread(more)
        return True

    def _finish(self, parser: Any, reader: ClientReader) -> bool:
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
            client.sendall(uri_too_long.error_response(self.cfg.limit_request_line))
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
