"""The brokers that the service is tried with, each started for one run."""

import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from config.local.postgres import stop_process
from harness.service import HOST, Failed, free_port, until

PATIENCE = 60.0
STOP_TIMEOUT = 20.0


@dataclass(frozen=True)
class Broker:
    """The service's own: the queue is in its database."""

    name: str

    @contextmanager
    def started(self, folder: Path, host: str = HOST, port: int = 0) -> Iterator[str]:
        """Run the broker with its files in *folder*; its address, empty for the service's own.

        It listens on *host*, which nobody else may reach, and on *port* or any that is free.
        """
        yield ""


class Redis(Broker):
    @contextmanager
    def started(self, folder: Path, host: str = HOST, port: int = 0) -> Iterator[str]:
        port = port or free_port()
        command = [_program("redis-server"), "--bind", host, "--port", str(port), "--save", ""]
        # Others than its own machine may use it without a password: nobody else gets there.
        command += ["--protected-mode", "no", "--dir", str(folder)]
        with _running(command, folder / "redis.log", {}):
            until(lambda: _listens(host, port), "Redis", PATIENCE)
            yield f"redis://{host}:{port}/0"


class RabbitMQ(Broker):
    """A node of its own, without the daemon that nodes find each other by."""

    DIST_PORT_OFFSET: ClassVar[int] = 20_000

    @contextmanager
    def started(self, folder: Path, host: str = HOST, port: int = 0) -> Iterator[str]:
        port, dist_port = port or free_port(), free_port()
        home = folder / "rabbitmq"
        home.mkdir()
        variables = {
            "HOME": str(home),
            "RABBITMQ_NODENAME": f"eds{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": host,
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(dist_port),
            "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1} -rabbit loopback_users []"
            ),
            "ERL_EPMD_ADDRESS": HOST,
            "PATH": "/usr/lib/rabbitmq/bin:/usr/sbin:/usr/bin:/bin",
        }
        with _running([_program("rabbitmq-server")], folder / "rabbitmq.log", variables):
            until(lambda: _listens(host, port), "RabbitMQ", PATIENCE)
            yield f"amqp://guest:guest@{host}:{port}//"


BROKERS = {
    "postgresql": Broker("PostgreSQL"),
    "redis": Redis("Redis"),
    "rabbitmq": RabbitMQ("RabbitMQ"),
}


@contextmanager
def _running(command: list[str], log: Path, variables: dict[str, str]) -> Iterator[None]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            env=variables or None,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
    finally:
        stop_process(process, signal.SIGTERM, timeout=STOP_TIMEOUT)


def _program(name: str) -> str:
    found = shutil.which(name, path="/usr/lib/rabbitmq/bin:/usr/sbin:/usr/bin:/bin:/usr/local/bin")
    if found is None:
        raise Failed(f"{name} is not installed; on Debian: apt-get install {name}")
    return found


def _listens(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0
