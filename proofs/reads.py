"""Readers of the primary, of a replica, and of ``changed_since`` note what they saw and when, while
clients post and processes are killed. A checker names what contradicts the promises.
"""

import argparse
import json
import os
import random
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, LiteralString

import psycopg

from config.local.postgres import DATABASE, SUPERUSER
from harness import accounting
from harness.command import run_command
from harness.http import Client, bearer
from harness.networks import Loopback
from harness.posting import Posted, add_posting_arguments, posting
from harness.processes import until
from harness.report import Report, Result, Table, progress
from harness.service import Service, any_address, database_url, temporary_service
from harness.standby import Standby
from harness.threads import working
from proofs.histories import Counts, Read, find_contradictions

PRIMARY, REPLICA = "primary", "replica"
# Of each database, so many readers of lists, and so many that keep copies.
LISTS, COPIES = 2, 1
USERS_A_PAGE, CHANGES_A_PAGE = 500, 100
# Seconds between two reads of a reader, after an error, and between two kills.
PAUSE, ERROR_PAUSE, KILLS = 0.05, 0.3, (2.0, 5.0)
SHOWN = 10
READERS = 2 * (LISTS + COPIES)
# What ends with a crash of the whole server: a session of a worker or of a web server.
_SESSION: LiteralString = """
    SELECT pid FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1
"""


@dataclass
class History:
    """What all readers saw. A replica that was killed begins anew: it may be older for a moment."""

    reads: list[Read] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    replica_starts: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, read: Read) -> None:
        with self.lock:
            self.reads.append(read)


class Sides:
    """A service, its replica, and a web server for each that reads from it."""

    def __init__(self, service: Service, standby: Standby, network: Loopback) -> None:
        self.service, self.standby, self.history = service, standby, History()
        service.separate_roles()
        service.environment["EDS_READ_REQUESTS_PER_MINUTE"] = "100000000"
        self.product = service.create_product()
        service.environment["DATABASE_URL"] = database_url(network.address(PRIMARY))
        self.addresses = {name: any_address() for name in ("door", PRIMARY, REPLICA)}
        follower = {"EDS_REPLICA_URL": database_url(network.address(REPLICA))}
        for name, address in self.addresses.items():
            service.serve(name, address, **(follower if name == REPLICA else {}))
        self.worker = service.start_worker()
        service.start_beat()
        service.wait_until_ready(*self.addresses.values())

    def is_scored(self) -> bool:
        with closing(self.client(REPLICA)) as client, suppress(_Unavailable):
            return bool(self._page(client, self.path(USERS_A_PAGE))["data"])
        return False

    def client(self, side: str) -> Client:
        return Client(self.addresses[side], headers=bearer(self.product["api_token"]))

    def path(self, limit: int) -> str:
        workspace = self.product["workspace_id"]
        return f"/v2/users?workspace_id={workspace}&expand=metrics&limit={limit}"

    # --- Readers --------------------------------------------------------------------------

    def readers(self) -> list[Callable[[threading.Event], None]]:
        return [
            partial(self._read, f"{kind} {number}, {side}", side, kind == "copy")
            for side in (PRIMARY, REPLICA)
            for kind, times in (("list", LISTS), ("copy", COPIES))
            for number in range(times)
        ]

    def _read(self, name: str, side: str, is_copy: bool, over: threading.Event) -> None:
        look = self._follow if is_copy else self._list
        copy = _Copy(f"{self.path(CHANGES_A_PAGE)}&changed_since=start")
        with closing(self.client(side)) as client:
            while not over.wait(PAUSE):
                starts, began = self.history.replica_starts, time.time()
                if is_copy:
                    starts, began = copy.begin(starts, began)
                try:
                    counts = look(client, copy)
                except _Unavailable as error:
                    self.history.errors[str(error)] += 1
                    over.wait(ERROR_PAUSE)
                    continue
                if side == REPLICA and starts != self.history.replica_starts:
                    continue
                epoch = f" after {starts} kills" if side == REPLICA else ""
                read = Read(name + epoch, side + epoch, began, time.time(), counts, is_copy)
                self.history.add(read)

    def _list(self, client: Client, _: "_Copy") -> Counts:
        return _counts(self._page(client, self.path(USERS_A_PAGE)))

    def _follow(self, client: Client, copy: "_Copy") -> Counts:
        try:
            while copy.apply(self._page(client, copy.address)):
                pass
        except _Unavailable as error:
            if str(error) == "400":
                copy.start_again()
            raise
        return copy.counts

    def _page(self, client: Client, path: str) -> dict[str, Any]:
        response = client.request("GET", path)
        if response is None:
            raise _Unavailable("no response")
        if response.status != 200:
            raise _Unavailable(f"{response.status}")
        page: dict[str, Any] = json.loads(response.body)
        return page

    # --- Kills ----------------------------------------------------------------------------

    def kill(self, chance: random.Random, seconds: float) -> None:
        """Kill something now and then, for so long. It comes back. Not in a thread of its own: what
        a thread starts ends with it."""
        ends = time.monotonic() + seconds
        while (wait := chance.uniform(*KILLS)) < ends - time.monotonic():
            time.sleep(wait)
            victim = chance.choice(["the primary", "the replica", "the worker"])
            progress(f"Killing {victim}.")
            self.history.errors[f"kills of {victim}"] += 1
            if victim == "the primary":
                with suppress(psycopg.Error), self.service.connect() as database:
                    _crash(database)
            elif victim == "the replica":
                self.history.replica_starts += 1
                socket = str(self.standby.server.socket_dir)
                with (
                    suppress(psycopg.Error),
                    psycopg.connect(host=socket, user=SUPERUSER, dbname=DATABASE) as database,
                ):
                    _crash(database)
            else:
                self.worker.kill()
                self.worker.wait()
                self.worker = self.service.start_worker()
        time.sleep(max(0.0, ends - time.monotonic()))


