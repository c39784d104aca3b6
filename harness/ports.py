"""Ports and addresses of the loopback that no other run on this machine uses.

A free port that the system names may be in use a moment later: by another test's server, or by a
client's connection. So these ports are below those that the system hands out, and each is claimed
until this process ends.
"""

import random
import socket

from harness.processes import HOST, Failed

# Linux hands out ports from 32768 on.
PORTS = range(20_000, 32_000)
POSTGRESQL = 5432
ATTEMPTS = 1000

# Hypothesis seeds the common one: two processes would draw the same.
_draw = random.SystemRandom()


def free_port() -> int:
    """A port that nothing uses, and that no other run gets while this process lives."""
    for port in _draw.sample(PORTS, ATTEMPTS):
        if _claim(HOST, port):
            return port
    raise Failed(f"No port from {PORTS[0]} to {PORTS[-1]} is free. Stop what listens there.")


def free_prefix() -> str:
    """Three numbers of loopback addresses that no other run gets while this process lives.

    PostgreSQL can listen on each of these addresses, at its own port.
    """
    for _ in range(ATTEMPTS):
        prefix = f"127.{_draw.randrange(1, 255)}.{_draw.randrange(1, 255)}"
        if _claim(f"{prefix}.1", POSTGRESQL):
            return prefix
    raise Failed(f"Port {POSTGRESQL} is in use on all addresses. Stop the server that listens.")


def _claim(host: str, port: int) -> bool:
    """Claim the address until this process ends. False if it is claimed or in use."""
    # Nothing sends datagrams there. A server can still listen for connections.
    claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        claim.bind((host, port))
        _require_unused(host, port)
    except OSError:
        claim.close()
        return False
    claim.detach()
    return True


def _require_unused(host: str, port: int) -> None:
    """Raise OSError if a server cannot listen there."""
    with socket.socket() as server:
        # As servers do: connections that ended a moment ago are no obstacle.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((host, port))
        server.listen(1)
