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

from config.server import gunicorn, handover, memory, unreadable
from config.server.start_order import StartOrder

logger = logging.getLogger(__name__)

# Seconds for the head of a request, counted from its first byte, and then for its body.
HEAD_TIMEOUT = 10
BODY_TIMEOUT = 60
# Seconds for which a client may send nothing in the middle of a request, or take nothing of a
# response.
SILENCE_TIMEOUT = 30
# Seconds for what a page process that takes too much memory still answers. Gunicorn kills a process
# that is silent for its timeout.
PAGE_RETIREMENT = 45
# Places kept free for new connections. The connections that have waited longest make room.
SPARE_CONNECTIONS = 50
# Connections that an ingestion process may lend to page processes at once.
MAX_LENT_CONNECTIONS = 500
# Limits for reading and discarding an unwanted body, so that the client sees our response.
LINGER_BYTES = 8 * 1024 * 1024
LINGER_SECONDS = 2.0
READ_SIZE = 64 * 1024

# Errors of the server's parser that no client causes.
FAULTS_OF_OURS = (
    errors.ConfigurationProblem,
    errors.InvalidResponseHeader,
    errors.InvalidResponseHeaderName,
)

DISCONNECT_ERRNOS = {errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF, errno.ETIMEDOUT}


class ClientReader(SocketUnreader):  # type: ignore[misc]
    """Reads from a client until a deadline, and knows whether we are waiting for the client.

    *data* has already been read.
    """

    def __init__(self, client: Any, data: bytes = b"") -> None:
        super().__init__(client)
        self.unread(data)
        self.is_idle = False
        self.is_waiting = False
        self._deadline = 0.0

    def allow(self, seconds: float) -> None:
        """Set the deadline of all further reads."""
        self._deadline = time.monotonic() + seconds

    def chunk(self, size_hint: int | None = None) -> bytes:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        self.sock.settimeout(min(remaining, SILENCE_TIMEOUT))
        self.is_waiting = True
        try:
            data: bytes = super().chunk(size_hint)
            return data
        finally:
            self.is_waiting = False
            self.sock.settimeout(SILENCE_TIMEOUT)

    def kind_of_request(self) -> str:
        """Return the kind of the next request, without consuming it."""
        head = data = self.read()
        while (kind := handover.process_kind_of_head(head)) is None and data:
            data = self.read()
            head += data
        # The same as unread() with an empty buffer, in a third of the time.
        self.buf.write(head)
        return kind or handover.ANY

    def wait_for_request(self, seconds: float) -> None:
        """Wait for the first byte of a request. Raise TimeoutError if none comes."""
        if self.buf.getbuffer().nbytes:
            return
        self.is_idle = self.is_waiting = True
        try:
            wait_read(self.sock.fileno(), timeout=seconds)
        finally:
            self.is_idle = self.is_waiting = False


