"""What an event takes on disk once its week is over, with its indexes; with ``--before``, also in
another working tree of this project. Then what it costs to read, move, and forget such events, on
the same rows before and after their weeks are packed.

Processor time of the process and of PostgreSQL's for it: other work on the machine hardly changes
it.
"""

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, LiteralString

from harness.command import run_command
from harness.processes import PROJECT
from harness.report import Report, Result, Table, progress
from harness.service import Service, temporary_service

BYTES_AN_EVENT = 90
PATIENCE = 900.0
# How many times each reader is measured on either side.
ROUNDS = 5
PACK = "pack events"

# Each release has these names. Users are in the order of chance, as they come.
_FILL = """
import json, random, sys
from datetime import UTC, datetime, timedelta
import django
django.setup()
from django.db import transaction
from django.utils import timezone
from engagement.messages import Identify, ReceivedMessage, Track
from engagement.recording.record import record
product, events, users, weeks = map(int, sys.argv[1:])
chance = random.Random(1)
today = timezone.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
start = today - timedelta(days=today.weekday()) - timedelta(weeks=weeks)
step = timedelta(weeks=weeks) / (events * weeks)
arrival = 2_000_000_000
def messages():
    for user in range(users):
        yield Identify(f"user-{user}", start, {}, f"account-{user % 300}")
    for number in range(events * weeks):
        user, name = chance.randrange(users), chance.randrange(20)
        yield Track(f"user-{user}", f"event {name}", start + step * number)
batch = []
def write():
    with transaction.atomic():
        record(batch)
    batch.clear()
for message in messages():
    arrival += 1
    # The messages of a request share a time of receipt.
    received_at = message.timestamp.replace(microsecond=0) + timedelta(seconds=arrival // 20 % 2)
    batch.append(ReceivedMessage(product, arrival, received_at, message))
    if len(batch) == 2000:
        write()
write()
print(json.dumps({}))
"""
_BYTES: LiteralString = """
    SELECT sum(pg_relation_size(inhrelid)), sum(pg_indexes_size(inhrelid)),
           sum(pg_total_relation_size(inhrelid)), (SELECT count(*) FROM engagement_event)
    FROM pg_inherits WHERE inhparent = 'engagement_event'::regclass
      AND pg_relation_size(inhrelid) > 0
"""


class Side:
    """A service of one tree with the events of some weeks that are over."""

    def __init__(self, service: Service, options: argparse.Namespace) -> None:
        self._service = service
        self._database = service.connect()
        self._product = str(service.create_product()["product_id"])
        counts = (options.events, options.users, options.weeks)
        service.run_json("-c", _FILL, self._product, *map(str, counts), timeout=PATIENCE)

    def sizes(self) -> dict[str, float]:
        ((heap, indexes, total, events),) = self._database.execute(_BYTES).fetchall()
        own = {"rows": heap, "indexes": indexes, "all": total}
        return {name: float(size) / events for name, size in own.items()}

    def score(self) -> None:
        self._within("score_all")

    def pack(self) -> dict[str, Any]:
        return self._within("run_night", PACK)

    def read(self, first: int, users: int) -> dict[str, Sequence[float]]:
        return self._within("use_events", self._product, str(first), str(users), str(ROUNDS))

    def _within(self, *arguments: str) -> dict[str, Any]:
        return self._service.run_json("-m", "benchmarks.within", *arguments, timeout=PATIENCE)


def measure(options: argparse.Namespace) -> Report:
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        if options.before:
            progress("Recording in the other tree.")
            other = stack.enter_context(temporary_service(project=options.before.resolve()))
            rows.append({"bytes an event": "the other tree", **Side(other, options).sizes()})
        progress("Recording in this tree.")
        side = Side(stack.enter_context(temporary_service(project=PROJECT)), options)
        rows.append({"bytes an event": "this tree, on the day", **side.sizes()})
        side.score()
        before = side.read(0, options.readers)
        progress("Packing.")
        packed = side.pack()
        rows.append({"bytes an event": "this tree, packed", **side.sizes()})
        after = side.read(options.readers, options.readers)
    yield Table("on disk", rows)
    size = rows[-1]["all"]
    yield Result("bytes an event, a week later", size, at_most=BYTES_AN_EVENT)
    if options.before:
        yield Result("this tree / the other", size / rows[0]["all"])
    work = packed["processor_seconds"] + packed["database_seconds"]
    yield Result("packing, µs an event", work * 1e6 / (options.events * options.weeks))
    yield Table(
        "milliseconds of processor time for a user, an account, a request, or a pair",
        [
            {"": name, "by the key": median(before[name]), "packed": median(after[name])}
            for name in before
        ],
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--before", type=Path, help="the folder of the other working tree")
    parser.add_argument("--events", type=int, default=60_000, help="events a week")
    parser.add_argument("--users", type=int, default=2_000, help="users who do something each week")
    parser.add_argument("--weeks", type=int, default=4, help="weeks that are over")
    parser.add_argument("--readers", type=int, default=100, help="users that are read about")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
