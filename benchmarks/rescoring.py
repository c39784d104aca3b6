"""How many seconds a changed weight takes to be in all scores of a large product, how much memory
the worker takes for it, and whether readers see the old scores until then, and never a mixture.
"""

import argparse
import time
from statistics import median
from typing import Any, LiteralString

import psutil

from harness.command import run_command
from harness.database import number
from harness.http import Client, bearer
from harness.processes import Failed, until
from harness.report import Report, Result, progress
from harness.service import Service, temporary_service
from harness.threads import sampled

# "Seconds, not minutes."
SECONDS = 60.0
MEMORY_GROWTH_MB = 200.0
# Scoring by a half-life, compared with a lookback of 30 days.
RATIO = 1.0
NAMES, DAYS = 20, 25
# Of the product whose users have a long history, and one count a day.
LONG_DAYS = 400
USERS_PER_ACCOUNT = 20
SAMPLE_INTERVAL = 0.25
PATIENCE = 900.0
READ_TIMEOUT = 600.0
PAGE = 100
SCORES = {"old": "the old scores", "neither": "neither the old scores nor the new ones"}

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
_SHOWN: LiteralString = "SELECT COALESCE(scores_id, 0) FROM engagement_workspace WHERE id = %s"


def measure(options: argparse.Namespace) -> Report:
    with temporary_service() as service:
        bench = Bench(service)
        worker = bench.start()
        with sampled(lambda: memory_of(worker), SAMPLE_INTERVAL) as memory:
            counts = bench.fill(options.users, options.counts)
            first = bench.change_weight(2)
            rounds = [bench.change_weight(3 + place) for place in range(options.rounds)]
        both = bench.rescore_both(options.users // 20, options.rounds)
    # Of the process that grew most.
    growth = max(
        sample[pid] - before
        for pid, before in memory[0].items()
        for sample in memory
        if pid in sample
    )
    seconds = [change["seconds"] for change in rounds]
    yield Result("users", options.users)
    yield Result("daily counts", counts)
    yield Result("first scores of all, seconds", first["seconds"])
    yield Result("a changed weight, seconds", median(seconds), at_most=SECONDS, rounds=seconds)
    yield Result("memory growth of the worker, MB", growth, at_most=MEMORY_GROWTH_MB)
    for name in ("old", "neither"):
        must_be = 0 if name == "neither" else None
        pages = sum(change[name] for change in rounds)
        yield Result(f"pages until then with {SCORES[name]}", pages, must_be=must_be)
    lookback, half_life = both["lookback"], both["half-life"]
    for name, seconds in both.items():
        yield Result(f"rescoring by a {name}, seconds", median(seconds), rounds=seconds)
    ratio = median(half_life) / median(lookback)
    yield Result("a half-life to a lookback of 30 days, times", ratio, at_most=RATIO)
    without_effect = sum(change["old"] == change["new"] > 0 for change in rounds)
    yield Result("changes that changed no score", without_effect, must_be=0)


def memory_of(worker: psutil.Process) -> dict[int, float]:
    """The memory of each process of the worker, in MB."""
    processes = [worker, *worker.children(recursive=True)]
    return {process.pid: process.memory_info().rss / 1e6 for process in processes}


class Bench:
    """A service with one large product, whose weights are changed."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._database = service.connect()
        self._product = service.create_product()
        self._workspace: int = self._product["workspace_id"]
        address = service.start_web("web", EDS_READ_REQUESTS_PER_MINUTE="0")
        self._reader = Client(
            address, headers=bearer(self._product["api_token"]), timeout=READ_TIMEOUT
        )

    def start(self) -> psutil.Process:
        """Start the roles, and have them score the product while it is empty; the worker."""
        worker = self._service.start_worker()
        self._service.start_beat()
        until(self._read_score_set, "the worker", PATIENCE)
        return psutil.Process(worker.pid)

    def fill(self, users: int, counts: int) -> int:
        """Give the product users and daily counts. Return how many counts there are."""
        self._fill(self._product["product_id"], users, counts, DAYS)
        return number(self._database, _COUNT)

    def rescore_both(self, users: int, rounds: int) -> dict[str, list[float]]:
        """Make another product, and score it in turns by a lookback and a half-life."""
        product = str(self._service.create_product()["product_id"])
        self._fill(int(product), users, users * LONG_DAYS, LONG_DAYS)
        command = ("benchmarks.within", "rescore_both", product, str(2 * rounds + 1))
        seconds: dict[str, list[float]] = self._service.run_json("-m", *command)
        return seconds

    def _fill(self, product: int, users: int, counts: int, days: int) -> None:
        progress(f"Making {users:,} users with {counts:,} daily counts.")
        size = {
            "product": product,
            "names": NAMES,
            "days": days,
            "accounts": max(1, users // USERS_PER_ACCOUNT),
            "users": users,
            "per_user": counts // users,
        }
        for statement in (_NAMES, _ACCOUNTS, _USERS, _COUNTS, _WINDOW):
            self._database.execute(statement, size)
        self._database.execute(_LEARN)

    def change_weight(self, weight: int) -> dict[str, Any]:
        """Change a weight as the admin does, and read until it shows.

        ``seconds`` are from the commit of the change until the new scores are published. The others
        are how many pages showed old and new scores until then.
        """
        path = f"/v2/accounts?workspace_id={self._workspace}&limit={PAGE}"
        shown_set = self._read_score_set()
        pages = [self._read_scores(path)]
        command = ("benchmarks.within", "change_weight", str(self._workspace), str(weight))
        at: float = self._service.run_json("-m", *command)["at"]
        while self._read_score_set() == shown_set:
            if time.time() - at > PATIENCE:
                raise Failed(f"Waited {PATIENCE:.0f} s in vain for the new scores.")
            pages.append(self._read_scores(path))
            time.sleep(SAMPLE_INTERVAL)
        seconds = time.time() - at
        progress(f"The weight is {weight}: scored and shown after {seconds:.1f} s.")
        return {"seconds": seconds, **judged(pages, self._read_scores(path))}

    def _read_scores(self, path: str) -> list[Any]:
        """The rows of a page, without the states of activity: these are decided in the background
        after the scores are published."""
        return [
            {name: value for name, value in row.items() if name != "activity"}
            for row in self._reader.read_json(path)["data"]
        ]

    def _read_score_set(self) -> int:
        """The score set that readers see, or 0."""
        return number(self._database, _SHOWN, self._workspace)


def judged(pages: list[Any], after: Any) -> dict[str, int]:
    """How many of the pages were the old scores, the new ones, or neither."""
    old = sum(page == pages[0] for page in pages)
    new = sum(page == after for page in pages)
    return {"old": old, "new": new, "neither": len(pages) - old - new}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--counts", type=int, default=5_000_000, help="daily counts of them all")
    parser.add_argument("--rounds", type=int, default=3, help="changes of the weight")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
