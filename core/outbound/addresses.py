"""Which addresses a request may be sent to: none in the operator's own networks.

A host name is resolved once, each of its addresses is checked, and the connection goes to one of
the checked addresses. So a name that later resolves to another address gains nothing.
"""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from django.conf import settings

IPAddress: TypeAlias = IPv4Address | IPv6Address
# Resolves a host and a port to IP addresses. Raises OSError.
Resolver: TypeAlias = Callable[[str, int], Sequence[str]]

MAX_URL_LENGTH = 2000
# No receiver is in these networks of IANA's registries of special purposes. Python's is_global
# follows older ones, and takes some for public.
_SPECIAL = [
    ip_network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        # The second has the metadata of a cloud's machines.
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        # Relays, and sinks of the DNS.
        *("192.88.99.0/24", "192.52.193.0/24", "192.31.196.0/24", "192.175.48.0/24"),
        # Public by its number, but it leads to the metadata of a cloud's machines.
        "168.63.129.16/32",
        # Protocols, among them Teredo and ORCHID; 6to4; documentation; sinks of the DNS.
        *("2001::/23", "2002::/16", "2001:db8::/32", "3fff::/20", "2620:4f:8000::/48"),
    )
]
# All other public IPv6 addresses are in this one: not the forms that stand for IPv4, site-local
# addresses, and segment routing.
_UNICAST = IPv6Network("2000::/3")
# Translates IPv6 to IPv4, whose address is in the last 32 bits.
_NAT64 = IPv6Network("64:ff9b::/96")


class AddressForbidden(Exception):
    """The URL leads to an address that the service must not reach. The text says why."""


@dataclass(frozen=True)
class Target:
    """A URL that may be requested, with the addresses that its host had when it was checked."""

    scheme: str
    host: str
    port: int
    path: str
    addresses: tuple[str, ...]

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_default = self.port == (443 if self.scheme == "https" else 80)
        return host if is_default else f"{host}:{self.port}"


def check_url(url: str) -> None:
    """Raise AddressForbidden if no request goes to such a URL, whatever its host is."""
    _split(url)


def find_target(url: str, resolve: Resolver | None = None, length: int = MAX_URL_LENGTH) -> Target:
    """Resolve the URL's host and check all of its addresses.

    Raises AddressForbidden, and OSError if the host cannot be resolved.
    """
    scheme, host, port, path = _split(url, length)
    addresses = find_addresses(host, port, resolve)
    if scheme == "http" and not all(map(is_in_allowed_network, addresses)):
        raise AddressForbidden("The URL must begin with https://.")
    return Target(scheme, host, port, path, tuple(map(str, addresses)))


def find_addresses(host: str, port: int, resolve: Resolver | None = None) -> list[IPAddress]:
    """The addresses of the host. Raises AddressForbidden if one of them is not allowed, and OSError
    if the host cannot be resolved."""
    addresses = [ip_address(address) for address in (resolve or system_resolver)(host, port)]
    if not addresses:
        raise OSError(f"{host} has no address.")
    if not all(map(is_allowed, addresses)):
        raise AddressForbidden(
            f"{host} leads to a private or reserved address. Ask the operator to allow its "
            "network with EDS_WEBHOOK_ALLOWED_NETWORKS."
        )
    return addresses


def system_resolver(host: str, port: int) -> list[str]:
    """The host's addresses by the operating system, which also reads odd ways to write one."""
    infos: list[Any] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # A zone, as in fe80::1%eth0, is no part of the address.
    return list(dict.fromkeys(str(info[4][0]).partition("%")[0] for info in infos))


def is_allowed(address: IPAddress) -> bool:
    """Whether a request may be sent to the address."""
    if is_in_allowed_network(address):
        return True
    return _is_public(_without_translation(address))


def is_in_allowed_network(address: IPAddress) -> bool:
    allowed = settings.WEBHOOK_ALLOWED_NETWORKS
    # What is written as IPv6 and means IPv4 is compared as IPv4.
    mapped = getattr(address, "ipv4_mapped", None) or address
    return any(mapped in network for network in allowed)


def _is_public(address: IPAddress) -> bool:
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return False
    return address.is_global and not any(address in network for network in _SPECIAL)


def _without_translation(address: IPAddress) -> IPAddress:
    """The IPv4 address to which an IPv6 address leads, in the two forms that may be public."""
    if isinstance(address, IPv6Address):
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
        return address.ipv4_mapped or address
    return address


def _split(url: str, length: int = MAX_URL_LENGTH) -> tuple[str, str, int, str]:
    """Scheme, host, port, and the path with the query."""
    if len(url) > length or not url.isascii() or any(ord(char) <= 32 for char in url):
        raise AddressForbidden(
            f"The URL must have at most {length:,} characters, without spaces and non-ASCII "
            "characters."
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise AddressForbidden("This is not a valid URL.") from None
    if parts.scheme not in ("https", "http") or not host or port == 0:
        raise AddressForbidden("The URL must begin with https:// and name a host.")
    if parts.username is not None or parts.password is not None:
        raise AddressForbidden("The URL must not contain a user name or a password.")
    if "\\" in url or "%" in parts.netloc:
        raise AddressForbidden("This is not a valid URL.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    default = 443 if parts.scheme == "https" else 80
    return parts.scheme, host, port or default, path
