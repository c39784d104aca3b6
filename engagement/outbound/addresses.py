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
# Public by its number, but it leads to the metadata of a cloud's machines.
_METADATA = {ip_address("168.63.129.16")}
# Translates IPv6 to IPv4, whose address is in the last 32 bits.
_NAT64 = ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48")


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


def find_target(url: str, resolve: Resolver | None = None) -> Target:
    """Resolve the URL's host and check all of its addresses.

    Raises AddressForbidden, and OSError if the host cannot be resolved.
    """
    scheme, host, port, path = _split(url)
    addresses = [ip_address(address) for address in (resolve or system_resolver)(host, port)]
    if not addresses:
        raise OSError(f"{host} has no address.")
    for address in addresses:
        if not is_allowed(address):
            raise AddressForbidden(
                f"{host} leads to a private or reserved address. Ask the operator to allow its "
                "network with EDS_WEBHOOK_ALLOWED_NETWORKS."
            )
        if scheme == "http" and not is_in_allowed_network(address):
            raise AddressForbidden("The URL must begin with https://.")
    return Target(scheme, host, port, path, tuple(map(str, addresses)))


def system_resolver(host: str, port: int) -> list[str]:
    """The host's addresses by the operating system, which also reads odd ways to write one."""
    infos: list[Any] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # A zone, as in fe80::1%eth0, is no part of the address.
    return list(dict.fromkeys(str(info[4][0]).partition("%")[0] for info in infos))


def is_allowed(address: IPAddress) -> bool:
    """Whether a request may be sent to the address."""
    if is_in_allowed_network(address):
        return True
    return all(_is_public(form) for form in _forms(address))


def is_in_allowed_network(address: IPAddress) -> bool:
    allowed = settings.WEBHOOK_ALLOWED_NETWORKS
    # What is written as IPv6 and means IPv4 is compared as IPv4.
    mapped = getattr(address, "ipv4_mapped", None) or address
    return any(mapped in network for network in allowed)


def _is_public(address: IPAddress) -> bool:
    return address.is_global and not address.is_multicast and address not in _METADATA


def _forms(address: IPAddress) -> list[IPAddress]:
    """The address, and the IPv4 addresses that it may stand for."""
    if isinstance(address, IPv4Address):
        return [address]
    embedded: list[IPv4Address | None] = [address.ipv4_mapped, address.sixtofour]
    embedded += address.teredo or ()
    if any(isinstance(net, IPv6Network) and address in net for net in _NAT64):
        embedded.append(IPv4Address(int(address) & 0xFFFFFFFF))
    forms: list[IPAddress] = [form for form in embedded if form is not None]
    # A mapped address is no address of its own.
    return forms if address.ipv4_mapped else [address, *forms]


def _split(url: str) -> tuple[str, str, int, str]:
    """Scheme, host, port, and the path with the query."""
    if len(url) > MAX_URL_LENGTH or not url.isascii() or any(ord(char) <= 32 for char in url):
        raise AddressForbidden(
            f"The URL must have at most {MAX_URL_LENGTH:,} characters, without spaces and "
            "non-ASCII characters."
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
