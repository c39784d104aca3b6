"""The operator's proxy on the way to public addresses.

It gets the address that was checked, not the name: a name could lead it to another address.
"""

import re
import socket
from base64 import b64encode
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # not in the stubs

from django.conf import settings

from core.outbound.addresses import Target, is_in_allowed_network

MAX_RESPONSE = 16_384
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})\b")


class ProxyError(OSError):
    """The proxy made no connection. The text says why."""


@dataclass(frozen=True)
class Proxy:
    host: str
    port: int
    authorization: str = ""


def proxy_for(target: Target) -> Proxy | None:
    """The proxy to use. Networks of the operator are reached without one."""
    if not settings.OUTBOUND_PROXY or target.scheme != "https":
        return None
    if all(is_in_allowed_network(ip_address(address)) for address in target.addresses):
        return None
    if proxy_bypass_environment(target.host, {"no": settings.OUTBOUND_NO_PROXY}):
        return None
    return _parse(settings.OUTBOUND_PROXY)


def _parse(url: str) -> Proxy:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        raise ProxyError("The proxy in HTTPS_PROXY must begin with http://.")
    authorization = ""
    if parts.username is not None:
        credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {b64encode(credentials.encode()).decode()}"
    return Proxy(parts.hostname, parts.port or 80, authorization)


def connect(proxy: Proxy, target: Target, timeout: float) -> socket.socket:
    """Have the proxy connect to the target's first address. Raises OSError."""
    connection = socket.create_connection((proxy.host, proxy.port), timeout=timeout)
    try:
        address = target.addresses[0]
        place = f"[{address}]:{target.port}" if ":" in address else f"{address}:{target.port}"
        lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
        if proxy.authorization:
            lines.append(f"Proxy-Authorization: {proxy.authorization}")
        connection.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
        status = _STATUS.match(_read_head(connection))
        if status is None or not 200 <= int(status[1]) < 300:
            code = status[1].decode() if status else "no HTTP"
            raise ProxyError(f"The proxy made no connection: it answered {code}.")
    except BaseException:
        connection.close()
        raise
    return connection


def _read_head(connection: socket.socket) -> bytes:
    """The response up to the empty line, byte by byte: what follows is the target's."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        if not byte or len(head) > MAX_RESPONSE:
            raise ProxyError("The proxy made no connection: its response is incomplete.")
        head += byte
    return head
