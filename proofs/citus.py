"""From one server to a cluster, with nothing lost and nothing doubled: clients post for several
products while the tables are distributed, a node and then the coordinator are killed and come
back, and a node is added. Accounts for every message that got 202.

Needs EDS_TEST_CITUS_BIN: the folder with the programs of a PostgreSQL that has Citus.
"""

import argparse
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from harness import accounting, cluster
from harness.cluster import BIN_VARIABLE, Cluster, Node
from harness.command import run_command
from harness.database import number
from harness.http import Address
from harness.posting import Posted, add_pause_argument, posting
from harness.processes import Failed, stop, until
from harness.report import Report, Result, Table, progress
from harness.service import Service, any_address, temporary_folder

# Seconds after a server's end until it starts again.
DOWN = 3.0


def measure(options: argparse.Namespace) -> Report:
    programs = cluster.bin_folder()
    if programs is None:
        raise Failed(f"{BIN_VARIABLE} names no folder with a PostgreSQL that has Citus.")
    with (
        temporary_folder() as folder,
        cluster.running(programs, folder / "postgres") as servers,
        ExitStack() as stack,
    ):
        service = Service(folder, servers.coordinator, stack)
        service.run("manage.py", "migrate", "--verbosity", "0")
        run = Run(service, servers)
        posted, phases = Posted(), []
        with posting_for(service, run.address, options, posted):
            for name, change in run.phases().items():
                with posted.phase(name) as figures:
                    change()
                    time.sleep(options.seconds)
                phases.append(figures)
        yield Table("What clients got", phases)
        yield from accounting.settle(posted, servers.coordinator.connect)
        yield from look(servers)


class Run:
    """The roles of the service on the servers, and what happens to them."""

    def __init__(self, service: Service, servers: Cluster) -> None:
        self.service = service
        self.servers = servers
        self.address = any_address()
        service.serve("web", self.address, EDS_WEB_WORKERS="1")
        service.start_beat()
        self.workers = [service.start_worker()]
        service.wait_until_ready(self.address)

    def phases(self) -> dict[str, Callable[[], None]]:
        return {
            "one server": lambda: None,
            "the tables are distributed": self.distribute,
            "a node is killed and comes back": lambda: restart(self.servers.nodes[0]),
            "the coordinator is killed and comes back": lambda: restart(self.servers.coordinator),
            "a node is added, and products move to it": self.servers.add_node,
        }

    def distribute(self) -> None:
        """As docs/scaling.md says, while clients post."""
        for worker in self.workers:
            stop(worker)
        self.servers.connect_nodes()
        progress(self.service.run("manage.py", "distribute", "--yes"))
        self.workers = [self.service.start_worker("second worker")]


@contextmanager
def posting_for(
    service: Service, address: Address, options: argparse.Namespace, posted: Posted
) -> Iterator[None]:
    """Have clients post for each product as long as the block runs."""
    with ExitStack() as clients:
        for place in range(options.products):
            key = service.create_product(f"Product {place}")["ingestion_key"]
            seed = options.seed + 1000 * place
            progress(f"Clients post for product {place}.")
            clients.enter_context(posting([[address]], key, seed, posted, options.pause))
        yield


def restart(server: Node) -> None:
    """End the server and its connections without a word, and start it again."""
    server.stop(signal.SIGQUIT)
    time.sleep(DOWN)
    server.start()
    server.wait()


def look(servers: Cluster) -> Report:
    """Prepared transactions that nobody finished, and how many nodes have events."""

    def prepared() -> int:
        with ExitStack() as stack:
            databases = [stack.enter_context(server.connect()) for server in servers.servers]
            return sum(
                number(database, "SELECT count(*) FROM pg_prepared_xacts") for database in databases
            )

    until(lambda: prepared() == 0, "prepared transactions to be finished")
    yield Result("prepared transactions left", prepared(), must_be=0)
    with servers.coordinator.connect() as database:
        nodes = number(
            database,
            "SELECT count(DISTINCT nodename) FROM citus_shards"
            " WHERE table_name = 'engagement_event'::regclass",
        )
        yield Result("nodes with events", nodes, must_be=len(servers.nodes))


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each phase takes")
    parser.add_argument("--products", type=int, default=3, help="how many products there are")
    parser.add_argument("--seed", type=int, default=1, help="draws the messages")
    add_pause_argument(parser)


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
