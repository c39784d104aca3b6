"""From one server to a cluster, with nothing lost and nothing doubled: clients post for several
products, and others read, while the tables are distributed, nodes, the coordinator, and workers
are killed and come back, a node is dead for a minute, a node is added, and a product gets a node of
its own. Accounts for every message that got 202. While the node is dead, the products on the others
are recorded within three seconds, and none of their reads fails.

Needs EDS_TEST_CITUS_BIN: the folder with the programs of a PostgreSQL that has Citus.
"""

import argparse
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, LiteralString

import psutil

from harness import accounting, cluster
from harness.cluster import Cluster
from harness.command import run_command
from harness.database import number
from harness.http import Client, Reader, basic
from harness.posting import Posted, add_posting_arguments, posting
from harness.processes import PATIENCE, stop, until
from harness.report import Report, Result, Table, progress
from harness.service import Service, any_address, temporary_folder
from harness.threads import working

# Seconds after a server's end until it starts again.
DOWN = 3.0
# Seconds between two kills: drawn from this range.
PAUSE = (1.0, 3.0)
# What is promised to products on living nodes, and the pause between two of their timed messages.
RECORDED_SECONDS, PROBE_PAUSE = 3.0, 0.5


def measure(options: argparse.Namespace) -> Report:
    with (
        temporary_folder() as folder,
        cluster.unconnected(folder) as servers,
        ExitStack() as stack,
    ):
        service = Service(folder, servers.coordinator, stack)
        service.run("manage.py", "migrate", "--verbosity", "0")
        run = Run(service, servers, options)
        phases = []
        with run.clients():
            for name, change in run.phases().items():
                with run.posted.phase(name) as figures:
                    started = time.monotonic()
                    change()
                    figures["took, s"] = time.monotonic() - started
                    time.sleep(options.seconds)
                phases.append(figures)
        yield Table("What clients got", phases)
        for name, count in sorted(run.kills.items()):
            yield Result(f"{name} killed", count)
        yield Result("reads", sum(reader.statuses[200] for reader in run.readers))
        yield Result("products on the dead node", run.outage.missing)
        yield Result("products on living nodes", run.outage.living)
        yield Result("their messages timed beside the dead node", len(run.outage.waits))
        longest = max(run.outage.waits, default=0.0)
        yield Result("seconds until one was recorded, at most", longest, at_most=RECORDED_SECONDS)
        late = sum(wait > options.dead / 2 for wait in run.outage.waits)
        yield Result("of these messages, waited for the dead node", late, must_be=0)
        yield Result("their reads that did not get 200", run.outage.failed_reads, must_be=0)
        yield from accounting.settle(run.posted, servers.coordinator.connect)
        yield from look(servers)


@dataclass
class Outage:
    """How products on living nodes fared while a node was dead."""

    missing: int = 0
    living: int = 0
    waits: list[float] = field(default_factory=list)
    failed_reads: int = 0


