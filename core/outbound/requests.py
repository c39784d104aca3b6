"""One request with a deadline over all of it, to an address that was checked.

It follows no redirect, keeps no connection, and reads the beginning of the response only. A proxy
gets the checked address, so it cannot be made to connect to another one.
"""

import http.client
import os
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from django.db import models

from core.outbound import proxies
from core.outbound.addresses import MAX_URL_LENGTH, AddressForbidden, Resolver, Target, find_target

# Seconds from the resolution of the name to the last byte that is read.
DEADLINE = 15.0
# The longest text of an error, and the part of a response, that a log keeps.
ERROR_LENGTH = 300
EXCERPT_LENGTH = 1000


class Outcome(models.TextChoices):
    DELIVERED = "delivered", "Delivered"
    REFUSED = "refused", "Refused"
    TIMEOUT = "timeout", "Timed out"
    UNREACHABLE = "unreachable", "Not reached"
    FORBIDDEN = "forbidden", "Address not allowed"


@dataclass(frozen=True)
class Result:
    """What became of an attempt. ``retry_after`` is in seconds, and names of ``headers`` are in
    lower case."""

    outcome: Outcome
    status: int | None = None
    seconds: float = 0.0
    error: str = ""
    response: str = ""
    retry_after: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_delivered(self) -> bool:
        return self.outcome == Outcome.DELIVERED


class OutboundRequest:
    """A request that one thread runs and another one can cut off. Its result has at most *length*
    characters of the response. Its URL may be as long as people can enter, or *url_length*."""

    def __init__(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        resolve: Resolver | None = None,
        method: str = "POST",
        length: int = EXCERPT_LENGTH,
        url_length: int = MAX_URL_LENGTH,
    ) -> None:
        self._url, self._body, self._headers = url, body, headers
        self._resolve, self._method, self._length = resolve, method, length
        self._url_length = url_length
        self._lock = threading.Lock()
        self._duplicate: socket.socket | None = None
        self._is_cut_off = False

    def run(self) -> Result:
        """Send the request and return what became of it. Never raises."""
        started = time.monotonic()
        try:
            return self._send(started)
        except AddressForbidden as error:
            return self._failure(Outcome.FORBIDDEN, str(error), started)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if self._is_cut_off or isinstance(error, TimeoutError):
                return timed_out(time.monotonic() - started)
            return self._failure(Outcome.UNREACHABLE, _describe(error), started)
        finally:
            with self._lock:
                if self._duplicate is not None:
                    self._duplicate.close()
                    self._duplicate = None

    def cut_off(self) -> None:
        """Have ``run()`` end soon, wherever it is."""
        with self._lock:
            self._is_cut_off = True
            if self._duplicate is not None:
                with suppress(OSError):
                    self._duplicate.shutdown(socket.SHUT_RDWR)

    def _send(self, started: float) -> Result:
        target = find_target(self._url, self._resolve, self._url_length)
        connection = http.client.HTTPConnection(target.host, target.port)
        connection.sock = self._connect(target)
        try:
            connection.putrequest(
                self._method, target.path, skip_host=True, skip_accept_encoding=True
            )
            headers = {"Host": target.authority, "Connection": "close", **self._headers}
            headers["Content-Length"] = str(len(self._body))
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders(self._body)
            response = connection.getresponse()
            excerpt = response.read(self._length * 4).decode("utf-8", "replace")[: self._length]
            return _result(response, excerpt, time.monotonic() - started)
        finally:
            connection.close()

    def _connect(self, target: Target) -> socket.socket:
        """Connect to a checked address. TLS verifies the name of the host."""
        connection = self._connect_plain(target)
        with self._lock:
            # TLS detaches the socket, so only a duplicate can cut the request off.
            self._duplicate = socket.socket(fileno=os.dup(connection.fileno()))
            is_cut_off = self._is_cut_off
        if is_cut_off:
            connection.close()
            raise TimeoutError
        if target.scheme == "http":
            return connection
        try:
            return _tls().wrap_socket(connection, server_hostname=target.host)
        except BaseException:
            connection.close()
            raise

    def _connect_plain(self, target: Target) -> socket.socket:
        """A connection to the target, through the operator's proxy if there is one."""
        if proxy := proxies.proxy_for(target):
            return proxies.connect(proxy, target, DEADLINE)
        last_error: OSError | None = None
        for address in target.addresses:
            try:
                return socket.create_connection((address, target.port), timeout=DEADLINE)
            except OSError as error:
                last_error = error
        raise last_error or OSError("No address.")

    def _failure(self, outcome: Outcome, error: str, started: float) -> Result:
        return Result(outcome, seconds=time.monotonic() - started, error=error[:ERROR_LENGTH])


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def timed_out(seconds: float, limit: float = DEADLINE) -> Result:
    text = f"The request did not end within {limit:.0f} seconds."
    return Result(Outcome.TIMEOUT, seconds=seconds, error=text)


def _result(response: http.client.HTTPResponse, excerpt: str, seconds: float) -> Result:
    text = excerpt.replace("\x00", "�")
    headers = {name.lower(): value for name, value in response.headers.items()}
    if 200 <= response.status < 300:
        return Result(Outcome.DELIVERED, response.status, seconds, response=text, headers=headers)
    error = "Redirects are not followed." if 300 <= response.status < 400 else ""
    retry_after = response.headers.get("Retry-After", "").strip()
    return Result(
        Outcome.REFUSED,
        response.status,
        seconds,
        error,
        text,
        float(retry_after) if retry_after.isdecimal() and len(retry_after) < 7 else None,
        headers,
    )


def _describe(error: Exception) -> str:
    if isinstance(error, proxies.ProxyError):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"The certificate is not valid: {error.verify_message}."
    if isinstance(error, ssl.SSLError):
        return "TLS failed."
    if isinstance(error, socket.gaierror):
        return "The host name cannot be resolved."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}."
    return "The response is not valid HTTP."


class Request(Protocol):
    """A request that one thread runs and another one can cut off."""

    def run(self) -> Result: ...

    def cut_off(self) -> None: ...


def send_now(request: Request, seconds: float = DEADLINE) -> Result:
    """Run the request in a thread of its own, and cut it off after this time."""
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="outbound")
    try:
        future = executor.submit(request.run)
        if wait([future], seconds).done:
            return future.result()
        request.cut_off()
        return timed_out(seconds, seconds)
    finally:
        executor.shutdown(wait=False)
