"""What subscriptions cost: scoring changed accounts, and one look at each watched set, with none,
10, and 100 of them.
"""

import argparse
from statistics import median
from typing import Any, LiteralString

from harness.command import run_command
from harness.database import number
from harness.processes import until
from harness.report import Report, Result, progress
from harness.service import Service, temporary_service

# Sweeps take at most this share of a worker's time, however many there are.
SHARE = 0.1
# Scoring has no part in them, so it may only vary.
SCORING_RATIO = 1.25
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
        measured = {count: bench.measure(count) for count in (0, *options.subscriptions)}
    yield Result("accounts", options.accounts)
    yield Result("changed accounts", options.changed)
    alone = median(measured[0]["scoring"])
    for count, rounds in measured.items():
        seconds = median(rounds["scoring"])
        name = f"scoring the changed accounts, seconds, {count} subscriptions"
        bar = alone * SCORING_RATIO if count else None
        yield Result(name, seconds, at_most=bar, rounds=rounds["scoring"])
    for count in options.subscriptions:
        rounds = measured[count]
        sweep = median(rounds["sweep"])
        yield Result(f"one look at all sets, seconds, {count} subscriptions", sweep,
                     rounds=rounds["sweep"])  # fmt: skip
        yield Result(f"minutes between two looks, {count} subscriptions", sweep / SHARE / 60)
        yield Result(f"messages of a change, {count} subscriptions", median(rounds["messages"]))


class Bench:
    """A service with one product, whose accounts change."""

    def __init__(self, service: Service, options: argparse.Namespace) -> None:
        self._service, self._options = service, options
        self._database = service.connect()
        self._product: int = service.create_product()["product_id"]

    def fill(self) -> None:
        options = self._options
        progress(f"Making {options.accounts:,} accounts and scoring them.")
        size = {"product": self._product, "accounts": options.accounts, "names": NAMES}
        for statement in (_ACCOUNTS, _USERS, _NAMES, _COUNTS):
            self._database.execute(statement, size)
        self._database.execute(_LEARN)
        until(lambda: self._within("score_all")["is_done"], "the scores", PATIENCE)

    def measure(self, subscriptions: int) -> dict[str, list[float]]:
        """Seconds of scoring and of sweeping, round by round, with that many subscriptions."""
        progress(f"{subscriptions} subscriptions.")
        self._within("subscribe", str(self._product), str(subscriptions))
        rounds: dict[str, list[float]] = {"scoring": [], "sweep": [], "messages": []}
        for _ in range(self._options.rounds):
            change = {"product": self._product, "changed": self._options.changed}
            self._database.execute(_CHANGE, change)
            before = number(self._database, _MESSAGES)
            rounds["scoring"].append(self._within("score_all")["seconds"])
            rounds["sweep"].append(self._within("sweep")["seconds"])
            rounds["messages"].append(number(self._database, _MESSAGES) - before)
        return rounds

    def _within(self, command: str, *arguments: str) -> dict[str, Any]:
        result: dict[str, Any] = self._service.run_json(
            "-m", "benchmarks.within", command, *arguments
        )
        return result


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--accounts", type=int, default=1_000_000)
    parser.add_argument("--changed", type=int, default=5_000, help="accounts that change a round")
    parser.add_argument("--subscriptions", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--rounds", type=int, default=3)


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
