"""How many seconds a changed weight takes to be in all scores of a large product, how much memory
the worker takes for it, and whether readers see the old scores until then, and never a mixture.
"""

import argparse
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, LiteralString

import psutil
import psycopg

from benchmarks.reading import PAGE, Reader
from harness import report
from harness.command import run_command
from harness.report import progress
from harness.service import Failed, Service, temporary_service, until

# "Seconds, not minutes."
SECONDS = 60.0
MEMORY_GROWTH_MB = 200.0
NAMES, DAYS = 20, 25
USERS_PER_ACCOUNT = 20
SAMPLE_INTERVAL = 0.25
PATIENCE = 900.0

_NAMES: LiteralString = """
    INSERT INTO engagement_eventname (product_id, name)
    SELECT %(product)s, 'Event ' || n FROM generate_series(1, %(names)s) AS n
"""
_ACCOUNTS: LiteralString = """
    INSERT INTO engagement_account (product_id, external_id, traits, trait_stamps, is_identified,
                                    first_seen_at, last_seen_at)
    SELECT %(product)s, 'account ' || n, '{}', '{}', true, now() - interval '40 days', now()
    FROM generate_series(1, %(accounts)s) AS n
"""
_USERS: LiteralString = """
    WITH numbered AS (
        SELECT id, row_number() OVER (ORDER BY id) AS number
        FROM engagement_account WHERE product_id = %(product)s)
    INSERT INTO engagement_user (product_id, external_id, traits, trait_stamps, is_identified,
                                 first_seen_at, last_seen_at, account_id)
    SELECT %(product)s, 'user ' || n, '{}', '{}', true, now() - interval '40 days', now(), a.id
    FROM generate_series(1, %(users)s) AS n
    JOIN numbered a ON a.number = n %% %(accounts)s + 1
"""
# As many rows for each user, on as many names a day as that takes, in the order of days as they
# would have come. Counts differ between users, so that scores do.
_COUNTS: LiteralString = """
    WITH named AS (
        SELECT id, row_number() OVER (ORDER BY id) - 1 AS number
        FROM engagement_eventname WHERE product_id = %(product)s)
    INSERT INTO engagement_dailycount (product_id, user_id, account_id, event_name_id, day, count,
                                       last_at)
    SELECT %(product)s, u.id, u.account_id, e.id, d.day, 1 + (u.id + row) %% 7,
           d.day + interval '1 minute'
    FROM generate_series(0, %(per_user)s - 1) AS row
    CROSS JOIN LATERAL (
        SELECT (now() AT TIME ZONE 'UTC')::date - (%(days)s - 1 - row %% %(days)s) AS day) AS d
    CROSS JOIN engagement_user u
    JOIN named e ON e.number = (u.id + row / %(days)s) %% %(names)s
    WHERE u.product_id = %(product)s
    ORDER BY d.day
"""
# The longest window, so that every count is in it.
_WINDOW: LiteralString = """
    UPDATE engagement_workspace SET lookback_days = 30 WHERE product_id = %(product)s
"""
_LEARN: LiteralString = """
    ANALYZE engagement_user, engagement_account, engagement_dailycount
"""
_COUNT: LiteralString = "SELECT count(*) FROM engagement_dailycount"
_SHOWN: LiteralString = "SELECT scores_id FROM engagement_workspace WHERE id = %(workspace)s"


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with temporary_service() as service:
        bench = Bench(service)
        bench.start()
        with Memory(bench.worker).watched() as memory:
            counts = bench.fill(options.users, options.counts)
            first = bench.change_weight(2)
            rounds = [bench.change_weight(3 + number) for number in range(options.rounds)]
        return {
            "users": options.users,
            "counts": counts,
            "seconds": median(one["seconds"] for one in rounds),
            "longest_seconds": max(one["seconds"] for one in rounds),
            "first_seconds": first["seconds"],
            "memory_growth_mb": memory.growth_mb,
            "answers": sum(len(one["pages"]) for one in rounds),
            "rounds": [
                {"seconds": one["seconds"], **judged(one["pages"], one["after"])} for one in rounds
            ],
        }


