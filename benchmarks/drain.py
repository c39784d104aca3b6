"""How many messages a second are recorded from a filled inbox, by one process alone and by a
Celery worker that also keeps the scores fresh; and whether all of them were recorded exactly once.
"""

import argparse
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, LiteralString

import psycopg

from harness import report
from harness.command import run_command
from harness.report import progress
from harness.service import Service, temporary_service, until

MESSAGES_PER_SECOND = 25_000
# How old a score may be while the worker drains: "seconds".
OLDEST_SCORE = 10.0
# So much of the inbox warms up first: it creates the users, the accounts and the plans.
WARM_UP_SHARE = 0.1
SAMPLE_INTERVAL = 0.5
PATIENCE = 300.0

_WAITING: LiteralString = "SELECT count(*) FROM (SELECT FROM ingestion_inboxmessage LIMIT 1) w"
_MARKED: LiteralString = "SELECT count(*) FROM (SELECT FROM engagement_stalemark LIMIT 1) m"


def measure(options: argparse.Namespace) -> dict[str, Any]:
    # With commit times the age of a mark is the time since it was committed.
    with temporary_service({"track_commit_timestamp": "on"}) as service:
        bench = Bench(service)
        alone = bench.drain_alone(options.messages)
        working = bench.drain_by_worker(options.messages)
        return {"alone": alone, "worker": working, "totals": bench.totals()}


class Bench:
    """A service whose inbox is filled and emptied."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._database = service.connect()
        self._key: str = service.create_product()["ingestion_key"]
        self._filled: list[dict[str, Any]] = []

    def drain_alone(self, messages: int) -> dict[str, Any]:
        """One process drains and nothing else runs; scores wait."""
        self._fill(int(messages * WARM_UP_SHARE))
        self._within("drain")
        self._fill(messages)
        progress("One process drains alone.")
        said = self._within("drain")
        rate = said["messages"] / said["seconds"]
        progress(f"{said['messages']:,} messages in {said['seconds']:.1f} s: {rate:,.0f}/s")
        share = said["processor_seconds"] / said["seconds"]
        return {"messages": said["messages"], "per_second": rate, "processor_share": share}

    def drain_by_worker(self, messages: int) -> dict[str, Any]:
        """A Celery worker drains and scores, with beat beside it as in production."""
        self._service.start_worker()
        self._service.start_beat()
        progress("A Celery worker starts, drains a little, and scores what the process left.")
        self._fill_and_wake(int(messages * WARM_UP_SHARE))
        self._until_scored()
        with Freshness(self._service.connect()).watched() as freshness:
            seconds = self._fill_and_wake(messages)
            emptied = time.monotonic()
            self._until_scored()
            fresh_after = time.monotonic() - emptied
        rate = messages / seconds
        progress(f"{messages:,} messages in {seconds:.1f} s: {rate:,.0f}/s")
        return {
            "messages": messages,
            "per_second": rate,
            "score_age_median_s": median(freshness.ages) if freshness.ages else 0.0,
            "score_age_max_s": max(freshness.ages, default=0.0),
            "scores_complete_after_s": fresh_after,
        }

    def totals(self) -> dict[str, int]:
        """What was sent and what is there, for whoever wants to compare."""
        return {
            "messages_sent": sum(one["messages"] for one in self._filled),
            "tracks_sent": sum(one["tracks"] for one in self._filled),
            "events": self._number("SELECT count(*) FROM engagement_event"),
            "counted": self._number("SELECT COALESCE(sum(count), 0) FROM engagement_dailycount"),
            "users": self._number("SELECT count(*) FROM engagement_user WHERE is_identified"),
            "users_scored": self._number("SELECT count(*) FROM engagement_userengagement"),
            "in_the_inbox": self._number("SELECT count(*) FROM ingestion_inboxmessage"),
            "quarantined": self._number("SELECT count(*) FROM ingestion_quarantinedmessage"),
            "dropped": self._number("SELECT count(*) FROM ingestion_droppedmessage"),
        }

    def _fill(self, messages: int) -> None:
        progress(f"Filling the inbox with {messages:,} messages.")
        self._filled.append(self._within("fill", str(messages), self._key))

    def _fill_and_wake(self, messages: int) -> float:
        """Fill the inbox and wake the worker; seconds from then until the inbox is empty."""
        progress(f"Filling the inbox with {messages:,} messages for the worker.")
        filled = self._within("fill_and_wake", str(messages), self._key)
        self._filled.append(filled)
        until(lambda: not self._number(_WAITING), "the inbox to be empty", PATIENCE)
        return time.time() - float(filled["at"])

    def _until_scored(self) -> None:
        until(lambda: not self._number(_MARKED), "the scores to be computed", PATIENCE)

    def _within(self, *arguments: str) -> dict[str, Any]:
        said = self._service.run("-m", "benchmarks.within", *arguments, timeout=PATIENCE)
        read: dict[str, Any] = json.loads(said)
        return read

    def _number(self, statement: LiteralString) -> int:
        return _number(self._database, statement)


class Freshness:
    """Looks now and then how old the oldest count is that no score includes.

    A count is committed together with a mark, and the mark goes with the commit of the score.
    """

    _AGE: LiteralString = """
        SELECT EXTRACT(EPOCH FROM clock_timestamp() - min(pg_xact_commit_timestamp(xmin)))
        FROM (SELECT DISTINCT xmin FROM engagement_stalemark) AS marks
    """

    def __init__(self, database: psycopg.Connection[Any]) -> None:
        self.ages: list[float] = []
        self._database = database
        self._over = threading.Event()

    @contextmanager
    def watched(self) -> Iterator["Freshness"]:
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        try:
            yield self
        finally:
            self._over.set()
            watcher.join()

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_INTERVAL):
            row = self._database.execute(self._AGE).fetchone()
            if row is not None and row[0] is not None:
                self.ages.append(float(row[0]))


def _number(database: psycopg.Connection[Any], statement: LiteralString) -> int:
    row = database.execute(statement).fetchone()
    assert row is not None
    return int(row[0])


def show(figures: dict[str, Any]) -> None:
    alone, working, totals = figures["alone"], figures["worker"], figures["totals"]
    rate, age = working["per_second"], working["score_age_max_s"]
    lines = [
        report.verdict(
            "One process alone, messages/s", alone["per_second"], at_least=MESSAGES_PER_SECOND
        ),
        f"    it took {alone['processor_share']:.0%} of a core itself; PostgreSQL did the rest",
        report.verdict(
            "A Celery worker that also scores, messages/s", rate, at_least=MESSAGES_PER_SECOND
        ),
        report.verdict("Age of the oldest missing score, seconds", age, at_most=OLDEST_SCORE),
        f"    median {working['score_age_median_s']:.1f} s; all scores were complete "
        f"{working['scores_complete_after_s']:.1f} s after the last message",
        f"Of {totals['messages_sent']:,} messages {totals['tracks_sent']:,} were tracks: "
        f"{totals['events']:,} are stored, {totals['counted']:,} are counted.",
    ]
    print("\n".join(lines))


def faults(figures: dict[str, Any]) -> list[str]:
    totals = figures["totals"]
    expected = {
        "events": totals["tracks_sent"],
        "counted": totals["tracks_sent"],
        "users_scored": totals["users"],
        "in_the_inbox": 0,
        "quarantined": 0,
        "dropped": 0,
    }
    return [
        f"{name} is {totals[name]:,} and must be {number:,}."
        for name, number in expected.items()
        if totals[name] != number
    ]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=300_000, help="messages in the inbox")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure, show, faults)
