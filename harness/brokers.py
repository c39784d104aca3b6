"""The brokers that the service is tried with, each started for one run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.ports import free_port
from harness.processes import HOST, SYSTEM_PATH, listens, program, running, until


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
        command = [program("redis-server"), "--bind", host, "--port", str(port), "--save", ""]
        # Other machines may use it without a password, because nobody else reaches it.
        command += ["--protected-mode", "no", "--dir", str(folder)]
        with running(command, folder / "redis.log"):
            until(lambda: listens(host, port), "Redis")
            yield f"redis://{host}:{port}/0"


class RabbitMQ(Broker):
    """A node of its own, without the daemon that nodes find each other by."""

    @contextmanager
    def started(self, folder: Path, host: str = HOST, port: int = 0) -> Iterator[str]:
        port = port or free_port()
        home = folder / "rabbitmq"
        home.mkdir()
        variables = {
            "HOME": str(home),
            "RABBITMQ_NODENAME": f"eds{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": host,
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1} -rabbit loopback_users []"
            ),
            "ERL_EPMD_ADDRESS": HOST,
            "PATH": SYSTEM_PATH,
        }
        with running([program("rabbitmq-server")], folder / "rabbitmq.log", variables):
            until(lambda: listens(host, port), "RabbitMQ")
            yield f"amqp://guest:guest@{host}:{port}//"


BROKERS = {
    "postgresql": Broker("PostgreSQL"),
    "redis": Redis("Redis"),
    "rabbitmq": RabbitMQ("RabbitMQ"),
}
