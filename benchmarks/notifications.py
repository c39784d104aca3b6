"""What subscriptions cost: recording messages and scoring changed accounts with none, 10, and 100,
in turn, and one look at each watched set.
"""

import argparse
from collections.abc import Sequence
from statistics import median
from typing import Any, LiteralString

from harness.command import run_command
from harness.database import number
from harness.processes import until
from harness.report import Report, Result, progress
from harness.service import Service, temporary_service

# Sweeps take at most this share of a worker's time, however many there are.
SHARE = 0.1
# Recording and scoring have no part in them, so they may only vary. Processor time varies least.
RATIO = 1.25
NAMES = 5
PATIENCE = 1800.0

_ACCOUNTS: LiteralString = """
    INSERT INTO engagement_account (product_id, external_id, traits, trait_stamps, is_identified,
                                    first_seen_at, last_seen_at)
    SELECT %(product)s, 'account ' || n, jsonb_build_object('seats', n %% 500), '{}', true,
           now() - interval '40 days', now()
    FROM generate_series(1, %(accounts)s) AS n
"""
_USERS: LiteralString = """
    INSERT INTO engagement_user (product_id, external_id, traits, trait_stamps, is_identified,
                                 first_seen_at, last_seen_at, account_id)
    SELECT %(product)s, 'user ' || id, '{}', '{}', true, now() - interval '40 days', now(), id
    FROM engagement_account WHERE product_id = %(product)s
"""
_NAMES: LiteralString = """
    INSERT INTO engagement_eventname (product_id, name)
    SELECT %(product)s, 'Event ' || n FROM generate_series(1, %(names)s) AS n
"""
_COUNTS: LiteralString = """
    INSERT INTO engagement_dailycount (product_id, user_id, account_id, event_name_id, day, count,
                                       last_at)
    SELECT %(product)s, u.id, u.account_id, e.id, d.day, 1 + u.id %% 97, d.day
    FROM engagement_user u
    CROSS JOIN (SELECT id FROM engagement_eventname WHERE product_id = %(product)s LIMIT 1) e
    CROSS JOIN LATERAL (SELECT (now() AT TIME ZONE 'UTC')::date - 1 AS day) AS d
    WHERE u.product_id = %(product)s
"""
_LEARN: LiteralString = "ANALYZE engagement_user, engagement_account, engagement_dailycount"
# New counts for some accounts, and the requests to score them.
_CHANGE: LiteralString = """
    WITH changed AS (
        UPDATE engagement_dailycount SET count = 1 + (count + 41) %% 97
        WHERE product_id = %(product)s AND account_id IN (
            SELECT id FROM engagement_account WHERE product_id = %(product)s
            ORDER BY id LIMIT %(changed)s)
        RETURNING user_id, account_id)
    INSERT INTO engagement_stalemark (product_id, user_id, account_id)
    SELECT %(product)s, user_id, NULL::bigint FROM changed
    UNION ALL SELECT %(product)s, NULL, account_id FROM changed
"""
_MESSAGES: LiteralString = "SELECT count(*) FROM notifications_outboxmessage"


def measure(options: argparse.Namespace) -> Report:
    with temporary_service() as service:
        bench = Bench(service, options)
        bench.fill()
        first = bench.subscribe(max(options.subscriptions))
        counts = (0, *options.subscriptions)
        rounds = bench.rounds(counts)
        looks = {count: bench.look(count) for count in options.subscriptions}
    yield Result("accounts", options.accounts)
    yield Result("changed accounts a round", options.changed)
    yield Result("messages recorded a round", options.messages)
    for name in ("drain", "scoring"):
        for count in counts:
            took = rounds[name][count]
            ratio = median(
                with_subscriptions / none
                for with_subscriptions, none in zip(took, rounds[name][0], strict=True)
            )
            bar = RATIO if count else None
            yield Result(f"{name}: processor seconds, {count} subscriptions", median(took),
                         rounds=took)  # fmt: skip
            yield Result(f"{name}: {count} subscriptions / none", ratio, at_most=bar)
    yield Result(f"first look at {max(options.subscriptions)} sets, seconds", first["seconds"])
    for count, look in looks.items():
        yield Result(f"one look at all sets, seconds, {count} subscriptions", look["seconds"])
        yield Result(f"its processor seconds, {count} subscriptions", _processor(look))
        pause = look["seconds"] / SHARE / 60
        yield Result(f"minutes between two looks, {count} subscriptions", pause)
        yield Result(f"messages of it, {count} subscriptions", look["messages"])


class Bench:
    """A service with one product, whose accounts change."""

    def __init__(self, service: Service, options: argparse.Namespace) -> None:
        self._service, self._options = service, options
        self._database = service.connect()
        product = service.create_product()
        self._product: int = product["product_id"]
        self._key: str = product["ingestion_key"]

    def fill(self) -> None:
        options = self._options
        progress(f"Making {options.accounts:,} accounts and scoring them.")
        size = {"product": self._product, "accounts": options.accounts, "names": NAMES}
        for statement in (_ACCOUNTS, _USERS, _NAMES, _COUNTS):
            self._database.execute(statement, size)
        self._database.execute(_LEARN)
        until(lambda: self._within("score_all")["is_done"], "the scores", PATIENCE)

    def subscribe(self, count: int) -> dict[str, Any]:
        """Make that many subscriptions; what the first look at their sets took."""
        progress(f"{count} subscriptions, and the first look at their sets.")
        return self._within("subscribe", str(self._product), str(count))

    def rounds(self, counts: Sequence[int]) -> dict[str, dict[int, list[float]]]:
        """The processor seconds of recording and of scoring, by the number of subscriptions."""
        took: dict[str, dict[int, list[float]]] = {
            name: {count: [] for count in counts} for name in ("drain", "scoring")
        }
        for place in range(self._options.rounds):
            for count in sorted(counts, reverse=bool(place % 2)):
                progress(f"Round {place + 1} with {count} subscriptions.")
                self._within("enable", str(self._product), str(count))
                self._within("fill", str(self._options.messages), self._key)
                took["drain"][count].append(_processor(self._within("drain")))
                self._change()
                took["scoring"][count].append(_processor(self._within("score_all")))
        return took

    def look(self, count: int) -> dict[str, Any]:
        """What one look took after everything that changed since the last one."""
        progress(f"One look with {count} subscriptions.")
        self._within("enable", str(self._product), str(count))
        self._change()
        self._within("score_all")
        before = number(self._database, _MESSAGES)
        look = self._within("sweep")
        return {**look, "messages": number(self._database, _MESSAGES) - before}

    def _change(self) -> None:
        change = {"product": self._product, "changed": self._options.changed}
        self._database.execute(_CHANGE, change)

    def _within(self, command: str, *arguments: str) -> dict[str, Any]:
        result: dict[str, Any] = self._service.run_json(
            "-m", "benchmarks.within", command, *arguments, timeout=PATIENCE
        )
        return result


def _processor(took: dict[str, Any]) -> float:
    """The processor seconds of the process and of PostgreSQL for it."""
    return float(took["processor_seconds"] + took["database_seconds"])


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--accounts", type=int, default=1_000_000)
    parser.add_argument("--changed", type=int, default=5_000, help="accounts that change a round")
    parser.add_argument("--messages", type=int, default=50_000, help="messages recorded a round")
    parser.add_argument("--subscriptions", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--rounds", type=int, default=3)


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
