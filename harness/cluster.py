"""A Citus cluster of three servers on loopback: a coordinator, and two nodes that hold the data.

The programs come from a folder that the environment names. Without it there is no cluster.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, LiteralString

import psutil
import psycopg

from config.local.postgres import DATABASE, ROLE, SUPERUSER, EmbeddedPostgres, stop_process
from harness.database import number
from harness.ports import POSTGRESQL, free_prefix
from harness.processes import PROJECT, Failed, processor_seconds
from harness.service import Service, temporary_folder

# The folder with the programs of a PostgreSQL that has Citus.
BIN_VARIABLE = "EDS_TEST_CITUS_BIN"
NODES = 2
STOP_TIMEOUT = 30.0
OPTIONS = {
    "shared_preload_libraries": "citus",
    "port": str(POSTGRESQL),
    # Moving a shard copies it by logical replication.
    "wal_level": "logical",
    "max_prepared_transactions": "200",
    "shared_buffers": "64MB",
    # The programs have no TLS.
    "citus.node_conninfo": "sslmode=disable",
    "citus.shard_count": "8",
    # Transactions that a dead server left prepared are finished that soon.
    "citus.recover_2pc_interval": "5s",
}


def bin_folder() -> Path | None:
    """The folder that the environment names; None if it names none."""
    value = os.environ.get(BIN_VARIABLE, "").strip()
    return Path(value) if value else None


class Node(EmbeddedPostgres):
    """One server of the cluster. It has a loopback address of its own."""

    def __init__(self, programs: Path, folder: Path, options: dict[str, str] | None = None) -> None:
        self.programs = programs
        self.address = f"{free_prefix()}.2"
        self.process: subprocess.Popen[bytes] | None = None
        self._is_prepared = False
        addresses = {"listen_addresses": self.address, "citus.local_hostname": self.address}
        super().__init__(folder, {**OPTIONS, **addresses, **(options or {})})

    def client_program(self, name: str) -> Path:
        return self.programs / name

    def _prepare_database(self) -> None:
        """As of any server, at its first start: what belongs to the extension keeps its owner."""
        if not self._is_prepared:
            super()._prepare_database()
        self._is_prepared = True

    def start(self) -> None:
        """Start the server; ``wait`` returns once it accepts connections."""
        if not self.is_initialised():
            self.initialise()
        with self.log.open("ab") as output:
            self.process = self.popen(output.fileno())

    def wait(self) -> None:
        assert self.process is not None
        self.wait_until_ready(self.process, log=self.log)

    @property
    def log(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.log")

    def stop(self, signal_number: int = signal.SIGINT) -> None:
        if self.process is not None:
            stop_process(self.process, signal_number, timeout=STOP_TIMEOUT)
        self.process = None

    def restart(self, down: float) -> None:
        """End the server and its connections without a word, and start it again after *down*
        seconds."""
        self.stop(signal.SIGQUIT)
        time.sleep(down)
        self.start()
        self.wait()

    def processes(self) -> list[psutil.Process]:
        """Its processes but the first. If one is killed, the server ends all connections and
        recovers."""
        assert self.process is not None
        with suppress(psutil.Error):
            return psutil.Process(self.process.pid).children()
        return []

    def processor_seconds(self) -> float:
        """What its processes have taken, with those that have ended."""
        assert self.process is not None
        return processor_seconds(self.process.pid)

    def connect(self, database: str = DATABASE) -> psycopg.Connection[Any]:
        """A connection of the superuser."""
        return psycopg.connect(
            host=str(self.socket_dir), user=SUPERUSER, dbname=database, autocommit=True
        )

    def create_database(self, name: str) -> None:
        """Create the database, unless it exists, and the extension in it."""
        with self.connect("postgres") as connection:
            exists = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
            if not exists.fetchone():
                connection.execute(f"CREATE DATABASE {name} OWNER {ROLE} TEMPLATE {DATABASE}")
        with self.connect(name) as connection:
            connection.execute("CREATE EXTENSION citus")


class Cluster:
    """A coordinator, whose socket is in *folder*, and the nodes beside it."""

    def __init__(
        self,
        programs: Path,
        folder: Path,
        options: dict[str, str] | None = None,
        nodes: int = NODES,
    ) -> None:
        self._programs = programs
        self._options = options
        self.coordinator = Node(programs, folder, options)
        self.nodes: list[Node] = []
        for _ in range(nodes):
            self._new_node()

    def _new_node(self) -> Node:
        folder = self.coordinator.folder
        name = f"{folder.name}-node{len(self.nodes) + 1}"
        self.nodes.append(Node(self._programs, folder.with_name(name), self._options))
        return self.nodes[-1]

    @property
    def servers(self) -> list[Node]:
        return [self.coordinator, *self.nodes]

    def start(self) -> None:
        """Start the servers; their databases exist, and know nothing of each other."""
        for server in self.servers:
            server.start()
        for server in self.servers:
            server.wait()

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    def connect_nodes(self, name: str = DATABASE) -> None:
        """Have the nodes hold the data of the coordinator's database. Creates what is missing."""
        for server in self.servers:
            server.create_database(name)
        address = self.coordinator.address
        with self.coordinator.connect(name) as connection:
            connection.execute("SELECT citus_set_coordinator_host(%s, %s)", [address, POSTGRESQL])
        for node in self.nodes:
            self._connect(node, name)

    def _connect(self, node: Node, name: str) -> None:
        with self.coordinator.connect(name) as connection:
            connection.execute("SELECT citus_add_node(%s, %s)", [node.address, POSTGRESQL])

    def add_node(self, name: str = DATABASE) -> None:
        """Start another node, and move products to it. Returns once they have moved."""
        node = self._new_node()
        node.start()
        node.wait()
        node.create_database(name)
        self._connect(node, name)
        with self.coordinator.connect(name) as connection:
            connection.execute("SELECT rebalance_table_shards()")

    def isolate(self, product_id: int, name: str = DATABASE) -> None:
        """Move a product to the last node, into tables that have no other product."""
        target = self.nodes[-1].address
        with self.coordinator.connect(name) as connection:
            own = connection.execute(_ISOLATE, [product_id]).fetchone()
            source = connection.execute(_NODE, own).fetchone()
            assert own is not None and source is not None
            if source[0] != target:
                connection.execute(_MOVE, [*own, *source, POSTGRESQL, target, POSTGRESQL])

    def processes(self) -> dict[str, list[psutil.Process]]:
        """The processes that may be killed, by the server's name."""
        names = ["coordinator", *(f"node {place}" for place in range(1, len(self.nodes) + 1))]
        return dict(zip(names, map(Node.processes, self.servers), strict=True))

    def prepared(self) -> int:
        """How many transactions are prepared, and neither committed nor rolled back."""
        count = 0
        for server in self.servers:
            with server.connect() as connection:
                count += number(connection, "SELECT count(*) FROM pg_prepared_xacts")
        return count


