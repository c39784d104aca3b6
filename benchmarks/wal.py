"""What a message costs PostgreSQL: bytes of write-ahead log by step, table, and index, and time by
statement; with ``--before``, also in another working tree of this project, in turn.

32 threads accept messages one by one, as requests do. Then one process drains, and one scores.
"""

import argparse
import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, LiteralString

from harness.command import run_command
from harness.processes import PROJECT, Failed
from harness.report import Report, Result, Table, progress
from harness.service import Service, temporary_service

BYTES_A_MESSAGE = 600
PATIENCE = 900.0
THREADS = 32
STEPS = ("accept", "drain", "score")
# Rows of each table.
LARGEST = 30

# Each release has these names.
_STEP = """
import json, sys, time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
import django
import psycopg
django.setup()
from django.utils import timezone
from benchmarks.messages import generate
from engagement.rescoring.rescore import rescore
from ingestion.drain import processing
from ingestion.inbox import group_commit
step, count, key, threads = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
group_commit.drain_requests.request_drain = lambda: None
statements = defaultdict(float)
execute = psycopg.Cursor.execute
def timed(cursor, query, *arguments, **options):
    started = time.perf_counter()
    try:
        return execute(cursor, query, *arguments, **options)
    finally:
        statements[" ".join(str(query).split())[:100]] += time.perf_counter() - started
psycopg.Cursor.execute = timed
def accept(message):
    group_commit.accept([message], key, timezone.now())
started = time.process_time()
if step == "accept":
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(accept, generate(count, timezone.now(), seed=count)))
    group_commit.stop()
elif step == "drain":
    # As large as on a fast machine, however busy this one is: a small batch writes more.
    sizer = processing.BatchSizer(timer=lambda: 0.0)
    assert processing.drain(timezone.now, sizer=sizer).messages == count
else:
    rescore(timezone.now())
print(json.dumps({"statements": statements, "processor": time.process_time() - started}))
"""
_RELATIONS: LiteralString = """
    SELECT pg_relation_filenode(c.oid), regexp_replace(COALESCE(
        (SELECT indrelid::regclass || ': ' || c.relname FROM pg_index WHERE indexrelid = c.oid),
        (SELECT t.relname || ' (large values)' FROM pg_class t WHERE t.reltoastrelid = c.oid),
        c.relname), '_p?20[0-9_]+', '', 'g')
    FROM pg_class c WHERE pg_relation_filenode(c.oid) IS NOT NULL
"""
_RECORD = re.compile(
    r"rmgr: (?P<manager>\S+) +len \(rec/tot\): *(?P<own>\d+)/ *(?P<total>\d+).* desc: (?P<name>\S+)"
    r"(?:.*?blkref #0: rel \d+/\d+/(?P<file>\d+))?"
)
WHOLE_PAGES = "(whole pages after a checkpoint)"


class Side:
    """A service of one tree, and what its last round wrote: bytes and records a message."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._database = service.connect()
        self._key: str = service.create_product()["ingestion_key"]
        self.log: dict[str, dict[str, tuple[float, float]]] = {}
        self.statements: dict[str, Mapping[str, float]] = {}
        self.totals: list[float] = []

    def run_round(self, messages: int) -> None:
        # Other messages than each round before, because a round is repeated by its number.
        messages += len(self.totals)
        for step in STEPS:
            start = self._position()
            arguments = ("-c", _STEP, step, str(messages), self._key, str(THREADS))
            took = self._service.run_json(*arguments, timeout=PATIENCE)
            self.log[step] = self._read_log(start, self._position(), messages)
            self.statements[step] = {
                text: seconds * 1e6 / messages for text, seconds in took["statements"].items()
            }
        self.totals.append(sum(self.bytes_of(step) for step in STEPS))

    def bytes_of(self, step: str) -> float:
        """Of a message, without whole pages: these depend on how often a checkpoint comes."""
        return sum(size for name, (size, _) in self.log[step].items() if name != WHOLE_PAGES)

    def _position(self) -> str:
        ((position,),) = self._database.execute("SELECT pg_current_wal_insert_lsn()").fetchall()
        return str(position)

    def _read_log(self, start: str, end: str, messages: int) -> dict[str, tuple[float, float]]:
        # So that all of it is on disk.
        self._database.execute("SELECT pg_switch_wal()")
        files = {str(file): name for file, name in self._database.execute(_RELATIONS).fetchall()}
        program = self._service.postgres.client_program("pg_waldump")
        folder = str(self._service.postgres.wal_folder)
        command = [str(program), "-p", folder, "-s", start, "-e", end]
        dump = subprocess.run(command, capture_output=True, text=True)
        if dump.returncode:
            raise Failed(f"pg_waldump failed:\n{dump.stderr[-2000:]}")
        sizes: Counter[str] = Counter()
        records: Counter[str] = Counter()
        for record in filter(None, map(_RECORD.search, dump.stdout.splitlines())):
            own, total = int(record["own"]), int(record["total"])
            table = files.get(record["file"] or "", "")
            name = f"{table} {record['manager']} {record['name']}".strip()
            if " FPW" in record.string:
                sizes[WHOLE_PAGES] += total - own
                records[WHOLE_PAGES] += 1
                total = own
            sizes[name] += total
            records[name] += 1
        return {name: (size / messages, records[name] / messages) for name, size in sizes.items()}


def measure(options: argparse.Namespace) -> Report:
    trees = {"this tree": PROJECT}
    if options.before:
        trees = {"the other tree": options.before.resolve(), **trees}
    with ExitStack() as stack:
        sides = {
            name: Side(stack.enter_context(temporary_service(project=tree)))
            for name, tree in trees.items()
        }
        for number in range(options.rounds + 1):
            progress(f"Round {number} of {options.rounds}.")
            for side in sides.values():
                side.run_round(options.messages)
    for name, side in sides.items():
        log = [
            {"": step, "log": what, "bytes": size, "records": count}
            for step in STEPS
            for what, (size, count) in side.log[step].items()
        ]
        yield Table(f"{name}: write-ahead log of a message", _largest(log, "bytes"))
        statements = [
            {"": step, "statement": text, "microseconds": time}
            for step in STEPS
            for text, time in side.statements[step].items()
        ]
        yield Table(f"{name}: PostgreSQL's time", _largest(statements, "microseconds"))
    for name, side in sides.items():
        for step in STEPS:
            yield Result(f"{name}, {step}: bytes a message", side.bytes_of(step))
        # The first round creates users and accounts.
        rounds = side.totals[1:]
        bar = BYTES_A_MESSAGE if name == "this tree" else None
        yield Result(f"{name}: bytes a message", median(rounds), at_most=bar, rounds=rounds)


def _largest(rows: Sequence[dict[str, Any]], column: str) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: -row[column])[:LARGEST]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--before", type=Path, help="the folder of the other working tree")
    parser.add_argument("--messages", type=int, default=20_000, help="messages a round")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of each tree")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
