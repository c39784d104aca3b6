"""How many messages a second are recorded from a filled inbox, by one process alone and by a
Celery worker that also keeps the scores fresh; and whether all of them were recorded exactly once.
"""

import argparse
import time
from statistics import median
from typing import Any, LiteralString

from harness.command import run_command
from harness.database import COUNTED, DROPPED, EVENTS, QUARANTINED, WAITING, number
from harness.processes import until
from harness.report import Report, Result, progress
from harness.service import Service, temporary_service
from harness.threads import sampled

MESSAGES_PER_SECOND = 25_000
# Seconds that a score may be behind while the worker drains.
OLDEST_SCORE = 10.0
# The part of the messages that warms up: it creates the users, the accounts, and the plans.
WARM_UP_SHARE = 0.1
SAMPLE_INTERVAL = 0.5
PATIENCE = 300.0

_IS_WAITING: LiteralString = "SELECT count(*) FROM (SELECT FROM ingestion_inboxmessage LIMIT 1) w"
_IS_QUEUED: LiteralString = "SELECT count(*) FROM (SELECT FROM engagement_stalemark LIMIT 1) m"
# A count is committed together with a rescore request, which goes with the commit of the score.
_OLDEST_REQUEST: LiteralString = """
    SELECT EXTRACT(EPOCH FROM clock_timestamp() - min(pg_xact_commit_timestamp(xmin)))
    FROM (SELECT DISTINCT xmin FROM engagement_stalemark) AS requests
"""
_USERS: LiteralString = "SELECT count(*) FROM engagement_user WHERE is_identified"
_SCORED: LiteralString = "SELECT count(*) FROM engagement_userengagement"


def measure(options: argparse.Namespace) -> Report:
    # With commit times the age of a rescore request is the time since it was committed.
    with temporary_service({"track_commit_timestamp": "on"}) as service:
        bench = Bench(service)
        yield from bench.drain_alone(options.messages)
        yield from bench.drain_by_worker(options.messages)
        yield from bench.totals()


class Bench:
    """A service whose inbox is filled and emptied."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._database = service.connect()
        self._key: str = service.create_product()["ingestion_key"]
        self._filled: list[dict[str, Any]] = []

    def drain_alone(self, messages: int) -> Report:
        """One process drains and nothing else runs; scores wait."""
        self._fill("fill", int(messages * WARM_UP_SHARE))
        self._within("drain")
        self._fill("fill", messages)
        progress("One process drains alone.")
        drained = self._within("drain")
        rate = drained["messages"] / drained["seconds"]
        yield Result("messages/s, one process alone", rate, at_least=MESSAGES_PER_SECOND)
        # PostgreSQL does the rest.
        share = drained["processor_seconds"] / drained["seconds"]
        yield Result("cores that the process itself took", share)

    def drain_by_worker(self, messages: int) -> Report:
        """A Celery worker drains and scores, with beat beside it as in production."""
        self._service.start_worker()
        self._service.start_beat()
        progress("A Celery worker starts, drains a little, and scores what the process left.")
        self._drain_by_worker(int(messages * WARM_UP_SHARE))
        self._until_scored()
        observer = self._service.connect()

        def oldest() -> float | None:
            row = observer.execute(_OLDEST_REQUEST).fetchone()
            return None if row is None or row[0] is None else float(row[0])

        with sampled(oldest, SAMPLE_INTERVAL) as samples:
            seconds = self._drain_by_worker(messages)
            emptied = time.monotonic()
            self._until_scored()
            fresh_after = time.monotonic() - emptied
        ages = [age for age in samples if age is not None] or [0.0]
        rate = messages / seconds
        yield Result("messages/s, a worker that also scores", rate, at_least=MESSAGES_PER_SECOND)
        yield Result("age of the oldest missing score, seconds", max(ages), at_most=OLDEST_SCORE)
        yield Result("its median, seconds", median(ages))
        yield Result("scores complete after the last message, seconds", fresh_after)

    def totals(self) -> Report:
        """What was sent and what is stored."""
        tracks = sum(run["tracks"] for run in self._filled)
        users = number(self._database, _USERS)
        yield Result("messages sent", sum(run["messages"] for run in self._filled))
        for name, query, must_be in (
            ("events stored", EVENTS, tracks),
            ("events counted", COUNTED, tracks),
            ("users scored", _SCORED, users),
            ("in the inbox", WAITING, 0),
            ("quarantined", QUARANTINED, 0),
            ("dropped", DROPPED, 0),
        ):
            yield Result(name, number(self._database, query), must_be=must_be)

    def _fill(self, command: str, messages: int) -> dict[str, Any]:
        progress(f"Filling the inbox with {messages:,} messages.")
        run = self._within(command, str(messages), self._key)
        self._filled.append(run)
        return run

    def _drain_by_worker(self, messages: int) -> float:
        """Fill the inbox and wake the worker. Return the seconds until the inbox is empty."""
        run = self._fill("fill_and_wake", messages)
        until(lambda: not number(self._database, _IS_WAITING), "an empty inbox", PATIENCE)
        return time.time() - float(run["at"])

    def _until_scored(self) -> None:
        until(lambda: not number(self._database, _IS_QUEUED), "the scores", PATIENCE)

    def _within(self, *arguments: str) -> dict[str, Any]:
        return self._service.run_json("-m", "benchmarks.within", *arguments, timeout=PATIENCE)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=300_000, help="messages in the inbox")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
