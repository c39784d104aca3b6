"""A read replica: a web server that reads from a real streaming replica, and one beside it that
reads from the primary, while clients post and a worker records and scores. Then the replica stops
and comes back.
"""

import argparse
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any, LiteralString

import psycopg

from config.local.postgres import DATABASE, SUPERUSER
from harness import accounting
from harness.command import run_command
from harness.http import Client, bearer, status_of
from harness.networks import Loopback
from harness.posting import Posted, posting
from harness.processes import until
from harness.report import Report, Result, Table, display, progress
from harness.service import Service, any_address, database_url, temporary_service
from harness.standby import Standby
from harness.threads import working

SERVERS = ("primary", "replica")
READERS = 4
LOOK_EVERY = 0.02
# Lists, and one account with everything about it.
PATHS = ("/v2/accounts?", "/v2/users?", "/v2/accounts/1?expand=insights,segments,events,history&")
_PIDS: LiteralString = "SELECT pid FROM pg_stat_activity WHERE application_name = 'reading'"
_REPLAYED: LiteralString = "SELECT pg_last_wal_replay_lsn() >= %s::text::pg_lsn"
_RANKED: LiteralString = """
    SELECT account_id, raw FROM engagement_accountengagement ORDER BY 1, score_set_id
"""


class Sides:
    """The primary, its replica, and a web server for each that reads from it."""

    def __init__(self, service: Service, standby: Standby, network: Loopback) -> None:
        self.service, self.standby = service, standby
        self.primary = service.connect()
        primary, replica = (database_url(network.address(name)) for name in SERVERS)
        reading = {"DATABASE_URL": f"{primary}?application_name=reading"}
        service.separate_roles()
        # Requests are counted, and never too many.
        service.environment["EDS_READ_REQUESTS_PER_MINUTE"] = "100000000"
        self.product = service.create_product()
        service.environment["DATABASE_URL"] = f"{primary}?application_name=writing"
        self.door = any_address()
        self.readers = {"without": any_address(), "with": any_address()}
        service.serve("door", self.door)
        service.serve("without", self.readers["without"], **reading)
        url = f"{replica}?application_name=reading"
        service.serve("with", self.readers["with"], **reading, EDS_REPLICA_URL=url)
        service.start_worker()
        service.start_beat()
        service.wait_until_ready(self.door, *self.readers.values())
        workspace = f"workspace_id={self.product['workspace_id']}"
        self.paths = [path + workspace for path in PATHS]

    def client(self, reader: str) -> Client:
        return Client(self.readers[reader], headers=bearer(self.product["api_token"]))

    def follower(self) -> "psycopg.Connection[Any]":
        socket = str(self.standby.server.socket_dir)
        return psycopg.connect(host=socket, user=SUPERUSER, dbname=DATABASE, autocommit=True)

    def seconds_spent(self) -> dict[str, float]:
        """Processor time of PostgreSQL's processes that serve the readers, on each side."""
        with closing(self.follower()) as follower:
            return {
                name: sum(_processor_time(pid) for (pid,) in database.execute(_PIDS).fetchall())
                for name, database in (("primary", self.primary), ("replica", follower))
            }

    def is_replica_read(self) -> bool:
        with closing(self.client("with")) as client:
            return {client.status(path) for path in self.paths} == {200}

    @contextmanager
    def reading(self, reader: str) -> Iterator["Counter[int | None]"]:
        """Clients read from the web server as fast as it responds. Their statuses are counted."""
        statuses: Counter[int | None] = Counter()

        def read(over: threading.Event) -> None:
            with closing(self.client(reader)) as client:
                while not over.is_set():
                    for path in self.paths:
                        status = client.status(path)
                        statuses[status] += 1
                        if status != 200:
                            over.wait(0.1)

        with working(*[read] * READERS):
            yield statuses