class Bench:
    """A service with one large product, whose weights are changed."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._database = service.connect()
        self._made = service.create_product()
        self._workspace: int = self._made["workspace_id"]
        self._reader = Reader(
            service.start_web("web", EDS_READ_REQUESTS_PER_MINUTE="0"), self._made
        )

    def start(self) -> None:
        """Start the roles, and have them score the product while it is empty."""
        self.worker = psutil.Process(self._service.start_worker().pid)
        self._service.start_beat()
        until(self._shown, "the worker", PATIENCE)

    def fill(self, users: int, counts: int) -> int:
        """Give the product so many users and daily counts; how many counts there are."""
        progress(f"Making {users:,} users with {counts:,} daily counts.")
        size = {
            "product": self._made["product_id"],
            "names": NAMES,
            "days": DAYS,
            "accounts": max(1, users // USERS_PER_ACCOUNT),
            "users": users,
            "per_user": counts // users,
        }
        for statement in (_NAMES, _ACCOUNTS, _USERS, _COUNTS, _WINDOW):
            self._database.execute(statement, size)
        self._database.execute(_LEARN)
        return _number(self._database, _COUNT)

    def change_weight(self, weight: int) -> dict[str, Any]:
        """Change a weight as the admin does, and read until it shows.

        ``seconds`` are from the commit of the change until the new scores are published. ``pages``
        are what readers saw until then, ``after`` what they see then.
        """
        path = self._reader.path("/v2/accounts", limit=PAGE)
        shown = self._shown()
        pages = [self._reader.get(path)["data"]]
        said = self._service.run(
            "-m", "benchmarks.within", "change_weight", str(self._workspace), str(weight)
        )
        at: float = json.loads(said)["at"]
        while self._shown() == shown:
            if time.time() - at > PATIENCE:
                raise Failed(f"Waited {PATIENCE:.0f} s in vain for the new scores.")
            pages.append(self._reader.get(path)["data"])
            time.sleep(SAMPLE_INTERVAL)
        seconds = time.time() - at
        progress(f"The weight is {weight}: scored and shown after {seconds:.1f} s.")
        return {"seconds": seconds, "pages": pages, "after": self._reader.get(path)["data"]}

    def _shown(self) -> int | None:
        row = self._database.execute(_SHOWN, {"workspace": self._workspace}).fetchone()
        assert row is not None
        return None if row[0] is None else int(row[0])


class Memory:
    """Looks now and then how much memory the processes of a worker take."""

    def __init__(self, worker: psutil.Process) -> None:
        self._worker = worker
        self._over = threading.Event()
        self._before = self._read()
        self._most = dict(self._before)

    @property
    def growth_mb(self) -> float:
        """How much the process that grew most has grown."""
        return max(self._most[pid] - was for pid, was in self._before.items()) / 1e6

    @contextmanager
    def watched(self) -> Iterator["Memory"]:
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        try:
            yield self
        finally:
            self._over.set()
            watcher.join()

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_INTERVAL):
            for pid, bytes_now in self._read().items():
                self._most[pid] = max(bytes_now, self._most.get(pid, 0))

    def _read(self) -> dict[int, int]:
        processes = [self._worker, *self._worker.children(recursive=True)]
        return {process.pid: process.memory_info().rss for process in processes}


def judged(pages: list[Any], after: Any) -> dict[str, int]:
    """How many of the pages were the old scores, the new ones, or neither."""
    old = sum(page == pages[0] for page in pages)
    new = sum(page == after for page in pages)
    return {"old": old, "new": new, "neither": len(pages) - old - new}


def _number(database: psycopg.Connection[Any], statement: LiteralString) -> int:
    row = database.execute(statement).fetchone()
    assert row is not None
    return int(row[0])


def show(figures: dict[str, Any]) -> None:
    seconds, growth = figures["seconds"], figures["memory_growth_mb"]
    old = sum(one["old"] for one in figures["rounds"])
    lines = [
        f"{figures['users']:,} users, {figures['counts']:,} daily counts",
        report.verdict("A changed weight is in all scores, seconds", seconds, at_most=SECONDS),
        f"    the longest {figures['longest_seconds']:.1f} s; the first scores of all "
        f"{figures['first_seconds']:.1f} s",
        report.verdict("Memory growth of the worker, MB", growth, at_most=MEMORY_GROWTH_MB),
        f"Of {figures['answers']:,} answers until then {old:,} were the old scores.",
    ]
    print("\n".join(lines))


def faults(figures: dict[str, Any]) -> list[str]:
    found = []
    if neither := sum(one["neither"] for one in figures["rounds"]):
        found.append(f"{neither:,} answers were neither the old scores nor the new ones.")
    if any(one["old"] and one["old"] == one["new"] for one in figures["rounds"]):
        found.append("The changed weight changed no score.")
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--counts", type=int, default=5_000_000, help="daily counts of them all")
    parser.add_argument("--rounds", type=int, default=3, help="changes of the weight")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure, show, faults)
