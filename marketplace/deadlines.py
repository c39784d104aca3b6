"""HTTP requests that end by a deadline, whatever the other side does.

The timeouts of ``requests`` are for a single read: a server that sends a byte every few seconds is
never late. Here a request runs in a thread of its own. When its time is over, its connection is
shut down and the caller goes on; this covers names, connecting, TLS, headers and body alike.
"""

import os
import socket
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar, cast

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

Result = TypeVar("Result")
THREAD_NAME: Final = "marketplace-request"


class DeadlineExceeded(Exception):
    """The request did not end in time. Nothing of its answer is used."""


class DeadlineRunner:
    """Makes requests, one after the other, each of which ends by a deadline.

    They can be cut off in the middle where they use a session with an ``Adapter``. The thread is
    kept from one request to the next, and ends with its caller or with a request that was cut off.
    """

    def __init__(self) -> None:
        self._thread: SimpleQueue[_Request | None] | None = None

    def within(self, seconds: float, request: Callable[[], Result]) -> Result:
        """What *request* returns or raises; DeadlinePassed where that takes *seconds* or more."""
        call = _Call()
        outcome: SimpleQueue[tuple[Result, None] | tuple[None, BaseException]] = SimpleQueue()
        self._started().put(_Request(call, request, outcome))
        try:
            result, error = outcome.get(timeout=max(seconds, 0.0))
        except BaseException as given_up:
            call.hang_up()
            self._leave()
            if isinstance(given_up, Empty):
                raise DeadlineExceeded from None
            raise
        if error is not None:
            try:
                raise error
            finally:
                # Its traceback leads here: a circle would keep the caller and its thread alive.
                del error
        return cast("Result", result)

    def _started(self) -> "SimpleQueue[_Request | None]":
        if self._thread is None:
            self._thread = SimpleQueue()
            weakref.finalize(self, self._thread.put, None)
            args = (self._thread,)
            threading.Thread(target=_run, args=args, name=THREAD_NAME, daemon=True).start()
        return self._thread

    def _leave(self) -> None:
        """Use another thread for the next request; this one ends when its request has."""
        assert self._thread is not None
        self._thread.put(None)
        self._thread = None


class _Request(NamedTuple):
    call: "_Call"
    make: Callable[[], Any]
    outcome: SimpleQueue[Any]


def _run(requests: "SimpleQueue[_Request | None]") -> None:
    while (request := requests.get()) is not None:
        _thread.call = request.call
        try:
            request.outcome.put((request.make(), None))
        except BaseException as error:
            request.outcome.put((None, error))
        request.call.close()
        # It holds what the caller may be done with by now.
        del request


class _Call:
    """The connections that one request uses, by handles of their own: a socket changes hands when
    TLS begins, and leaves its connection when that is closed behind the headers."""

    def __init__(self) -> None:
        self._handles: list[socket.socket] = []
        self._is_cut = False
        self._lock = threading.Lock()

    def attach(self, connected: socket.socket) -> None:
        with self._lock:
            self._handles.append(socket.socket(fileno=os.dup(connected.fileno())))
        if self._is_cut:
            # It was connected too late.
            self.hang_up()

    def hang_up(self) -> None:
        with self._lock:
            self._is_cut = True
            for handle in self._handles:
                with suppress(OSError):
                    handle.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with self._lock:
            for handle in self._handles:
                handle.close()
            self._handles.clear()


class _Thread(threading.local):
    call: _Call | None = None


_thread = _Thread()


def _attach(connected: socket.socket | None) -> None:
    if _thread.call is not None and connected is not None:
        _thread.call.attach(connected)


class _Connection(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        connected = super()._new_conn()
        _attach(connected)
        return connected

    def request(self, *args: Any, **kwargs: Any) -> None:
        # One that was kept from the request before.
        _attach(self.sock)
        super().request(*args, **kwargs)


class _TLSConnection(_Connection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


class DeadlineAdapter(HTTPAdapter):
    """Makes connections that a ``Caller`` can shut down."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}