def measure(options: argparse.Namespace) -> Report:
    network = Loopback(SERVERS)
    primary, replica = (network.address(name) for name in SERVERS)
    with temporary_service({"listen_addresses": primary}) as service:
        follows = {"listen_addresses": replica, "hot_standby_feedback": "on"}
        standby = Standby(service.postgres, service.folder / "replica", follows)
        progress("Copying the primary with pg_basebackup.")
        standby.copy()
        standby.start()
        try:
            sides = Sides(service, standby, network)
            posted = Posted()
            with posting([[sides.door]], sides.product["ingestion_key"], options.seed, posted):
                progress("Posting until there are scores to read.")
                until(sides.is_replica_read, "scores on the replica")
                phases = [_read(sides, name, options.seconds) for name in sides.readers]
                outage = list(_stop_and_start(sides, posted, options.seconds / 2))
            yield Table("reading", phases)
            for phase in phases:
                name = f"reads {phase['reading']} the replica that failed"
                yield Result(name, phase["others"], must_be=0)
            yield from outage
            yield from accounting.settle(posted, service.connect)
            yield Result("scores that differ on the replica", _differing(sides), must_be=0)
            yield Result("tracebacks", service.tracebacks())
        finally:
            standby.stop()


def _read(sides: Sides, name: str, seconds: float) -> dict[str, Any]:
    progress(f"Reading {name} the replica for {seconds:.0f} s.")
    before = sides.seconds_spent()
    started = time.monotonic()
    with sides.reading(name) as statuses:
        lags = _lags(sides, started + seconds)
    took = time.monotonic() - started
    after = sides.seconds_spent()
    reads = statuses[200]
    return {
        "reading": name,
        "reads": reads,
        "others": statuses.total() - reads,
        "reads/s": reads / took,
        # PostgreSQL's processor time a read.
        **{f"ms a read, {side}": 1000 * (after[side] - before[side]) / reads for side in after},
        "median lag, s": median(lags),
        "longest lag, s": max(lags),
    }


def _lags(sides: Sides, until_then: float) -> list[float]:
    """How long after each look at the primary the replica had what was written by then."""
    lags = []
    with closing(sides.follower()) as follower:
        while time.monotonic() < until_then:
            row = sides.primary.execute("SELECT pg_current_wal_lsn()::text").fetchone()
            looked_at = time.monotonic()
            while not _is_true(follower.execute(_REPLAYED, row)):
                time.sleep(0.001)
            lags.append(time.monotonic() - looked_at)
            time.sleep(LOOK_EVERY)
    return lags


def _stop_and_start(sides: Sides, posted: Posted, seconds: float) -> Report:
    """What readers and senders get while it is away, and how soon it is read again."""
    progress(f"The replica stops for {seconds:.0f} s.")
    with posted.lock:
        before = Counter(posted.statuses)
    sides.standby.stop()
    with sides.reading("with") as statuses:
        time.sleep(seconds)
        ready = status_of(sides.readers["with"], "/readyz")
    with posted.lock:
        posts = Counter(posted.statuses) - before
    sides.standby.start()
    started = time.monotonic()
    until(sides.is_replica_read, "the replica to be read again")
    yield Result("/readyz while the replica is away", ready or 0)
    yield Result("reads while it is away", display(dict(statuses)))
    yield Result("reads that got something else than 503", without(statuses, 503), must_be=0)
    yield Result("posts while it is away", display(dict(posts)))
    yield Result("posts that got something else than 202", without(posts, 202), must_be=0)
    yield Result("replica read again after, seconds", time.monotonic() - started)


def without(statuses: "Counter[int | None]", expected: int) -> int:
    return statuses.total() - statuses[expected]


def _differing(sides: Sides) -> int:
    """How many scores differ once the replica has everything."""
    row = sides.primary.execute("SELECT pg_current_wal_lsn()::text").fetchone()
    with closing(sides.follower()) as follower:
        until(lambda: _is_true(follower.execute(_REPLAYED, row)), "the replica")
        ours, theirs = (set(side.execute(_RANKED)) for side in (sides.primary, follower))
    return len(ours ^ theirs)


def _is_true(cursor: "psycopg.Cursor[Any]") -> bool:
    row = cursor.fetchone()
    return bool(row and row[0])


def _processor_time(pid: int) -> float:
    with suppress(FileNotFoundError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to read from each")
    parser.add_argument("--seed", type=int, default=1, help="draws the messages")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
