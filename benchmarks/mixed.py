"""Accepting, recording, and reading at the same time, for a minute: whether the inbox stays flat
while clients send as fast as they get responses, how long a message waits to be recorded, and how
long programs and people wait for what they read meanwhile.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any, LiteralString, NamedTuple
from urllib.parse import urlencode

import psycopg

from benchmarks import load, pages
from benchmarks.load import Target
from benchmarks.reading import EXPANSIONS, PAGE
from harness.command import run_command
from harness.database import COUNTED, DROPPED, EVENTS, QUARANTINED, WAITING, number
from harness.http import Address, Client, bearer
from harness.processes import until
from harness.report import Report, Result, Table, progress
from harness.service import temporary_service
from harness.threads import repeating, sampled

# How much the inbox may have grown at the end of a run, in seconds of accepting.
GROWTH_SECONDS = 1.0
SAMPLE_INTERVAL = 0.25
WARM_UP_MESSAGES = 60_000
WARM_UP_SECONDS = 3
PATIENCE = 120.0
# Of each kind of read, one client. Between two reads it pauses.
READ_PAUSE = 0.1
# Milliseconds, while senders leave no pause.
READ_P99 = 1000.0

_DEPTH: LiteralString = """
    SELECT count(*), COALESCE(EXTRACT(EPOCH FROM clock_timestamp() - min(received_at)), 0)
    FROM ingestion_inboxmessage
"""


class Sample(NamedTuple):
    """How many messages wait, and the age of the oldest in seconds."""

    depth: int
    age: float


class Reads:
    """What programs and people read, each kind by a client of its own, and how long it takes."""

    def __init__(self, person: pages.Person, address: Address, product: dict[str, Any]) -> None:
        # The warm-up's product has one workspace and some accounts by now.
        workspace = {"workspace_id": product["workspace_id"]}
        listed = f"/v2/accounts?{urlencode({**workspace, 'limit': PAGE})}"
        program = bearer(product["api_token"])
        reader = Client(address, headers=program)
        until(lambda: reader.read_json(listed)["data"], "an account in the list", PATIENCE)
        account = reader.read_json(listed)["data"][0]["id"]
        expanded = urlencode({**workspace, "expand": EXPANSIONS})
        self._paths = {
            "list of accounts": (program, listed),
            "account, expanded": (program, f"/v2/accounts/{account}?{expanded}"),
            "list of users": (program, f"/v2/users?{urlencode({**workspace, 'limit': PAGE})}"),
            "page: home": (person.client.headers, "/admin/"),
            "page: accounts": (
                person.client.headers,
                f"/admin/engagement/account/?workspace={product['workspace_id']}",
            ),
            "page: an account": (
                person.client.headers,
                f"/admin/engagement/account/{account}/change/",
            ),
        }
        self._address = address

    @contextmanager
    def running(self) -> Iterator[dict[str, list[float]]]:
        """Read as long as the block runs; yields the milliseconds of each kind so far."""
        times: dict[str, list[float]] = {name: [] for name in self._paths}
        with ExitStack() as stack:
            for name, (headers, path) in self._paths.items():
                client = Client(self._address, headers=headers)
                stack.enter_context(repeating(timed(client, path, times[name]), pause=READ_PAUSE))
            yield times


def timed(client: Client, path: str, times: list[float]) -> Callable[[], None]:
    return lambda: times.append(1000 * client.seconds(path))


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(options: argparse.Namespace) -> Report:
    with temporary_service() as service:
        product = service.create_product()
        key = product["ingestion_key"]
        person = pages.log_in(service, "ours")
        target = Target("durable track", f"{person.server.url}/v2/track", key)
        service.start_worker()
        service.start_beat()
        database, observer = service.connect(), service.connect()
        # The warm-up creates users, accounts, and plans.
        service.run("-m", "benchmarks.within", "fill", str(WARM_UP_MESSAGES), target.key)
        load.check(target)
        load.run(target, options.connections, WARM_UP_SECONDS)
        until_empty(database)
        # wrk counts no request that was under way when it ended: what was recorded was sent.
        before = number(database, EVENTS)
        reads = Reads(person, person.server, product)
        progress("Reading alone.")
        with reads.running() as alone:
            time.sleep(options.seconds / 4)
        progress(f"{options.connections} connections post for {options.seconds} s.")
        with sampled(lambda: depth(observer), SAMPLE_INTERVAL) as samples, reads.running() as mixed:
            result = load.run(target, options.connections, options.seconds)
            recorded = number(database, EVENTS) - before
        ended = time.monotonic()
        until_empty(database)
        emptied_after = time.monotonic() - ended
        acknowledged, events = before + result.requests, number(database, EVENTS)
        counted = number(database, COUNTED)
        elsewhere = number(database, DROPPED) + number(database, QUARANTINED)
    depths, ages = [sample.depth for sample in samples], [sample.age for sample in samples]
    # The depth at the end of the run, compared with that at its beginning.
    quarter = len(samples) // 4
    growth = (median(depths[-quarter:]) - median(depths[:quarter])) / result.per_second
    yield Table("reads", [as_row(name, alone[name], mixed[name]) for name in mixed])
    for name, times in mixed.items():
        p99 = percentile(times, 0.99)
        yield Result(f"{name}: p99 under load, ms", p99, at_most=READ_P99)
    yield Result(f"accepted/s, {options.connections} connections", result.per_second)
    yield Result("p50, ms", result.p50)
    yield Result("p99, ms", result.p99)
    yield Result("recorded meanwhile / accepted", recorded / result.requests)
    yield Result("growth of the inbox, seconds of accepting", growth, at_most=GROWTH_SECONDS)
    yield Result("messages that wait, median", median(depths))
    yield Result("messages that wait, at most", max(depths))
    yield Result("age of the oldest, median, seconds", median(ages))
    yield Result("age of the oldest, at most, seconds", max(ages))
    yield Result("inbox empty after, seconds", emptied_after)
    yield Result("errors", result.errors, must_be=0)
    yield Result("tracks that got 202", acknowledged)
    yield Result("of them missing", max(acknowledged - events, 0), must_be=0)
    yield Result("events stored", events)
    yield Result("events counted", counted, must_be=events)
    yield Result("dropped or quarantined", elsewhere, must_be=0)


def as_row(name: str, alone: list[float], mixed: list[float]) -> dict[str, Any]:
    return {
        "ms": name,
        "reads": len(mixed),
        "p50 alone": median(alone),
        "p99 alone": percentile(alone, 0.99),
        "p50 under load": median(mixed),
        "p99 under load": percentile(mixed, 0.99),
    }


def until_empty(database: psycopg.Connection[Any]) -> None:
    until(lambda: not number(database, WAITING), "the inbox to be empty", PATIENCE)


def depth(database: psycopg.Connection[Any]) -> Sample:
    row = database.execute(_DEPTH).fetchone()
    assert row is not None
    return Sample(int(row[0]), float(row[1]))


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=60, help="how long clients post")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
