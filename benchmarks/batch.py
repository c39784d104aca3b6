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

from benchmarks import load, report
from benchmarks.accept import targets_table, waiting, warm_up
from benchmarks.command import run_command
from benchmarks.load import Target
from benchmarks.messages import generate
from benchmarks.report import progress
from benchmarks.service import Service, temporary_service
from engagement.messages import Group, Identify, Message, Track

MESSAGES_PER_SECOND = 20_000
# So many different batches are sent in turns.
BATCHES = 100
SCRIPT = load.SCRIPT.with_name("batch.lua")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with temporary_service() as service, tempfile.TemporaryDirectory() as folder:
        targets = start(service, Path(folder), options.size)
        warm_up(targets, max(options.connections))
        sent = waiting(service)
        measured = []
        for connections in options.connections:
            rounds = load.interleaved(
                targets, connections, rounds=options.rounds, seconds=options.seconds
            )
            for of_target, size in zip(rounds, [options.size, options.size, 1], strict=True):
                sent += sum(one.requests for one in of_target.rounds) * size
            measured.append(rounds)
        return {
            "size": options.size,
            "targets": [one.as_dict() for rounds in measured for one in rounds],
            "times_one_by_one": {
                f"{plain.connections} connections": [
                    ratio * options.size for ratio in plain.ratios(single)
                ]
                for plain, _, single in measured
            },
            "answered": sent,
            "in_the_inbox": waiting(service),
        }


def start(service: Service, folder: Path, size: int) -> list[Target]:
    """One web server, and the three ways to send to it."""
    key = service.create_product()["ingestion_key"]
    progress(f"Writing {BATCHES} batches of {size}.")
    bodies = batches(size)
    url = service.start_web("ours")
    return [
        _batch_target("batches", url, key, folder / "plain", bodies, ""),
        _batch_target("batches, gzipped", url, key, folder / "gzip", bodies, "gzip"),
        Target("tracks one by one", f"{url}/v2/track", key),
    ]


def _batch_target(
    name: str, url: str, key: str, folder: Path, bodies: Sequence[bytes], encoding: str
) -> Target:
    folder.mkdir()
    for number, body in enumerate(bodies, 1):
        (folder / str(number)).write_bytes(gzip.compress(body) if encoding else body)
    arguments = (str(folder), str(len(bodies)), encoding)
    return Target(name, f"{url}/segment/v1/batch", key, SCRIPT, arguments, bodies[0], 200)


def batches(size: int) -> list[bytes]:
    """Bodies as Segment's SDK for Python makes them."""
    now = datetime.now(UTC)
    messages = [_spelled(message) for message in generate(BATCHES * size, now, seed=size)]
    return [
        json.dumps(
            {"batch": messages[start : start + size], "sentAt": now.isoformat()},
        ).encode()
        for start in range(0, len(messages), size)
    ]


def _spelled(message: Message) -> dict[str, Any]:
    said: dict[str, Any] = {
        "integrations": {},
        "anonymousId": None,
        "timestamp": message.timestamp.isoformat(timespec="milliseconds"),
        "context": {"library": {"name": "analytics-python", "version": "2.4.0"}},
        "userId": message.user_id,
        "messageId": str(uuid.uuid4()),
    }
    if isinstance(message, Identify):
        return {**said, "type": "identify", "traits": message.traits}
    if isinstance(message, Group):
        return {**said, "type": "group", "groupId": message.group_id, "traits": message.traits}
    assert isinstance(message, Track), "The benchmark makes no other messages."
    properties = {"page": "/reports", "items": 12, "plan": "pro"}
    return {**said, "type": "track", "event": message.event, "properties": properties}


def show(figures: dict[str, Any]) -> None:
    size = figures["size"]
    print(targets_table(figures["targets"]))
    print()
    for one in figures["targets"]:
        if one["target"].startswith("batches"):
            name = f"Messages/s in {one['target']}, {one['connections']} connections"
            rate = one["requests_per_second"] * size
            print(report.verdict(name, rate, at_least=MESSAGES_PER_SECOND))
            print(f"    by round: {report.spread([rate * size for rate in one['rounds']])}")
    for name, ratios in figures["times_one_by_one"].items():
        print(
            f"Batches at {name} take {median(ratios):.1f} times the messages of single tracks "
            f"({report.spread(ratios)})."
        )
    print(
        f"{figures['answered']:,} messages were answered and counted; "
        f"{figures['in_the_inbox']:,} are in the inbox (those under way when a round ended are "
        "more)."
    )


def faults(figures: dict[str, Any]) -> list[str]:
    found = [
        f"{one['target']} had {one['errors']} errors at {one['connections']} connections."
        for one in figures["targets"]
        if one["errors"]
    ]
    if figures["in_the_inbox"] < figures["answered"]:
        found.append("There are fewer messages in the inbox than were answered.")
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--connections", type=int, nargs="+", default=[4, 32])
    parser.add_argument("--size", type=int, default=100, help="messages of a batch")
    parser.add_argument("--rounds", type=int, default=3, help="rounds for each way")
    parser.add_argument("--seconds", type=int, default=4, help="seconds of a round")


if __name__ == "__main__":
    run_command("batch", __doc__, arguments, measure, show, faults)
