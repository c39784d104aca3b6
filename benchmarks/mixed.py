"""Accepting and recording at the same time, for a minute: whether the inbox stays flat while
clients send as fast as they are answered, and how long a message waits to be recorded.
"""

import argparse
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any, LiteralString, NamedTuple

import psycopg

from benchmarks import load
from benchmarks.load import Target
from harness import report
from harness.command import run_command
from harness.report import progress
from harness.service import Service, temporary_service, until

# How much the inbox may have grown at the end of a run, in seconds of accepting.
GROWTH_SECONDS = 1.0
SAMPLE_INTERVAL = 0.25
WARM_UP_MESSAGES = 60_000
WARM_UP_SECONDS = 3
PATIENCE = 120.0

_WAITING: LiteralString = """
    SELECT count(*), COALESCE(EXTRACT(EPOCH FROM clock_timestamp() - min(received_at)), 0)
    FROM ingestion_inboxmessage
"""
_EVENTS: LiteralString = "SELECT count(*) FROM engagement_event"
_COUNTED: LiteralString = "SELECT COALESCE(sum(count), 0) FROM engagement_dailycount"
_ELSEWHERE: LiteralString = """
    SELECT (SELECT count(*) FROM ingestion_droppedmessage)
         + (SELECT count(*) FROM ingestion_quarantinedmessage)
"""


class Sample(NamedTuple):
    """How many messages wait, and the age of the oldest in seconds."""

    depth: int
    age: float


class Depth:
    """Looks now and then how deep the inbox is."""

    def __init__(self, database: psycopg.Connection[Any]) -> None:
        self.samples: list[Sample] = []
        self._database = database
        self._over = threading.Event()

    @contextmanager
    def watched(self) -> Iterator["Depth"]:
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        try:
            yield self
        finally:
            self._over.set()
            watcher.join()

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_INTERVAL):
            row = self._database.execute(_WAITING).fetchone()
            assert row is not None
            self.samples.append(Sample(int(row[0]), float(row[1])))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with temporary_service() as service:
        key = service.create_product()["ingestion_key"]
        target = Target("durable track", f"{service.start_web('ours')}/v2/track", key)
        service.start_worker()
        service.start_beat()
        database = service.connect()
        answered = warm_up(service, database, target, options.connections)
        progress(f"{options.connections} connections post for {options.seconds} s.")
        before = number(database, _EVENTS)
        with Depth(service.connect()).watched() as depth:
            sent = load.run(target, options.connections, options.seconds)
            recorded = number(database, _EVENTS) - before
        ended = time.monotonic()
        until(lambda: not waiting(database), "the inbox to be empty", PATIENCE)
        return {
            "connections": options.connections,
            "accepted_per_second": sent.per_second,
            "recorded_per_second": recorded / sent.seconds,
            "p50_ms": sent.p50,
            "p99_ms": sent.p99,
            "errors": sent.errors,
            **flatness(depth.samples, sent.per_second),
            "emptied_after_s": time.monotonic() - ended,
            "answered": answered + sent.requests,
            "events": number(database, _EVENTS),
            "counted": number(database, _COUNTED),
            "dropped_or_quarantined": number(database, _ELSEWHERE),
        }


def warm_up(
    service: Service, database: psycopg.Connection[Any], target: Target, connections: int
) -> int:
    """Have users, accounts and plans made; how many tracks were sent for that."""
    said = service.run("-m", "benchmarks.within", "fill", str(WARM_UP_MESSAGES), target.key)
    load.check(target)
    load.run(target, connections, WARM_UP_SECONDS)
    until(lambda: not waiting(database), "the inbox to be empty", PATIENCE)
    # Those under way when wrk ended were answered to nobody: what was recorded is what was sent.
    assert json.loads(said)["tracks"]
    return number(database, _EVENTS)


def flatness(samples: Sequence[Sample], per_second: float) -> dict[str, float]:
    """The depth at the end of the run against that at its beginning, and the waits."""
    quarter = len(samples) // 4
    first, last = samples[:quarter], samples[-quarter:]
    growth = median(one.depth for one in last) - median(one.depth for one in first)
    return {
        "depth_median": median(one.depth for one in samples),
        "depth_max": max(one.depth for one in samples),
        "growth_seconds": growth / per_second,
        "oldest_median_s": median(one.age for one in samples),
        "oldest_max_s": max(one.age for one in samples),
    }


def number(database: psycopg.Connection[Any], statement: LiteralString) -> int:
    row = database.execute(statement).fetchone()
    assert row is not None
    return int(row[0])


def waiting(database: psycopg.Connection[Any]) -> int:
    return number(database, _WAITING)


def show(figures: dict[str, Any]) -> None:
    share = figures["recorded_per_second"] / figures["accepted_per_second"]
    lines = [
        f"Accepted: {figures['accepted_per_second']:,.0f} messages/s "
        f"(p50 {figures['p50_ms']:.1f} ms, p99 {figures['p99_ms']:.1f} ms, "
        f"{figures['errors']} errors); recorded meanwhile: {share:.0%} of them.",
        report.verdict(
            "Growth of the inbox, seconds of accepting",
            figures["growth_seconds"],
            at_most=GROWTH_SECONDS,
        ),
        f"    {figures['depth_median']:,.0f} messages wait in the median, "
        f"{figures['depth_max']:,.0f} at most; the oldest {figures['oldest_median_s']:.1f} s in "
        f"the median, {figures['oldest_max_s']:.1f} s at most; the inbox was empty "
        f"{figures['emptied_after_s']:.1f} s after the last",
        f"{figures['answered']:,} tracks were answered 202; {figures['events']:,} are stored and "
        f"{figures['counted']:,} counted (those under way when the run ended are more).",
    ]
    print("\n".join(lines))


def faults(figures: dict[str, Any]) -> list[str]:
    found = []
    if figures["errors"]:
        found.append(f"There were {figures['errors']} errors.")
    if figures["events"] < figures["answered"]:
        found.append("There are fewer events than were answered 202.")
    if figures["events"] != figures["counted"]:
        found.append("There are other numbers of events than are counted.")
    if figures["dropped_or_quarantined"]:
        found.append(f"{figures['dropped_or_quarantined']} messages were not recorded.")
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=60, help="how long clients post")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure, show, faults)