# Without blocking writes it never ends if rows change while it copies (docs/scaling.md).
_ISOLATE: LiteralString = """
    SELECT isolate_tenant_to_new_shard('engagement_user', %s, 'CASCADE', 'block_writes')
"""
_NODE: LiteralString = "SELECT nodename FROM citus_shards WHERE shardid = %s"
_MOVE: LiteralString = "SELECT citus_move_shard_placement(%s, %s, %s, %s, %s)"


@contextmanager
def unconnected(
    folder: Path, options: dict[str, str] | None = None, nodes: int = NODES
) -> Iterator[Cluster]:
    """Servers that know nothing of each other yet. Raises Failed without the programs."""
    programs = bin_folder()
    if programs is None:
        raise Failed(f"{BIN_VARIABLE} names no folder with a PostgreSQL that has Citus.")
    with running(programs, folder / "postgres", options, nodes) as cluster:
        yield cluster


@contextmanager
def connected(folder: Path, options: dict[str, str] | None = None) -> Iterator[Cluster]:
    """A cluster with an empty database, which ``migrate`` distributes."""
    with unconnected(folder, options) as cluster:
        cluster.connect_nodes()
        yield cluster


@contextmanager
def service(project: Path = PROJECT) -> Iterator[Service]:
    """A migrated service on a cluster, in a temporary folder, with the code in *project*."""
    with temporary_folder() as folder, connected(folder) as cluster, ExitStack() as stack:
        service = Service(folder, cluster.coordinator, stack, project)
        service.run("manage.py", "migrate", "--verbosity", "0")
        yield service


@contextmanager
def running(
    programs: Path, folder: Path, options: dict[str, str] | None = None, nodes: int = NODES
) -> Iterator[Cluster]:
    """Have the servers run inside the block. They know nothing of each other yet."""
    cluster = Cluster(programs, folder, options, nodes)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