class WebWorker(GeventWorker):  # type: ignore[misc]
    """Serves HTTP/1 connections, each in a greenlet of its own.

    After each request a connection yields to the others. gevent switches only where a read would
    block, so a client that always has its next request ready would keep the others waiting for
    seconds.

    When a worker has too many connections, it closes the one that has waited longest for its
    client. So clients that hold connections without using them cannot keep others out.

    An ingestion process lends the connections of page requests to page processes, which accept no
    connections themselves.
    """

    # config.server.gunicorn sets these before the fork: the kind of this process, the server's
    # address, the order of the start, and the queue if there are processes of both kinds.
    kind = handover.ANY
    address: Any = None
    order: StartOrder = StartOrder()
    pages: handover.HandoverQueue | None = None
    # MiB; known once the application is loaded.
    memory_limit: int | None = None
    wsgi: Any

    def init_process(self) -> None:
        # Ordered by the time at which they began to wait for a request.
        self._open: dict[Any, ClientReader] = {}
        self._pool = Pool(self.worker_connections)
        self._lent = 0
        self._grace = self.cfg.graceful_timeout
        self._stopping = Event()
        # A request reads some twenty settings. Read as attributes, they save a tenth of its time.
        self.cfg.__dict__.update({name: item.get() for name, item in self.cfg.settings.items()})
        super().init_process()

    def load_wsgi(self) -> None:
        self.order.wait_to_load(self.kind)
        if self.kind == handover.INGESTION:
            # It imports Django, so it must come after gevent's patches.
            from config.server.without_pages import leave_out_pages

            leave_out_pages()
        super().load_wsgi()
        self.order.note_loaded(self.kind)
        # gevent would write the traceback to standard error, past the logging format.
        gevent.get_hub().print_exception = _log_failure  # type: ignore[method-assign,assignment]
        # These import Django, so they must come after gevent's patches.
        from django.conf import settings

        self.memory_limit = settings.WORKER_MEMORY_MB
        if self.kind == handover.INGESTION:
            from config.server.ingestion_only import refuse_pages

            self.wsgi = refuse_pages(self.wsgi, has_page_processes=self.pages is not None)
        # Without this each full collection would visit everything that is loaded, and delay all
        # requests by some 50 ms.
        gc.collect()
        gc.freeze()
        while self.alive and not self.order.may_serve():
            self.notify()

    def run(self) -> None:
        servers = [self._listen(listener) for listener in self.sockets]
        borrower = gevent.spawn(self._borrow)
        while self.alive:
            self.notify()
            self._stopping.wait(1.0)
            self._retire_if_too_large()
        for server in servers:
            server.close()
        borrower.kill()
        for client in [client for client, reader in self._open.items() if reader.is_idle]:
            _stop_reading(client)
        with _within(self._grace):
            self._pool.join()

    def _retire_if_too_large(self) -> None:
        """Stop, as for SIGTERM, before this process takes more memory than it may.

        It answers what it has accepted. The master starts its replacement, which takes over its
        socket, so new connections wait meanwhile and none is refused.
        """
        resident = memory.resident_bytes()
        if self.memory_limit and memory.is_too_large(resident, self.memory_limit):
            size = resident // memory.MEBIBYTE
            self.log.warning("A web process took %d MiB of memory; it is replaced.", size)
            self.alive = False
            if self.kind == handover.PAGES:
                # It accepts no connections, so nobody waits while it ends a long download.
                self._grace = PAGE_RETIREMENT

    def _listen(self, listener: Any) -> StreamServer:
        listener.setblocking(1)
        server = StreamServer(listener, handle=self._serve, spawn=self._pool)
        if not gunicorn.HAS_BALANCED_REUSEPORT and self.cfg.workers > 1:
            # Leave connections on the shared socket to the others.
            server.max_accept = 1
        server.start()
        return server

    def _borrow(self) -> None:
        """Serve the connections that ingestion processes lend, if this is a page process."""
        while self.pages and self.kind == handover.PAGES:
            wait_read(self.pages.fileno())
            if loan := self.pages.take():
                self._pool.spawn(self._serve_loan, loan)
            # Yield, so that an idle process can take the next one.
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
        """Answer one request on a lent connection."""
        reader = ClientReader(loan.client, loan.data)
        # A client that has disconnected has no address.
        with closing(loan), suppress(OSError):
            addr = loan.client.getpeername()
            with self._connection(reader, addr) as parser:
                self._note(reader)
                reader.allow(HEAD_TIMEOUT)
                if self._answer(parser, reader, addr):
                    loan.give_back(reader.take_buffered())

    @contextmanager
    def _connection(self, reader: ClientReader, addr: Any) -> Iterator[RequestParser]:
        """Yield the connection's parser, and close the connection afterwards."""
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
        """Close the connection that has waited longest for its client, if any is waiting."""
        for client, reader in self._open.items():
            if reader.is_waiting:
                del self._open[client]
                _stop_reading(client)
                return

    def _has_request(self, reader: ClientReader) -> bool:
        """Wait for the connection's next request. Return False if this process is stopping."""
        if not self.alive:
            return False
        self._note(reader)
        reader.wait_for_request(self.cfg.keepalive)
        reader.allow(HEAD_TIMEOUT)
        return True

    def _note(self, reader: ClientReader) -> None:
        self._open.pop(reader.sock, None)
        self._open[reader.sock] = reader

    def _answer(self, parser: Any, reader: ClientReader, addr: Any) -> bool:
        """Answer the next request. Return whether the connection stays open."""
        request = next(parser)
        reader.allow(BODY_TIMEOUT)
        self.handle_request(self.address, request, reader.sock, addr)
        return self._finish(parser, reader)

    def _lend(self, reader: ClientReader) -> bool:
        """Have a page process answer the next request. Return False if this process must do it.

        Raise StopIteration if the page process closed the connection.
        """
        if not self.pages or reader.kind_of_request() != handover.PAGES:
            return False
        data = reader.take_buffered()
        has_room = self._lent < MAX_LENT_CONNECTIONS
        reply = self.pages.lend(reader.sock, data) if has_room else None
        if reply is None:
            reader.unread(data)
            return False
        self._lent += 1
        try:
            next_data = handover.wait_until_returned(reply)
        finally:
            self._lent -= 1
        if next_data is None:
            raise StopIteration
        reader.unread(next_data)
        return True

    def _finish(self, parser: Any, reader: ClientReader) -> bool:
        """Read the rest of the body. Return False if it is too long for the connection to stay."""
        reader.allow(LINGER_SECONDS)
        if parser.finish_body(deadline=time.monotonic() + LINGER_SECONDS):
            return True
        _discard_input(reader.sock)
        return False

    def handle_error(self, request: Any, client: Any, addr: Any, error: BaseException) -> None:
        if not isinstance(error, errors.ParseException) or isinstance(error, FAULTS_OF_OURS):
            super().handle_error(request, client, addr, error)
            return
        # The client may have disconnected.
        with suppress(OSError):
            client.sendall(unreadable.error_response(error, self.cfg.limit_request_line))
            _discard_input(client)


def _discard_input(client: Any) -> None:
    """Read and discard what the client still sends, for a limited time.

    Closing with unread data would reset the connection, and the client could lose our response.
    """
    with _within(LINGER_SECONDS):
        client.shutdown(socket.SHUT_WR)
        remaining = LINGER_BYTES
        while remaining > 0 and (data := client.recv(READ_SIZE)):
            remaining -= len(data)


def _log_failure(context: object, *failure: Any) -> None:
    """Log an exception that a greenlet did not catch."""
    logger.error("%r failed", context, exc_info=failure)


def _stop_reading(client: Any) -> None:
    """End the connection as if its client had closed it. What it sent before can still be read."""
    # The client may have disconnected.
    with suppress(OSError):
        client.shutdown(socket.SHUT_RD)


def _within(seconds: float) -> Any:
    """Return a context manager that leaves its block silently after *seconds*."""
    return gevent.Timeout(seconds, False)  # type: ignore[arg-type]
