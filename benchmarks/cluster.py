"""What a message costs each server of a Citus cluster, beside one server that has the same
programs: processor time by process, and what a core of the coordinator can take.

Needs EDS_TEST_CITUS_BIN: the folder with the programs of a PostgreSQL that has Citus.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import batch, load
from harness import cluster
from harness.cluster import Cluster
from harness.command import run_command
from harness.database import COUNTED, EVENTS, WAITING, number
from harness.http import status_of
from harness.processes import processor_seconds, until
from harness.report import Report, Result, Table, display, progress
from harness.service import Service, any_address, temporary_folder

SERVERS = ("PostgreSQL or coordinator", *(f"node {n}" for n in range(1, cluster.NODES + 1)))
SIZE = 100
CONNECTIONS = 4
# Processor time by process, in microseconds a message.
Costs = dict[str, float]


def measure(options: argparse.Namespace) -> Report:
    with ExitStack() as stack:
        products = max(options.products)
        single = stack.enter_context(side("one server", 0, products))
        several = stack.enter_context(side("cluster", cluster.NODES, products))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rows = []
        for name, work in works(options, folder).items():
            progress(f"{name}.")
            rounds = [(work(single), work(several)) for _ in range(options.rounds)]
            for place, servers in enumerate((single, several)):
                costs = middle([pair[place] for pair in rounds])
                rows.append({"µs a message": name, "on": servers.name, **costs})
                progress(", ".join(f"{key} {display(value)}" for key, value in rows[-1].items()))
        columns = dict.fromkeys(column for row in rows for column in row)
        yield Table("processor time", [dict.fromkeys(columns, "") | row for row in rows])
        for servers in (single, several):
            yield from servers.totals()


class Side:
    """A service on one server, or on a cluster, and what was sent to it."""

    def __init__(self, name: str, service: Service, servers: Cluster, products: int) -> None:
        self.name = name
        self.service = service
        self.servers = servers
        self.address = any_address()
        self._web = service.serve("web", self.address, EDS_WEB_WORKERS="1")
        # Without workers it is never ready: what they would do is measured one by one.
        until(lambda: status_of(self.address, "/healthz") == 200, "the web server")
        self.keys: list[str] = self.within("create_products", str(products))["keys"]
        self._tracks = 0
        self._database = service.connect()

    def fill(self, messages: int, products: int) -> None:
        """Put messages of that many products into the inbox, in turn."""
        self._tracks += self.within("fill", str(messages), *self.keys[:products])["tracks"]

    def within(self, *arguments: str) -> dict[str, Any]:
        return self.service.run_json("-m", "benchmarks.within", *arguments)

    def costs(self, work: Callable[[], tuple[int, float]]) -> Costs:
        """What a message costs. *work* returns how many there were, and the processor seconds that
        the service's own process took."""
        before = self._read()
        messages, own = work()
        seconds_by_server = {name: seconds - before[name] for name, seconds in self._read().items()}
        seconds_by_server["the process"] = own
        return {name: 1e6 * seconds / messages for name, seconds in seconds_by_server.items()}

    def _read(self) -> Costs:
        return {
            name: server.processor_seconds()
            for name, server in zip(SERVERS, self.servers.servers, strict=False)
        }

    def web_seconds(self) -> float:
        return processor_seconds(self._web.pid)

    def empty_the_inbox(self) -> None:
        """What was accepted to measure accepting is not recorded."""
        self._database.execute("TRUNCATE ingestion_inboxmessage")

    def totals(self) -> Report:
        for name, query, must_be in (
            ("events recorded", EVENTS, self._tracks),
            ("events counted", COUNTED, self._tracks),
            ("in the inbox", WAITING, 0),
        ):
            yield Result(f"{self.name}: {name}", number(self._database, query), must_be=must_be)


@contextmanager
def side(name: str, nodes: int, products: int) -> Iterator[Side]:
    progress(f"Starting {name}.")
    with (
        temporary_folder() as folder,
        cluster.unconnected(folder, nodes=nodes) as servers,
        ExitStack() as stack,
    ):
        if nodes:
            servers.connect_nodes()
        service = Service(folder, servers.coordinator, stack)
        service.run("manage.py", "migrate", "--verbosity", "0")
        yield Side(name, service, servers, products)


def works(options: argparse.Namespace, folder: Path) -> dict[str, Callable[[Side], Costs]]:
    """What is measured, by name. Each is done by both sides in turn."""
    bodies = batch.make_batches(SIZE)
    works: dict[str, Callable[[Side], Costs]] = {
        "accept one by one": lambda side: accept(
            side, 1, options.seconds, lambda url, key: load.Target("", f"{url}/v2/track", key)
        ),
        f"accept in batches of {SIZE}": lambda side: accept(
            side,
            SIZE,
            options.seconds,
            lambda url, key: batch.batch_target("", url, key, folder / side.name, bodies, ""),
        ),
    }
    for products in options.products:
        of = f"of {products} products" if products > 1 else "of one product"
        works[f"record, {of}"] = partial(record, messages=options.messages, products=products)
        works[f"score, {of}"] = partial(score, messages=options.messages)
    return works


def accept(
    side: Side, size: int, seconds: int, target_of: Callable[[str, str], load.Target]
) -> Costs:
    """Post with wrk. What was accepted is thrown away."""
    target = target_of(side.address.url, side.keys[0])
    load.check(target)

    def work() -> tuple[int, float]:
        before = side.web_seconds()
        posted = load.run(target, CONNECTIONS, seconds)
        return posted.requests * size, side.web_seconds() - before

    costs = side.costs(work)
    side.empty_the_inbox()
    return costs


def record(side: Side, messages: int, products: int) -> Costs:
    """Drain a full inbox by one process, after a fifth as many messages."""
    side.fill(messages // 5, products)
    side.within("drain")
    side.within("score_all")
    side.fill(messages, products)

    def work() -> tuple[int, float]:
        drained = side.within("drain")
        return drained["messages"], drained["processor_seconds"]

    return side.costs(work)


def score(side: Side, messages: int) -> Costs:
    """Score what was recorded last, by one process."""
    return side.costs(lambda: (messages, side.within("score_all")["processor_seconds"]))


def middle(rounds: list[Costs]) -> Costs:
    return {name: median(costs[name] for costs in rounds) for name in rounds[0]}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=3, help="rounds on each side, in turn")
    parser.add_argument("--seconds", type=int, default=4, help="seconds of a round of accepting")
    parser.add_argument("--messages", type=int, default=20_000, help="messages of a round")
    parser.add_argument(
        "--products", type=int, nargs="+", default=[1, 10, 50], help="of how many products"
    )


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
