"""Posts messages and keeps what became of each, so that each can be accounted for."""

import http.client
import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle
from typing import Any, NamedTuple, TypeAlias

CLIENTS = 8
USERS, ACCOUNTS = 400, 40
# Of a hundred messages so many come with a key that no product has: they must be listed as dropped.
UNKNOWN_KEYS = 1
# Each user is identified and put into an account now and then; everything else is a track.
IDENTIFIES, GROUPS = 5, 2
ANSWER_TIMEOUT = 15.0
BODY = b'{"userId":"user-1","event":"event 1","timestamp":"2026-01-01T00:00:00Z"}'

# Host and port of a web server.
Address: TypeAlias = tuple[str, int]


class Track(NamedTuple):
    """A track that was posted. No two have the same user and time."""

    user: str
    occurred_at: datetime


@dataclass
class Posted:
    """What clients sent, and what they were told.

    An unanswered or refused message may be in or not: PostgreSQL may have died between writing the
    commit and saying so. Its sender is told to send it again, which a message id makes harmless.
    """

    acknowledged: set[Track] = field(default_factory=set)
    unanswered: set[Track] = field(default_factory=set)
    refused: set[Track] = field(default_factory=set)
    # Message ids of what was sent with an unknown key, with and without an answer.
    to_be_dropped: set[str] = field(default_factory=set)
    perhaps_dropped: set[str] = field(default_factory=set)
    others: int = 0
    # All answers by status, and the longest that a 202 and any answer took since somebody set it to
    # zero, in seconds.
    statuses: Counter[int] = field(default_factory=Counter)
    longest: float = 0.0
    longest_answer: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def posting(
    doors: Sequence[Sequence[Address]], key: str, seed: int, into: Posted | None = None
) -> Iterator[Posted]:
    """Clients post as long as the block runs, each through one of *doors* in turn. All users are
    identified before it begins.

    A door is the addresses that its clients try, one after the other when a connection breaks.
    What becomes of their messages is added to *into*, if given.
    """
    posted = into or Posted()
    over = threading.Event()
    identified = threading.Semaphore(0)
    clients = [
        threading.Thread(
            target=_post,
            args=(doors[number % len(doors)], key, posted, over, identified, seed + number),
            daemon=True,
        )
        for number in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    try:
        for _ in clients:
            identified.acquire()
        yield posted
    finally:
        over.set()
        for client in clients:
            client.join()


def _post(
    addresses: Sequence[Address],
    key: str,
    posted: Posted,
    over: threading.Event,
    identified: threading.Semaphore,
    seed: int,
) -> None:
    chance = random.Random(seed)
    client = Client(addresses, key)
    for number in range(seed % CLIENTS, USERS, CLIENTS):
        linked = {"userId": f"user-{number}", "groupId": f"account-{number % ACCOUNTS}"}
        while not over.is_set() and _send(client, posted, "/v2/identify", linked) != 202:
            pass
    identified.release()
    while not over.is_set():
        kind = chance.randrange(100)
        user = f"user-{chance.randrange(USERS)}"
        if kind < UNKNOWN_KEYS:
            _post_with_unknown_key(client, posted, chance)
        elif kind < UNKNOWN_KEYS + IDENTIFIES:
            person = {"userId": user, "traits": {"a": 1}}
            _note_other(posted, _send(client, posted, "/v2/identify", person))
        elif kind < UNKNOWN_KEYS + IDENTIFIES + GROUPS:
            account = {"groupId": f"account-{chance.randrange(ACCOUNTS)}", "traits": {"b": 2}}
            _note_other(posted, _send(client, posted, "/v2/group", account))
        else:
            _post_track(client, posted, user, chance)


def _post_track(client: "Client", posted: Posted, user: str, chance: random.Random) -> None:
    track = Track(user, datetime.now(UTC))
    event = f"event {chance.randrange(20)}"
    body = {"userId": user, "event": event, "timestamp": track.occurred_at.isoformat()}
    status = _send(client, posted, "/v2/track", body)
    with posted.lock:
        if status == 202:
            posted.acknowledged.add(track)
        elif status is None:
            posted.unanswered.add(track)
        else:
            posted.refused.add(track)


def _post_with_unknown_key(client: "Client", posted: Posted, chance: random.Random) -> None:
    message_id = f"unknown-{chance.getrandbits(64):x}"
    body = {"userId": "nobody", "event": "nothing", "messageId": message_id}
    status = _send(client, posted, "/v2/track", body, key="not-a-key")
    with posted.lock:
        if status == 202:
            posted.to_be_dropped.add(message_id)
        else:
            posted.perhaps_dropped.add(message_id)


def _note_other(posted: Posted, status: int | None) -> None:
    with posted.lock:
        posted.others += status == 202


def _send(
    client: "Client", posted: Posted, path: str, body: dict[str, Any], key: str = ""
) -> int | None:
    started = time.monotonic()
    status = client.send(path, body, key)
    took = time.monotonic() - started
    with posted.lock:
        if status is not None:
            posted.statuses[status] += 1
            posted.longest_answer = max(posted.longest_answer, took)
        if status == 202:
            posted.longest = max(posted.longest, took)
    return status


class Client:
    """One keep-alive connection, made anew when it breaks: to the next address, and so on."""

    def __init__(self, addresses: Sequence[Address], key: str) -> None:
        self._addresses = cycle(addresses)
        self._key = key
        self._connection: http.client.HTTPConnection | None = None

    def send(self, path: str, body: dict[str, Any], key: str = "") -> int | None:
        """The answer's status; None where there was none."""
        headers = {"Authorization": f"Basic {key or self._key}"}
        try:
            if self._connection is None:
                host, port = next(self._addresses)
                self._connection = http.client.HTTPConnection(host, port, timeout=ANSWER_TIMEOUT)
                self._connection.connect()
                self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connection.request("POST", path, json.dumps(body), headers)
            answer = self._connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            time.sleep(0.05)
            return None
        if answer.status == 503:
            time.sleep(0.2)
        return answer.status
