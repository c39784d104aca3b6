"""The web worker: gunicorn's gevent worker, made fair between connections."""

import errno
import gc
import socket
import time
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
from gunicorn.workers.ggevent import GeventWorker

from config import gunicorn

# Seconds that a client may take for the head of a request once it began, and that it may be
# silent in the middle of a body or not take what we send.
HEAD_TIMEOUT = 10
SILENCE_TIMEOUT = 30
# What of a body that nobody wanted is read away, so that the client sees our answer.
LINGER_BYTES = 8 * 1024 * 1024
LINGER_SECONDS = 2.0
READ_SIZE = 64 * 1024

GONE = {errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF, errno.ETIMEDOUT}


class Worker(GeventWorker):  # type: ignore[misc]
    """Serves HTTP/1 connections, each in a greenlet of its own.

    After each request a connection gives way to the others. gevent switches only where a read
    would block, so a client that keeps its next request ready would be served on and on while
    others wait for seconds.
    """

    def init_process(self) -> None:
        self._idle: set[Any] = set()
        self._stopping = Event()
        super().init_process()

    def load_wsgi(self) -> None:
        super().load_wsgi()
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
        for client in list(self._idle):
            client.shutdown(socket.SHUT_RD)
        with _within(self.cfg.graceful_timeout):
            for server in servers:
                server.pool.join()  # type: ignore[union-attr]

    def _listen(self, listener: Any) -> StreamServer:
        listener.setblocking(1)
        pool = Pool(self.worker_connections)
        server = StreamServer(listener, handle=partial(self.handle, listener), spawn=pool)
        if not gunicorn.SPREADS_CONNECTIONS and self.cfg.workers > 1:
            # Leave connections on the shared socket to the others.
            server.max_accept = 1
        server.start()
        return server

    def handle_exit(self, sig: int, frame: Any) -> None:
        super().handle_exit(sig, frame)
        self._stopping.set()

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        client.settimeout(SILENCE_TIMEOUT)
        parser = RequestParser(self.cfg, client, addr)
        request = None
        try:
            name = listener.getsockname()
            while request := self._next_request(parser, client):
                self.handle_request(name, request, client, addr)
                if not self._finish(parser, client):
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
            util.close(client)

    def _next_request(self, parser: Any, client: Any) -> Any:
        """The connection's next request; None or TimeoutError where there is none to come."""
        if not self.alive:
            return None
        if not parser.unreader.buf.getbuffer().nbytes:
            self._idle.add(client)
            try:
                wait_read(client.fileno(), timeout=self.cfg.keepalive)
            finally:
                self._idle.discard(client)
        # TimeoutError, as from a socket: whoever calls us closes the connection.
        with gevent.Timeout(HEAD_TIMEOUT, TimeoutError):
            return next(parser)

    def _finish(self, parser: Any, client: Any) -> bool:
        """Read what is left of the body; False where that is too much and the connection ends."""
        if parser.finish_body(deadline=time.monotonic() + LINGER_SECONDS):
            return True
        # Closing while unread data waits would reset the connection, and the client could lose
        # the answer that told it why. So the rest is thrown away for a while.
        with _within(LINGER_SECONDS):
            client.shutdown(socket.SHUT_WR)
            left = LINGER_BYTES
            while left > 0 and (data := client.recv(READ_SIZE)):
                left -= len(data)
        return False


def _within(seconds: float) -> Any:
    """A block that is left silently once its time is up."""
    return gevent.Timeout(seconds, False)  # type: ignore[arg-type]
