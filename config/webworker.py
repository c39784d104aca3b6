"""The web worker: gunicorn's gevent worker, made fair between connections."""

import errno
import time
from typing import Any

import gevent
from gevent.event import Event
from gunicorn import util
from gunicorn.http import errors
from gunicorn.http.parser import RequestParser
from gunicorn.workers.ggevent import GeventWorker

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
        super().init_process()

    def run(self) -> None:
        self._stopping = Event()
        gevent.spawn(self._close_idle_at_stop)
        super().run()

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
        """The connection's next request; None where it has been idle for too long."""
        if not self.alive:
            return None
        if not parser.unreader.buf.getbuffer().nbytes:
            self._idle.add(client)
            try:
                with _within(self.cfg.keepalive):
                    gevent.socket.wait_read(client.fileno())
            finally:
                self._idle.discard(client)
        with _within(HEAD_TIMEOUT):
            return next(parser)
        return None

    def _finish(self, parser: Any, client: Any) -> bool:
        """Read what is left of the body; False where that is too much and the connection ends."""
        if parser.finish_body(deadline=time.monotonic() + LINGER_SECONDS):
            return True
        # Closing while unread data waits would reset the connection, and the client could lose
        # the answer that told it why. So the rest is thrown away for a while.
        with _within(LINGER_SECONDS):
            client.shutdown(1)
            left = LINGER_BYTES
            while left > 0 and (data := client.recv(READ_SIZE)):
                left -= len(data)
        return False

    def _close_idle_at_stop(self) -> None:
        self._stopping.wait()
        for client in list(self._idle):
            client.shutdown(0)


def _within(seconds: float) -> Any:
    """A block that is left silently once its time is up."""
    return gevent.Timeout(seconds, False)  # type: ignore[arg-type]
