"""Networks for machines that are processes here: addresses of the loopback, or namespaces whose
packets can be made to vanish.
"""

import ctypes
import os
import random
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from harness.ports import free_prefix
from harness.processes import Failed

CLONE_NEWNET = 0x40000000


class Loopback:
    """An address for each machine on the loopback, which answers for all of them."""

    def __init__(self, names: Sequence[str]) -> None:
        self.prefix = self._any_prefix()
        self._places = {name: str(place) for place, name in enumerate(names, 2)}

    def address(self, name: str) -> str:
        return f"{self.prefix}.{self._places[name]}"

    @property
    def gateway(self) -> str:
        """The address of processes that are on none of the machines."""
        return f"{self.prefix}.1"

    def _any_prefix(self) -> str:
        return free_prefix()

    def inside(self, name: str) -> AbstractContextManager[None]:
        """What this thread starts in the block runs on the machine."""
        return nullcontext()


class Namespaces(Loopback):
    """A network namespace for each machine, joined by a bridge that this process is on, too.

    A machine that is cut off keeps its address and its cable: what is sent to it and by it
    vanishes, and nobody is notified. All machines know the hardware address of all others, as a
    router would know them. Otherwise the first lost question for one would be an error at once.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        # Short, because a network device's name has 15 letters at the most.
        self._bridge = f"eds{random.getrandbits(24):06x}"

    def _any_prefix(self) -> str:
        return free_prefix().replace("127.", "10.", 1)

    @contextmanager
    def created(self) -> Iterator["Namespaces"]:
        """The namespaces exist inside this block."""
        try:
            self._create()
            yield self
        finally:
            for place in self._places.values():
                # The cable first: a namespace lives on while something in it has a socket.
                _ip("link", "delete", f"{self._bridge}p{place}", check=False)
                _ip("netns", "delete", f"{self._bridge}-{place}", check=False)
            _ip("link", "delete", self._bridge, check=False)

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        with _entered(Path("/run/netns", f"{self._bridge}-{self._places[name]}")):
            yield

    def cut_off(self, name: str) -> None:
        _ip("link", "set", f"{self._bridge}p{self._places[name]}", "nomaster")

    def rejoin(self, name: str) -> None:
        _ip("link", "set", f"{self._bridge}p{self._places[name]}", "master", self._bridge)

    def _create(self) -> None:
        hardware = {place: f"02:ed:00:00:00:{int(place):02x}" for place in self._all_places()}
        neighbors = [
            f"neigh replace {self.prefix}.{place} lladdr {address} nud permanent dev"
            for place, address in hardware.items()
        ]
        _ip("link", "add", self._bridge, "address", hardware["1"], "type", "bridge")
        _ip("address", "add", f"{self.prefix}.1/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for place in self._places.values():
            inner, port = f"{self._bridge}-{place}", f"{self._bridge}p{place}"
            _ip("netns", "add", inner)
            _ip(
                *("link", "add", port, "type", "veth"),
                *("peer", "name", "eth0", "netns", inner, "address", hardware[place]),
            )
            _ip("link", "set", port, "master", self._bridge, "up")
            lines = [
                "link set lo up",
                "link set eth0 up",
                f"address add {self.prefix}.{place}/24 dev eth0",
                *(f"{line} eth0" for line in neighbors),
            ]
            _ip("-n", inner, "-batch", "-", content="\n".join(lines))
        _ip("-batch", "-", content="\n".join(f"{line} {self._bridge}" for line in neighbors[1:]))

    def _all_places(self) -> list[str]:
        """The last numbers of the addresses, this process's first."""
        return ["1", *self._places.values()]


def why_not() -> str:
    """Why there can be no namespaces here; empty where there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "ip is not installed; on Debian: apt-get install iproute2"
    return ""


@contextmanager
def _entered(namespace: Path) -> Iterator[None]:
    """This thread, and what it starts, is in the namespace for the length of the block."""
    before = Path(f"/proc/self/task/{threading.get_native_id()}/ns/net")
    with before.open() as ours, namespace.open() as theirs:
        _enter(theirs.fileno())
        try:
            yield
        finally:
            _enter(ours.fileno())


def _enter(descriptor: int) -> None:
    # Python has os.setns from 3.12 on.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _ip(*words: str, content: str = "", check: bool = True) -> None:
    process = subprocess.run(["ip", *words], input=content, capture_output=True, text=True)
    if check and process.returncode:
        raise Failed(f"`ip {' '.join(words)}` failed: {process.stderr.strip()}")
