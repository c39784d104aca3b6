"""How long a product's message waits until it is recorded, and until its user's score has it, while
others flood the service: with a backlog of 200,000 messages of one product, with constant sending,
without a valid key, and with messages that each move 250,000 stored events to another account.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from threading import Event, Lock
from typing import Any, LiteralString, NamedTuple

from harness.command import run_command
from harness.database import DROPPED, WAITING, number
from harness.http import Client, basic
from harness.processes import until
from harness.report import Report, Result, Table, progress
from harness.service import Service, temporary_service
from harness.threads import working

SECONDS = 3.0
# Scoring begins when the message is recorded.
SCORE_SECONDS = 5.0
SENDERS = 4
BATCH = 500
BODY = json.dumps(
    {"batch": [{"type": "track", "userId": f"u{n}", "event": "opened"} for n in range(BATCH)]}
)
PATIENCE = 120.0
# Of the user who moves: 250,000 events take 29 days. Seconds between two messages that move them.
FIRST_EVENT = datetime.now(UTC).replace(microsecond=0) - timedelta(days=32)
MOVE_PAUSE = 0.5

_MOVING: LiteralString = "SELECT count(*) FROM engagement_reattributionrequest"
# By the key: reading all events would take longer than what is measured.
_RECORDED: LiteralString = "SELECT count(*) FROM engagement_event WHERE product_id = %s"
# What the read API shows: the raw score of the workspace's current scores.
_SCORED: LiteralString = """
    SELECT COALESCE(sum(e.raw), 0) FROM engagement_userengagement e
    JOIN engagement_workspace w ON w.scores_id = e.score_set_id
    WHERE w.product_id = %s
"""
_DROP_COUNT: LiteralString = "SELECT COALESCE(sum(count), 0) FROM ingestion_dropcount"

# A flood lasts as long as the block, and counts the messages that it has sent.
Flood = Callable[[Counter[str]], AbstractContextManager[None]]


def measure(options: argparse.Namespace) -> Report:
    with temporary_service() as service:
        # The limit is part of this measurement.
        service.environment.pop("EDS_INBOX_LIMIT", None)
        bench = Bench(service, options.seconds)
        backlog = partial(bench.backlog, options.messages)
        busy = partial(bench.flood, bench.flooding_key, options.unknown)
        unknown = partial(bench.flood, "", options.unknown)
        floods = [
            bench.beside("nothing", lambda sent_counts: nullcontext()),
            bench.beside(f"{options.messages:,} messages of one product in the inbox", backlog),
            bench.beside("one product that sends as fast as it can", busy),
            bench.beside("messages without a key, as fast as possible", unknown, drops=True),
            *bench.beside_moves(options.events, options.moves, options.runs),
        ]
    yield Table("floods", floods)
    for flood in floods:
        beside = flood["beside"]
        yield Result(f"seconds beside {beside}", flood["at most, s"], at_most=SECONDS)
        scored = flood["score, at most, s"]
        yield Result(f"seconds to the score beside {beside}", scored, at_most=SCORE_SECONDS)
        yield Result(f"messages refused beside {beside}", flood["refused"], must_be=0)
        must_be = flood["sent"] if "without a key" in beside else 0
        yield Result(f"messages dropped beside {beside}", flood["dropped"], must_be=must_be)


class Waits(NamedTuple):
    """Seconds until a message was recorded, and until its user's score had it."""

    recorded: float
    scored: float


