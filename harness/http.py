"""HTTP as clients speak it: one keep-alive connection, and statuses instead of exceptions."""

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing
from email.message import Message
from itertools import cycle
from types import MappingProxyType
from typing import Any, NamedTuple

from harness.processes import Failed
from harness.report import progress
from harness.threads import repeating

RESPONSE_TIMEOUT = 15.0
READ_INTERVAL = 0.2
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Address(NamedTuple):
    """Host and port of a web server."""

    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


class Response(NamedTuple):
    status: int
    body: bytes
    headers: Message


class Client:
    """One connection. When it breaks, the next request goes to the next address."""

    def __init__(
        self,
        *addresses: Address,
        headers: Mapping[str, str] = NO_HEADERS,
        timeout: float = RESPONSE_TIMEOUT,
    ) -> None:
        self.headers = dict(headers)
        self._addresses = cycle(addresses)
        self._timeout = timeout
        self._connection: http.client.HTTPConnection | None = None

    def request(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> Response | None:
        """Return the response, or None if there was none."""
        if self._connection is None:
            address = next(self._addresses)
            self._connection = http.client.HTTPConnection(*address, timeout=self._timeout)
        try:
            self._connection.request(method, path, body, {**self.headers, **headers})
            response = self._connection.getresponse()
            return Response(response.status, response.read(), response.headers)
        except (OSError, http.client.HTTPException):
            self.close()
            return None

    def status(self, path: str) -> int | None:
        response = self.request("GET", path)
        return response.status if response else None

    def read(self, path: str) -> bytes:
        """Return the body of a page. Raise Failed unless it is served with 200."""
        response = self.request("GET", path)
        if response is None or response.status != 200:
            raise Failed(
                f"GET {path} failed: {response and (response.status, response.body[:300])}"
            )
        return response.body

    def read_json(self, path: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.read(path))
        return content

    def seconds(self, path: str) -> float:
        """How long it takes to read the page."""
        started = time.perf_counter()
        self.read(path)
        return time.perf_counter() - started

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def basic(key: str) -> dict[str, str]:
    return {"Authorization": f"Basic {key}"}


def status_of(address: Address, path: str, headers: Mapping[str, str] = NO_HEADERS) -> int | None:
    """The status of a response on a connection of its own; None if there was none."""
    with closing(Client(address, headers=headers)) as client:
        return client.status(path)


class Reader:
    """Reads a path from each of *addresses* in turn, on new connections, and counts statuses."""

    def __init__(self, path: str, token: str, *addresses: Address) -> None:
        self.addresses = list(addresses)
        self.statuses: Counter[int | None] = Counter()
        # Who removes an address must know that it is not being read any more.
        self.lock = threading.Lock()
        self._path, self._headers = path, bearer(token)

    def reading(self) -> AbstractContextManager[None]:
        """Read as long as the block runs."""
        return repeating(self._read, pause=READ_INTERVAL)

    def _read(self) -> None:
        with self.lock:
            for address in self.addresses:
                status = status_of(address, self._path, self._headers)
                self.statuses[status] += 1
                if status != 200:
                    progress(f"A read from {address.url} got {status}.")
