"""Requests that end at a deadline, whatever the server does.

The timeouts of requests and urllib3 limit each read: a server that sends a byte every few seconds
never exceeds them. Here a request runs in a thread of its own. At the deadline its sockets are shut
down and the caller continues. This covers name resolution, connecting, TLS, headers, and body.
"""

import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, Final, TypeVar

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

Result = TypeVar("Result")
THREAD_NAME: Final = "marketplace-request"


class DeadlineExceeded(Exception):
    """The request did not end in time. Its response is discarded."""


class DeadlineRunner:
    """Runs requests one after the other, each with a deadline.

    Only requests of a session with a ``DeadlineAdapter`` are cut off midway. The thread serves one
    request after the other, and ends with this object or with a request that was cut off.
    """

    def __init__(self) -> None:
        self._executor = _new_executor()

    def run(
        self, seconds: float, request: Callable[[], Result], sockets: "Sockets | None" = None
    ) -> Result:
        """Return or raise what *request* does; raise DeadlineExceeded after *seconds*.

        A request in several steps passes the same *sockets* to each of them, and closes them.
        """
        is_shared = sockets is not None
        sockets = sockets or Sockets()
        future = self._executor.submit(_run, sockets, request, is_shared)
        is_done = False
        try:
            is_done = bool(wait([future], max(seconds, 0.0)).done)
        finally:
            if not is_done:
                sockets.shut_down()
                self._executor.shutdown(wait=False)
                self._executor = _new_executor()
        if not is_done:
            raise DeadlineExceeded
        try:
            return future.result()
        finally:
            # An error's traceback leads here: the cycle would keep this object and its thread.
            del future


def _new_executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=THREAD_NAME)


def _run(sockets: "Sockets", request: Callable[[], Result], is_shared: bool) -> Result:
    _thread.sockets = sockets
    try:
        return request()
    finally:
        _thread.sockets = None
        if not is_shared:
            sockets.close()


class Sockets:
    """Duplicates of the sockets that a request uses.

    The request's own cannot be used to cut it off: TLS wraps the socket in another object, and
    closing the connection detaches it before the body is read.
    """

    def __init__(self) -> None:
        self._duplicates: list[socket.socket] = []
        self._is_shut_down = False
        self._lock = threading.Lock()

    def add(self, connection: socket.socket) -> None:
        with self._lock:
            self._duplicates.append(socket.socket(fileno=os.dup(connection.fileno())))
        if self._is_shut_down:
            # It connected after the deadline.
            self.shut_down()

    def shut_down(self) -> None:
        with self._lock:
            self._is_shut_down = True
            for duplicate in self._duplicates:
                with suppress(OSError):
                    duplicate.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with self._lock:
            for duplicate in self._duplicates:
                duplicate.close()
            self._duplicates.clear()


class _Thread(threading.local):
    sockets: Sockets | None = None


_thread = _Thread()


def _register(connection: socket.socket | None) -> None:
    if _thread.sockets is not None and connection is not None:
        _thread.sockets.add(connection)


class _Connection(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        connection = super()._new_conn()
        _register(connection)
        return connection

    def request(self, *args: Any, **kwargs: Any) -> None:
        # A connection that was kept open by the previous request.
        _register(self.sock)
        super().request(*args, **kwargs)


class _TLSConnection(_Connection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


_POOL_CLASSES: dict[str, type[HTTPConnectionPool]] = {"http": _Pool, "https": _TLSPool}


class DeadlineAdapter(HTTPAdapter):
    """Opens connections that a ``DeadlineRunner`` can shut down."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOL_CLASSES

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = _POOL_CLASSES
        return manager