class _Unavailable(Exception):
    """The list cannot be read now."""


class _Copy:
    """What a client that follows ``changed_since`` keeps."""

    def __init__(self, first: str) -> None:
        self._first = first
        self.start_again()

    def start_again(self) -> None:
        self.address, self._rows = self._first, dict[int, tuple[str, int]]()
        self._walk: tuple[int, float] | None = None

    def begin(self, starts: int, at: float) -> tuple[int, float]:
        """The starts of the replica and the time with which the walk began: now, or before an error
        after which it goes on."""
        self._walk = self._walk or (starts, at)
        return self._walk

    def apply(self, page: dict[str, Any]) -> bool:
        """Store a page. Returns whether there is another one of this walk."""
        for id in page["deleted"]:
            self._rows.pop(id, None)
        for row in page["data"]:
            self._rows[row["id"]] = row["tracking_id"], row["metrics"]["raw_score"]
        links = page["_links"]
        self.address = links.get("next") or links["changes"]
        self._walk = self._walk if "next" in links else None
        return "next" in links

    @property
    def counts(self) -> Counts:
        return dict(self._rows.values())


def _counts(page: dict[str, Any]) -> Counts:
    return {row["tracking_id"]: row["metrics"]["raw_score"] for row in page["data"]}


def _crash(database: "psycopg.Connection[Any]") -> None:
    """Have the server lose its memory: it ends all sessions, and recovers from its log."""
    if row := database.execute(_SESSION).fetchone():
        os.kill(row[0], signal.SIGKILL)


def measure(options: argparse.Namespace) -> Report:
    network = Loopback((PRIMARY, REPLICA))
    with temporary_service({"listen_addresses": network.address(PRIMARY)}) as service:
        follows = {"listen_addresses": network.address(REPLICA), "hot_standby_feedback": "on"}
        standby = Standby(service.postgres, service.folder / REPLICA, follows)
        standby.copy()
        standby.start()
        try:
            sides, posted = Sides(service, standby, network), Posted()
            key = sides.product["ingestion_key"]
            with posting([[sides.addresses["door"]]], key, options.seed, posted, options.pause):
                until(sides.is_scored, "scores on the replica")
                progress(f"Reading for {options.seconds:.0f} s.")
                with working(*sides.readers()):
                    sides.kill(random.Random(options.seed), options.seconds)
            yield from accounting.settle(posted, service.connect)
        finally:
            standby.stop()
    yield from _report(sides.history, posted)


def _report(history: History, posted: Posted) -> Report:
    numbers = Counter(read.reader.partition(" after")[0] for read in history.reads)
    yield Table("Reads", [{"reader": name, "reads": n} for name, n in sorted(numbers.items())])
    for name, number in sorted(history.errors.items()):
        yield Result(name, number)
    times = defaultdict(list)
    for track in posted.acknowledged | posted.unanswered | posted.refused:
        times[track.user].append(track.occurred_at.timestamp())
    contradictions = find_contradictions(
        history.reads, {user: sorted(own) for user, own in times.items()}
    )
    if contradictions:
        yield Table("Contradictions", [each._asdict() for each in contradictions[:SHOWN]])
    yield Result("readers without a read", READERS - len(numbers), must_be=0)
    yield Result("contradictions", len(contradictions), must_be=0)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to read")
    add_posting_arguments(parser, "the messages, and what is killed when")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
