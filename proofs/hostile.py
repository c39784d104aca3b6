"""Whatever is sent to any address, the service answers 2xx, 3xx, 4xx, or 503, and lives on.

Several clients send broken, huge, endless, and odd requests over raw sockets to a whole service, as
fast as it responds. They read from its own description which addresses and parameters there are.
Counted are the responses by address, processes that died, memory, and whether the inbox is empty
soon after.
"""

import argparse
import json
import re
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import psutil

from harness import accounting
from harness.command import run_command
from harness.database import DROPPED, EVENTS, QUARANTINED, number
from harness.http import Client, basic
from harness.processes import Failed, until
from harness.report import Report, Result, Table, progress
from harness.threads import sampled, working
from harness.whole import Whole, running
from proofs.hostile_requests import METRICS_TOKEN, Attacker, Description, Request, send

CLIENTS = 8
SETTLE_PATIENCE = 180.0
MEMORY_GROWTH_MB = 200.0
MOST_FAULTS = 10
# A reading address that was tried so often must have served a page.
ENOUGH_TRIES = 100
CURSOR = re.compile(rb"cursor=([\w%=-]+)")


@dataclass
class Responses:
    """Statuses by address; "closed" and "silent" if there was no response."""

    statuses: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, request: Request, status: str) -> None:
        with self.lock:
            self.statuses[request.address][status] += 1
            is_fault = status == "silent" or (status.startswith("5") and status != "503")
            if is_fault and len(self.faults) < MOST_FAULTS:
                self.faults.append(f"{status}: {request.data[:400]!r}")

    def report(self, description: Description) -> Report:
        columns = sorted({status for statuses in self.statuses.values() for status in statuses})
        rows = [
            {"": address, **{status: statuses.get(status) for status in columns}}
            for address, statuses in sorted(self.statuses.items())
        ]
        yield Table("responses", rows)
        yield Result("requests", sum(statuses.total() for statuses in self.statuses.values()))
        yield Result("faults", "\n".join(self.faults) or "none", must_be="none")
        reads = [self.statuses[address] for address in description.readers]
        pages = sum(statuses["200"] for statuses in reads)
        tries = sum(statuses.total() for statuses in reads)
        yield Result("reads that got a page", pages / max(tries, 1))
        # Their code was hardly reached.
        unread = [
            address
            for address, statuses in zip(description.readers, reads, strict=True)
            if not statuses["200"] and statuses.total() >= ENOUGH_TRIES
        ]
        yield Result("addresses that were never read", ", ".join(unread) or "none", must_be="none")


# --- What it did to the service ---------------------------------------------------------------


def measure(options: argparse.Namespace) -> Report:
    responses = Responses()
    settings = {"EDS_METRICS_TOKEN": METRICS_TOKEN, "EDS_READ_REQUESTS_PER_MINUTE": "0"}
    with running(**settings) as service:
        fill(service)
        description = Description(Client(service.address).read_json("/openapi.json"))

        def attack(seed: int, over: threading.Event) -> None:
            attacker = Attacker(service, description, seed)
            while not over.is_set():
                request = attacker.request()
                status, received = send(service.address, request)
                responses.note(request, status)
                if cursor := CURSOR.search(received):
                    attacker.cursor = cursor[1].decode()

        processes = alive(service)
        progress(f"{CLIENTS} clients attack for {options.minutes:g} min.")
        seeds = [options.seed + client for client in range(CLIENTS)]
        attacks = [partial(attack, seed) for seed in seeds]
        with sampled(lambda: largest(service), 0.5) as memory, working(*attacks):
            time.sleep(options.minutes * 60)
        progress("The inbox empties itself.")
        began = time.monotonic()
        until(service.is_drained, "the inbox to be empty", SETTLE_PATIENCE)
        seconds = time.monotonic() - began
        yield from responses.report(description)
        yield Result("inbox empty after, seconds", seconds)
        yield Result(
            "processes that died", ", ".join(processes - alive(service)) or "none", must_be="none"
        )
        yield Result("memory of the largest process at first, MB", memory[0])
        yield Result("memory of the largest process at most, MB", max(memory))
        has_grown = max(memory) - memory[0] > MEMORY_GROWTH_MB
        yield Result("a process has grown", str(has_grown), must_be="False")
        with service.connect() as database:
            yield Result("events recorded", number(database, EVENTS))
            yield Result("messages dropped", number(database, DROPPED))
            # A message that passed a door and cannot be recorded.
            yield Result("messages quarantined", number(database, QUARANTINED), must_be=0)


def fill(service: Whole) -> None:
    """Give readers something to read: two pages of users and accounts, with scores."""
    client = Client(service.address, headers=basic(service.key))
    for person in range(25):
        body = {"userId": f"u{person}", "groupId": f"a{person}", "traits": {"plan": "pro"}}
        for path, more in (("identify", {}), ("group", {}), ("track", {"event": "opened"})):
            response = client.request("POST", f"/v2/{path}", json.dumps({**body, **more}))
            if response is None or response.status != 202:
                raise Failed(f"The service did not accept a good message: {response}")
    accounting.until_settled(service.connect)


def alive(service: Whole) -> set[str]:
    """The processes of the service that must not die, by what they do and their ids."""
    return {
        f"{role} {process.pid}"
        for role, processes in service.processes().items()
        if role != "PostgreSQL"
        for process in processes
    }


def largest(service: Whole) -> float:
    """The memory of the largest web worker or Celery process, in MB."""
    sizes = [0]
    for role, processes in service.processes().items():
        if role != "PostgreSQL":
            for process in processes:
                with suppress(psutil.Error):
                    sizes.append(process.memory_info().rss)
    return max(sizes) / 1024 / 1024


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to attack")
    parser.add_argument("--seed", type=int, default=1, help="draws the requests")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