class Bench:
    """A service with a product that floods it, and a neighbor that sends single messages."""

    def __init__(self, service: Service, seconds: float) -> None:
        self._service = service
        self._seconds = seconds
        self._database = service.connect()
        self.flooding_key: str = service.create_product()["ingestion_key"]
        neighbor = service.create_product("Neighbor")
        self._product: int = neighbor["product_id"]
        self._address = service.start_web("web")
        headers = basic(neighbor["ingestion_key"])
        self._neighbor = Client(self._address, headers=headers, timeout=PATIENCE)
        service.start_workers()
        service.start_beat()
        self._neighbor.request("POST", "/v2/identify", '{"userId": "gil"}')
        self._wait_for_one()

    def beside(self, name: str, flood: Flood, *, drops: bool = False) -> dict[str, Any]:
        """How long the neighbor's messages wait, one after another, during the flood."""
        progress(f"Beside {name}.")
        listed_count, drop_count = (
            number(self._database, query) for query in (DROPPED, _DROP_COUNT)
        )
        sent_counts: Counter[str] = Counter()
        attempts: list[Waits | None] = []
        with flood(sent_counts):
            deadline = time.monotonic() + self._seconds
            while time.monotonic() < deadline:
                attempts.append(self._wait_for_one())
            depth = number(self._database, WAITING)
        until(lambda: not number(self._database, WAITING), "an empty inbox", PATIENCE)
        messages = sent_counts["messages"]
        if drops:
            # Web processes write the counts every ten seconds.
            enough = drop_count + messages
            until(lambda: number(self._database, _DROP_COUNT) >= enough, "the counts", PATIENCE)
        waits = [attempt for attempt in attempts if attempt is not None]
        recorded, scored = zip(*waits, strict=True)
        progress(f"Recorded after {median(recorded):.2f} s, at most {max(recorded):.2f} s.")
        progress(f"Scored after {median(scored):.2f} s, at most {max(scored):.2f} s.")
        return {
            "beside": name,
            "sent": messages,
            "inbox": depth,
            "refused": len(attempts) - len(waits),
            "waited, median, s": median(recorded),
            "at most, s": max(recorded),
            "score, median, s": median(scored),
            "score, at most, s": max(scored),
            "listed": number(self._database, DROPPED) - listed_count,
            "dropped": number(self._database, _DROP_COUNT) - drop_count,
        }

    @contextmanager
    def backlog(self, messages: int, sent_counts: Counter[str]) -> Iterator[None]:
        arguments = ("fill_and_wake", str(messages), self.flooding_key)
        self._service.run("-m", "benchmarks.within", *arguments, timeout=300)
        sent_counts["messages"] = messages
        yield

    @contextmanager
    def flood(self, key: str, most: int, sent_counts: Counter[str]) -> Iterator[None]:
        """Send batches from several connections, up to *most* messages."""
        lock = Lock()

        def send(over: Event) -> None:
            headers = basic(key) if key else {}
            with closing(Client(self._address, headers=headers, timeout=PATIENCE)) as client:
                while not over.is_set() and sent_counts["messages"] < most:
                    response = client.request("POST", "/segment/v1/batch", BODY)
                    if response and response.status == 200:
                        with lock:
                            sent_counts["messages"] += BATCH
                    else:
                        over.wait(0.2)

        with working(*[send] * SENDERS):
            yield

    def beside_moves(self, events: int, moves: int, runs: int) -> Iterator[dict[str, Any]]:
        """Beside messages that each move all of a user's stored events to another account."""
        if not runs:
            return
        progress(f"A user with {events:,} events.")
        client = Client(self._address, headers=basic(self.flooding_key), timeout=PATIENCE)
        with closing(client):
            for first in range(0, events, BATCH):
                client.request("POST", "/segment/v1/batch", _history(first, BATCH))
        until(lambda: not number(self._database, WAITING), "the events", 10 * PATIENCE)
        for run in range(runs):
            name = f"{moves} messages that each move {events:,} events, run {run + 1}"
            yield self.beside(name, partial(self._moving, moves, run))

    @contextmanager
    def _moving(self, moves: int, run: int, sent_counts: Counter[str]) -> Iterator[None]:
        """Each message says that the user was in another account before all of the events."""

        def send(over: Event) -> None:
            headers = basic(self.flooding_key)
            with closing(Client(self._address, headers=headers, timeout=PATIENCE)) as client:
                for move in range(moves):
                    at = FIRST_EVENT - timedelta(days=1) + timedelta(seconds=moves * run + move)
                    body = {"userId": "mover", "groupId": f"g{run}-{move}", "timestamp": _iso(at)}
                    client.request("POST", "/v2/identify", json.dumps(body))
                    sent_counts["messages"] += 1
                    over.wait(MOVE_PAUSE)

        with working(send):
            yield
        until(lambda: not number(self._database, _MOVING), "the moves", 10 * PATIENCE)

    def _wait_for_one(self) -> Waits | None:
        """The seconds from posting a message, or None if it is rejected."""
        before, score = self._recorded(), self._scored()
        started = time.monotonic()
        body = '{"userId": "gil", "event": "opened"}'
        # On a new connection each time.
        self._neighbor.close()
        response = self._neighbor.request("POST", "/v2/track", body)
        if response is None or response.status != 202:
            time.sleep(0.2)
            return None
        until(lambda: self._recorded() > before, "the message to be recorded", PATIENCE)
        recorded = time.monotonic() - started
        until(lambda: self._scored() > score, "the message to be scored", PATIENCE)
        return Waits(recorded, time.monotonic() - started)

    def _recorded(self) -> int:
        return number(self._database, _RECORDED, self._product)

    def _scored(self) -> int:
        return number(self._database, _SCORED, self._product)


def _history(first: int, count: int) -> str:
    """A batch of one user's events: ten names, one event in ten seconds."""
    events = [
        {
            "type": "track",
            "userId": "mover",
            "event": f"event {number % 10}",
            "timestamp": _iso(FIRST_EVENT + timedelta(seconds=10 * number)),
        }
        for number in range(first, first + count)
    ]
    return json.dumps({"batch": events})


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=200_000, help="messages in the inbox")
    parser.add_argument("--unknown", type=int, default=1_000_000, help="messages sent at most")
    parser.add_argument("--seconds", type=float, default=15.0, help="for each flood")
    parser.add_argument("--events", type=int, default=250_000, help="of the user who moves")
    parser.add_argument("--moves", type=int, default=20, help="messages that move all of them")
    parser.add_argument("--runs", type=int, default=3, help="runs of these moves")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
