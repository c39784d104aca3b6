"""Accepting and recording at the same time, for a minute: whether the inbox stays flat while
clients send as fast as they get responses, and how long a message waits to be recorded.
"""

import argparse
import time
from statistics import median
from typing import Any, LiteralString, NamedTuple

import psycopg

from benchmarks import load
from benchmarks.load import Target
from harness.command import run_command
from harness.database import COUNTED, DROPPED, EVENTS, QUARANTINED, WAITING, number
from harness.processes import until
from harness.report import Report, Result, progress
from harness.service import temporary_service
from harness.threads import sampled

# How much the inbox may have grown at the end of a run, in seconds of accepting.
GROWTH_SECONDS = 1.0
SAMPLE_INTERVAL = 0.25
WARM_UP_MESSAGES = 60_000
WARM_UP_SECONDS = 3
PATIENCE = 120.0

_DEPTH: LiteralString = """
    SELECT count(*), COALESCE(EXTRACT(EPOCH FROM clock_timestamp() - min(received_at)), 0)
    FROM ingestion_inboxmessage
"""


class Sample(NamedTuple):
    """How many messages wait, and the age of the oldest in seconds."""

    depth: int
    age: float


def measure(options: argparse.Namespace) -> Report:
    with temporary_service() as service:
        key = service.create_product()["ingestion_key"]
        target = Target("durable track", f"{service.start_web('ours').url}/v2/track", key)
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
        progress(f"{options.connections} connections post for {options.seconds} s.")
        with sampled(lambda: depth(observer), SAMPLE_INTERVAL) as samples:
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