class Run:
    """The roles of the service on the servers, and what happens to them."""

    def __init__(self, service: Service, servers: Cluster, options: argparse.Namespace) -> None:
        self.service = service
        self.servers = servers
        self.posted = Posted()
        self.kills: Counter[str] = Counter()
        self.readers: list[Reader] = []
        self.outage = Outage()
        self._options = options
        self._chance = random.Random(options.seed)
        self._address = any_address()
        service.serve("web", self._address, EDS_WEB_WORKERS="1")
        service.start_beat()
        self._worker = service.start_worker()
        service.wait_until_ready(self._address)
        self._products = [
            service.create_product(f"Product {place}") for place in range(options.products)
        ]

    def phases(self) -> dict[str, Callable[[], None]]:
        return {
            "one server": lambda: None,
            "the tables are distributed": self._distribute,
            "a node is killed and comes back": lambda: self.servers.nodes[0].restart(DOWN),
            "the coordinator is killed and comes back": lambda: self.servers.coordinator.restart(
                DOWN
            ),
            "a node is dead for a minute": self._without_a_node,
            "workers, nodes, and the coordinator are killed": self._kill_at_random,
            "a node is added, and products move to it": self.servers.add_node,
            "a product gets a node of its own": self._isolate,
        }

    @contextmanager
    def clients(self) -> Iterator[None]:
        """Have clients post for each product as long as the block runs, and one read."""
        with ExitStack() as clients:
            for place, product in enumerate(self._products):
                seed, pause = self._options.seed + 1000 * place, self._options.pause
                progress(f"Clients post for product {place}.")
                key = product["ingestion_key"]
                clients.enter_context(posting([[self._address]], key, seed, self.posted, pause))
                path = f"/v2/accounts?workspace_id={product['workspace_id']}"
                self.readers.append(Reader(path, product["api_token"], self._address))
                clients.enter_context(self.readers[-1].reading())
            yield

    def _distribute(self) -> None:
        """As docs/scaling.md says, while clients post."""
        stop(self._worker)
        self.servers.connect_nodes()
        progress(self.service.run("manage.py", "distribute", "--yes"))
        self._worker = self.service.start_worker("worker 2")

    def _without_a_node(self) -> None:
        """Time single messages of the products on the other nodes, and count their reads."""
        node = self.servers.nodes[0]
        with self.servers.coordinator.connect() as database:
            on_node = {id for (id,) in database.execute(_PRODUCTS_ON, [node.address])}
        living = [place for place, p in enumerate(self._products) if p["product_id"] not in on_node]
        self.outage.missing = len(self._products) - len(living)
        self.outage.living = len(living)
        node.stop(signal.SIGQUIT)
        failed = self._failed_reads(living)
        deadline = time.monotonic() + self._options.dead
        with ExitStack() as probes:
            for place in living:
                probes.enter_context(working(partial(self._probe, self._products[place])))
            time.sleep(max(0.0, deadline - time.monotonic()))
        self.outage.failed_reads = self._failed_reads(living) - failed
        node.start()
        node.wait()

    def _failed_reads(self, places: list[int]) -> int:
        statuses = [self.readers[place].statuses for place in places]
        return sum(each.total() - each[200] for each in statuses)

    def _probe(self, product: dict[str, Any], over: threading.Event) -> None:
        """Time how long it takes to record a new user, again and again."""
        client = Client(self._address, headers=basic(product["ingestion_key"]))
        with closing(client), self.servers.coordinator.connect() as database:
            for attempt in count():
                if over.wait(PROBE_PAUSE):
                    return
                user = f"probe-{attempt}"
                started = time.monotonic()
                client.request("POST", "/v2/identify", json.dumps({"userId": user}))
                # A message that is lost is waited for to the end.
                while not database.execute(_KNOWS, [product["product_id"], user]).fetchall():
                    if over.wait(0.05):
                        break
                self.outage.waits.append(time.monotonic() - started)

    def _kill_at_random(self) -> None:
        """Kill all processes of a worker, or one of a server, wherever it is in its work."""
        for _ in range(self._options.kills):
            time.sleep(self._chance.uniform(*PAUSE))
            servers = self.servers.processes()
            # Half of all kills: a worker is in the middle of something most of the time.
            name = self._chance.choice(["worker", self._chance.choice(list(servers))])
            if name == "worker":
                self._kill_worker()
            else:
                with suppress(psutil.Error):
                    self._chance.choice(servers[name]).kill()
            self.kills[name] += 1

    def _kill_worker(self) -> None:
        os.killpg(self._worker.pid, signal.SIGKILL)
        self._worker.wait(PATIENCE)
        self._worker = self.service.start_worker(f"worker {3 + self.kills.total()}")

    def _isolate(self) -> None:
        self.servers.isolate(self._products[0]["product_id"])


def look(servers: Cluster) -> Report:
    """Prepared transactions that nobody finished, and how many nodes have events."""
    until(lambda: servers.prepared() == 0, "prepared transactions to be finished")
    yield Result("prepared transactions left", servers.prepared(), must_be=0)
    with servers.coordinator.connect() as database:
        nodes = number(
            database,
            "SELECT count(DISTINCT nodename) FROM citus_shards"
            " WHERE table_name = 'engagement_event'::regclass",
        )
        yield Result("nodes with events", nodes, must_be=len(servers.nodes))


_PRODUCTS_ON: LiteralString = """
    SELECT p.id FROM engagement_product p
    JOIN pg_dist_placement l
      ON l.shardid = get_shard_id_for_distribution_column('engagement_user', p.id)
    JOIN pg_dist_node n USING (groupid)
    WHERE n.nodename = %s
"""
_KNOWS: LiteralString = "SELECT FROM engagement_user WHERE product_id = %s AND external_id = %s"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each phase takes")
    parser.add_argument("--products", type=int, default=3, help="how many products there are")
    parser.add_argument("--dead", type=float, default=60.0, help="seconds that a node is dead")
    parser.add_argument("--kills", type=int, default=8, help="how many processes to kill")
    add_posting_arguments(parser)


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
