"""Posts messages and keeps what became of each, so that each can be accounted for."""

import argparse
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from harness.http import Address, Client, basic
from harness.report import progress
from harness.threads import working

CLIENTS = 8
USERS, ACCOUNTS = 400, 40
# So many of a hundred messages come with a key that no product has: they must be listed as dropped.
UNKNOWN_KEYS = 1
# Each user is identified and put into an account now and then; everything else is a track.
IDENTIFIES, GROUPS = 5, 2
BODY = b'{"userId":"user-1","event":"event 1","timestamp":"2026-01-01T00:00:00Z"}'


class Track(NamedTuple):
    """A track that was posted. No two have the same user and time."""

    user: str
    occurred_at: datetime


@dataclass
class Posted:
    """What clients sent, and which responses they got.

    A message without a response, or with another one than 202, may be recorded or not: PostgreSQL
    may have died after the commit and before the response. Its sender sends it again, which a
    message id makes harmless.
    """

    acknowledged: set[Track] = field(default_factory=set)
    unanswered: set[Track] = field(default_factory=set)
    refused: set[Track] = field(default_factory=set)
    # Message ids of what was sent with an unknown key, with and without a 202.
    to_be_dropped: set[str] = field(default_factory=set)
    perhaps_dropped: set[str] = field(default_factory=set)
    # Acknowledged identify and group calls.
    others: int = 0
    # All responses by status, and the longest that one took since the last phase began.
    statuses: Counter[int | None] = field(default_factory=Counter)
    longest: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def phase(self, name: str) -> Iterator[dict[str, Any]]:
        """Which responses clients get while the block runs: complete when it ends."""
        progress(f"{name}.")
        figures: dict[str, Any] = {"while": name}
        with self.lock:
            before, self.longest = Counter(self.statuses), 0.0
        yield figures
        with self.lock:
            for name, status in (("202", 202), ("503", 503), ("unanswered", None)):
                figures[name] = self.statuses[status] - before[status]
            figures["longest response, s"] = self.longest

    def note(self, status: int | None, seconds: float) -> None:
        with self.lock:
            self.statuses[status] += 1
            if status is not None:
                self.longest = max(self.longest, seconds)


@contextmanager
def posting(
    doors: Sequence[Sequence[Address]],
    key: str,
    seed: int,
    into: Posted | None = None,
    pause: float = 0.0,
) -> Iterator[Posted]:
    """Clients post as long as the block runs, each through one of *doors* in turn. All users are
    identified before it begins.

    A door is the addresses that its clients try, one after the other when a connection breaks.
    What becomes of their messages is added to *into*, if given. Each client waits for *pause*
    seconds after a message.
    """
    posted = into or Posted()
    senders = [
        Sender(
            Client(*doors[number % len(doors)], headers=basic(key)), posted, seed + number, pause
        )
        for number in range(CLIENTS)
    ]
    with working(*(sender.work for sender in senders)):
        for sender in senders:
            sender.has_identified.wait()
        yield posted


def add_posting_arguments(parser: argparse.ArgumentParser, draws: str = "the messages") -> None:
    """What is posted, and how fast. The seed *draws* what the help says."""
    parser.add_argument("--seed", type=int, default=1, help=f"draws {draws}")
    parser.add_argument(
        "--pause", type=float, default=0.0, help="seconds that a client waits after each message"
    )


class Sender:
    """A client that posts what it draws."""

    def __init__(self, client: Client, posted: Posted, seed: int, pause: float) -> None:
        self.has_identified = threading.Event()
        self._client = client
        self._posted = posted
        self._seed = seed
        self._pause = pause
        self._chance = random.Random(seed)

    def work(self, over: threading.Event) -> None:
        for number in range(self._seed % CLIENTS, USERS, CLIENTS):
            membership = {"userId": f"user-{number}", "groupId": f"account-{number % ACCOUNTS}"}
            while not over.is_set() and self._send("/v2/identify", membership) != 202:
                pass
        self.has_identified.set()
        while not over.is_set():
            self._post()
            over.wait(self._pause)
        self._client.close()

    def _post(self) -> None:
        kind = self._chance.randrange(100)
        user = f"user-{self._chance.randrange(USERS)}"
        if kind < UNKNOWN_KEYS:
            self._post_with_unknown_key()
        elif kind < UNKNOWN_KEYS + IDENTIFIES:
            self._post_other("/v2/identify", {"userId": user, "traits": {"a": 1}})
        elif kind < UNKNOWN_KEYS + IDENTIFIES + GROUPS:
            account = f"account-{self._chance.randrange(ACCOUNTS)}"
            self._post_other("/v2/group", {"groupId": account, "traits": {"b": 2}})
        else:
            self._post_track(user)

    def _post_track(self, user: str) -> None:
        track = Track(user, datetime.now(UTC))
        event = f"event {self._chance.randrange(20)}"
        body = {"userId": user, "event": event, "timestamp": track.occurred_at.isoformat()}
        status = self._send("/v2/track", body)
        tracks = {202: self._posted.acknowledged, None: self._posted.unanswered}
        with self._posted.lock:
            tracks.get(status, self._posted.refused).add(track)

    def _post_with_unknown_key(self) -> None:
        message_id = f"unknown-{self._chance.getrandbits(64):x}"
        body = {"userId": "nobody", "event": "nothing", "messageId": message_id}
        is_acknowledged = self._send("/v2/track", body, basic("not-a-key")) == 202
        posted = self._posted
        with posted.lock:
            (posted.to_be_dropped if is_acknowledged else posted.perhaps_dropped).add(message_id)

    def _post_other(self, path: str, body: dict[str, Any]) -> None:
        status = self._send(path, body)
        with self._posted.lock:
            self._posted.others += status == 202

    def _send(
        self, path: str, body: dict[str, Any], headers: dict[str, str] | None = None
    ) -> int | None:
        started = time.monotonic()
        response = self._client.request("POST", path, json.dumps(body), headers or {})
        status = response.status if response else None
        self._posted.note(status, time.monotonic() - started)
        if status in (None, 503):
            time.sleep(0.2 if status else 0.05)
        return status
