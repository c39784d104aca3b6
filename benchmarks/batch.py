"""How many messages a second the batch door accepts, in batches as server SDKs send them: plain
and gzipped, next to the same server taking tracks one by one.
"""

import argparse
import gzip
import json
import tempfile
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import load
from benchmarks.load import Target
from benchmarks.messages import generate
from engagement.messages import Group, Identify, Message, Track
from harness.command import run_command
from harness.database import WAITING, number
from harness.report import Report, Result, progress
from harness.service import Service, temporary_service

MESSAGES_PER_SECOND = 20_000
# Different batches that are sent in turn.
BATCHES = 100
SCRIPT = load.SCRIPT.with_name("batch.lua")


def measure(options: argparse.Namespace) -> Report:
    with temporary_service() as service, tempfile.TemporaryDirectory() as folder:
        targets = start(service, Path(folder), options.size)
        load.warm_up(targets, max(options.connections))
        database = service.connect()
        acknowledged = number(database, WAITING)
        measurements = [load.interleaved(targets, count, options) for count in options.connections]
        yield from load.table_of(measurements)
        for plain, gzipped, single in measurements:
            acknowledged += (plain.requests + gzipped.requests) * options.size + single.requests
            for batches in (plain, gzipped):
                rates = [figures.per_second * options.size for figures in batches.rounds]
                name = f"messages/s in {batches.target.name}, {batches.connections} connections"
                yield Result(name, median(rates), at_least=MESSAGES_PER_SECOND, rounds=rates)
            ratios = [ratio * options.size for ratio in plain.ratios(single)]
            name = f"messages in batches / single tracks, {plain.connections} connections"
            yield Result(name, median(ratios), rounds=ratios)
        yield from load.compare_with_inbox(acknowledged, database)


def start(service: Service, folder: Path, size: int) -> list[Target]:
    """One web server, and the three ways to send to it."""
    key = service.create_product()["ingestion_key"]
    progress(f"Writing {BATCHES} batches of {size}.")
    bodies = make_batches(size)
    url = service.start_web("ours").url
    return [
        batch_target("batches", url, key, folder / "plain", bodies, ""),
        batch_target("batches, gzipped", url, key, folder / "gzip", bodies, "gzip"),
        Target("tracks one by one", f"{url}/v2/track", key),
    ]


def batch_target(
    name: str, url: str, key: str, folder: Path, bodies: Sequence[bytes], encoding: str
) -> Target:
    folder.mkdir(exist_ok=True)
    for place, body in enumerate(bodies, 1):
        (folder / str(place)).write_bytes(gzip.compress(body) if encoding else body)
    arguments = (str(folder), str(len(bodies)), encoding)
    return Target(name, f"{url}/segment/v1/batch", key, SCRIPT, arguments, bodies[0], 200)


def make_batches(size: int) -> list[bytes]:
    """Bodies as Segment's SDK for Python creates them."""
    now = datetime.now(UTC)
    messages = [_spelled(message) for message in generate(BATCHES * size, now, seed=size)]
    return [
        json.dumps(
            {"batch": messages[start : start + size], "sentAt": now.isoformat()},
        ).encode()
        for start in range(0, len(messages), size)
    ]


def _spelled(message: Message) -> dict[str, Any]:
    content: dict[str, Any] = {
        "integrations": {},
        "anonymousId": None,
        "timestamp": message.timestamp.isoformat(timespec="milliseconds"),
        "context": {"library": {"name": "analytics-python", "version": "2.4.0"}},
        "userId": message.user_id,
        "messageId": str(uuid.uuid4()),
    }
    if isinstance(message, Identify):
        return {**content, "type": "identify", "traits": message.traits}
    if isinstance(message, Group):
        return {**content, "type": "group", "groupId": message.group_id, "traits": message.traits}
    assert isinstance(message, Track), "The benchmark makes no other messages."
    properties = {"page": "/reports", "items": 12, "plan": "pro"}
    return {**content, "type": "track", "event": message.event, "properties": properties}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--connections", type=int, nargs="+", default=[4, 32])
    parser.add_argument("--size", type=int, default=100, help="messages of a batch")
    load.arguments(parser, seconds=4)


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
