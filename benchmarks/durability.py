"""Nothing lost, nothing doubled: posts messages while processes are killed at random, and accounts
for every one that was answered with 202.
"""

import argparse
import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, LiteralString, NamedTuple

import psutil
import psycopg

from benchmarks.brokers import BROKERS, Broker
from benchmarks.command import run_command
from benchmarks.report import progress, table
from benchmarks.service import HOST, Failed, free_port, own_environment, until
from config.postgres import DATABASE, ROLE, stop_process

CLIENTS = 8
USERS, ACCOUNTS = 400, 40
# Of a hundred messages so many come with a key that no product has: they must be listed as dropped.
UNKNOWN_KEYS = 1
# Each user is identified and put into an account now and then; everything else is a track.
IDENTIFIES, GROUPS = 5, 2
ANSWER_TIMEOUT = 15.0
# Seconds between two kills: drawn from this range.
PAUSE = (1.5, 5.0)
START_PATIENCE = 60.0
# After the last message, everything must be settled and scored within so many seconds.
SETTLE_PATIENCE = 120.0
STOP_TIMEOUT = 20.0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    brokers = list(BROKERS) if options.broker == "all" else [options.broker]
    return {"runs": [_prove(BROKERS[name], options.minutes * 60, options.seed) for name in brokers]}


def _prove(broker: Broker, seconds: float, seed: int) -> dict[str, Any]:
    with running(broker) as service:
        progress(f"{broker.name}: {CLIENTS} clients post for {seconds:.0f} s.")
        posted = Posted()
        over = threading.Event()
        clients = [
            threading.Thread(target=_post, args=(service, posted, over, seed + number), daemon=True)
            for number in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        kills = _kill_at_random(service, time.monotonic() + seconds, random.Random(seed))
        over.set()
        for client in clients:
            client.join()
        progress(f"{broker.name}: {len(posted.acknowledged):,} answered with 202; settling.")
        settled_after = service.until_settled()
        return {"broker": broker.name, "kills": dict(kills), **service.account_for(posted)} | {
            "settled_after_s": settled_after
        }


# --- The service under test -----------------------------------------------------------------


class Service:
    """``up`` in a process of its own, with a data folder of its own."""

    def __init__(self, folder: Path, port: int, process: "subprocess.Popen[bytes]") -> None:
        self.folder = folder
        self.port = port
        self.process = process
        self.key: str = ""

    def wait_until_ready(self) -> None:
        try:
            until(self._is_ready, "the service to be ready", START_PATIENCE)
        except Failed as failed:
            raise Failed(f"{failed} The service said:\n{self.log()}") from None
        credentials = json.loads((self.folder / "credentials.json").read_text())
        self.key = credentials["ingestion_key"]

    def _is_ready(self) -> bool:
        if self.process.poll() is not None:
            raise Failed(f"`up` ended:\n{self.log()}")
        with suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection(HOST, self.port, timeout=5)
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        return False

    def log(self) -> str:
        return (self.folder / "up.log").read_text("utf-8", "replace")[-3000:]

    def connect(self) -> psycopg.Connection[Any]:
        socket_dir = next(self.folder.rglob(".s.PGSQL.*[0-9]")).parent
        return psycopg.connect(host=str(socket_dir), user=ROLE, dbname=DATABASE, autocommit=True)

    def victims(self) -> dict[str, list[psutil.Process]]:
        """The processes that may be killed, by what they do. Never ``up`` itself."""
        found: dict[str, list[psutil.Process]] = {}
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.Error):
                if role := _role(process):
                    found.setdefault(role, []).append(process)
        return found

    def until_settled(self) -> float:
        """Wait for an empty inbox and fresh scores; the seconds that it took."""
        started = time.monotonic()
        try:
            until(self._is_settled, "the inbox to be empty and scores fresh", SETTLE_PATIENCE)
        except Failed as failed:
            raise Failed(f"{failed} The service said:\n{self.log()}") from None
        return time.monotonic() - started

    def _is_settled(self) -> bool:
        with suppress(psycopg.Error, StopIteration), self.connect() as database:
            return all(_number(database, statement) == 0 for statement in _UNSETTLED)
        return False

    def account_for(self, posted: "Posted") -> dict[str, Any]:
        with self.connect() as database:
            return _account_for(posted, database)


def _role(process: psutil.Process) -> str:
    """What the process is for; empty where it is not to be killed."""
    command = " ".join(process.cmdline())
    parent = process.parent()
    of_the_same = parent is not None and " ".join(parent.cmdline()) == command
    if "gunicorn" in command:
        return "web worker" if of_the_same else "web server"
    if "beat" in command and "celery" in command:
        return "beat"
    if "celery" in command and "worker" in command:
        return "worker's pool process" if of_the_same else "worker"
    return "PostgreSQL" if command.startswith("postgres") or "/postgres -D" in command else ""


@contextmanager
def running(broker: Broker) -> Iterator[Service]:
    """The service with the broker; both stopped by their process ids in the end."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="eds-durability-")))
        # PostgreSQL runs as a user of its own where we are root, and must reach its folder.
        folder.chmod(0o711)
        address = stack.enter_context(broker.started(folder))
        port = free_port()
        with (folder / "up.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "manage.py", "up", "--port", str(port)],
                cwd=Path(__file__).resolve().parent.parent,
                env=own_environment(folder, **({"CELERY_BROKER_URL": address} if address else {})),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        stack.callback(stop_process, process, signal.SIGTERM, timeout=STOP_TIMEOUT)
        service = Service(folder, port, process)
        service.wait_until_ready()
        yield service


# --- Posting --------------------------------------------------------------------------------


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
    lock: threading.Lock = field(default_factory=threading.Lock)


def _post(service: Service, posted: Posted, over: threading.Event, seed: int) -> None:
    chance = random.Random(seed)
    client = Client(service)
    for number in range(seed % CLIENTS, USERS, CLIENTS):
        linked = {"userId": f"user-{number}", "groupId": f"account-{number % ACCOUNTS}"}
        client.insist("/v2/identify", linked)
    while not over.is_set():
        kind = chance.randrange(100)
        user = f"user-{chance.randrange(USERS)}"
        if kind < UNKNOWN_KEYS:
            _post_with_unknown_key(client, posted, chance)
        elif kind < UNKNOWN_KEYS + IDENTIFIES:
            _note_other(posted, client.send("/v2/identify", {"userId": user, "traits": {"a": 1}}))
        elif kind < UNKNOWN_KEYS + IDENTIFIES + GROUPS:
            account = {"groupId": f"account-{chance.randrange(ACCOUNTS)}", "traits": {"b": 2}}
            _note_other(posted, client.send("/v2/group", account))
        else:
            _post_track(client, posted, user, chance)


def _post_track(client: "Client", posted: Posted, user: str, chance: random.Random) -> None:
    track = Track(user, datetime.now(UTC))
    event = f"event {chance.randrange(20)}"
    body = {"userId": user, "event": event, "timestamp": track.occurred_at.isoformat()}
    status = client.send("/v2/track", body)
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
    status = client.send("/v2/track", body, key="not-a-key")
    with posted.lock:
        if status == 202:
            posted.to_be_dropped.add(message_id)
        else:
            posted.perhaps_dropped.add(message_id)


def _note_other(posted: Posted, status: int | None) -> None:
    with posted.lock:
        posted.others += status == 202


class Client:
    """One keep-alive connection, made anew when it breaks."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._connection: http.client.HTTPConnection | None = None

    def send(self, path: str, body: dict[str, Any], key: str = "") -> int | None:
        """The answer's status; None where there was none."""
        headers = {"Authorization": f"Basic {key or self._service.key}"}
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection(
                    HOST, self._service.port, timeout=ANSWER_TIMEOUT
                )
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

    def insist(self, path: str, body: dict[str, Any]) -> None:
        while self.send(path, body) != 202:
            pass


# --- Killing --------------------------------------------------------------------------------


def _kill_at_random(service: Service, until_time: float, chance: random.Random) -> Counter[str]:
    kills: Counter[str] = Counter()
    while (left := until_time - time.monotonic()) > 0:
        time.sleep(min(left, chance.uniform(*PAUSE)))
        if service.process.poll() is not None:
            raise Failed(f"`up` ended by itself:\n{service.log()}")
        victims = service.victims()
        if not victims or time.monotonic() >= until_time:
            continue
        role = chance.choice(sorted(victims))
        with suppress(psutil.Error):
            chance.choice(victims[role]).send_signal(signal.SIGKILL)
            kills[role] += 1
    return kills


# --- Accounting -----------------------------------------------------------------------------

_UNSETTLED: tuple[LiteralString, ...] = (
    "SELECT count(*) FROM ingestion_inboxmessage",
    "SELECT count(*) FROM engagement_stalemark",
    "SELECT count(*) FROM engagement_scoreset WHERE state = 'building'",
)
_EVENTS: LiteralString = """
    SELECT u.external_id, e.occurred_at, count(*)
    FROM engagement_event e JOIN engagement_user u ON u.id = e.user_id
    GROUP BY u.external_id, e.occurred_at
"""
_DROPPED: LiteralString = """
    SELECT message_id, count(*) FROM ingestion_droppedmessage
    WHERE reason = 'unknown_key' GROUP BY message_id
"""
# Where the counts by day, user, event and account differ from the events that they count.
_MISCOUNTED: LiteralString = """
    SELECT count(*) FROM (
        SELECT user_id, (occurred_at AT TIME ZONE 'UTC')::date AS day, event_name_id,
               COALESCE(account_id, 0) AS account_id, count(*) AS number
        FROM engagement_event GROUP BY 1, 2, 3, 4) e
    FULL JOIN engagement_dailycount d USING (user_id, day, event_name_id, account_id)
    WHERE e.number IS DISTINCT FROM d.count
"""
# All weights are one and all events of today or yesterday: a raw score is a number of events.
_MISSCORED: LiteralString = """
    SELECT count(*) FROM (
        SELECT e.user_id, e.raw, COALESCE(sum(d.count), 0) AS counted
        FROM engagement_userengagement e
        JOIN engagement_workspace w ON w.scores_id = e.score_set_id
        LEFT JOIN engagement_dailycount d ON d.user_id = e.user_id
        GROUP BY e.user_id, e.raw) s WHERE raw <> counted
"""
_QUARANTINED: LiteralString = "SELECT count(*) FROM ingestion_quarantinedmessage"


def _account_for(posted: Posted, database: psycopg.Connection[Any]) -> dict[str, Any]:
    recorded: Counter[Track] = Counter()
    for user, occurred_at, number in database.execute(_EVENTS):
        recorded[Track(user, occurred_at)] = number
    dropped = dict(database.execute(_DROPPED).fetchall())
    uncertain = posted.unanswered | posted.refused
    known = posted.acknowledged | uncertain
    return {
        "posted": len(known) + posted.others + len(posted.to_be_dropped),
        "acknowledged": len(posted.acknowledged) + posted.others + len(posted.to_be_dropped),
        "refused": len(posted.refused),
        "unanswered": len(posted.unanswered) + len(posted.perhaps_dropped),
        "recorded": sum(recorded.values()),
        "recorded_without_a_202": len(uncertain & recorded.keys()),
        "dropped": sum(dropped.values()),
        "quarantined": _number(database, _QUARANTINED),
        "lost": len(posted.acknowledged - recorded.keys())
        + len(posted.to_be_dropped - dropped.keys()),
        "doubled": sum(number > 1 for number in (*recorded.values(), *dropped.values())),
        "invented": len(recorded.keys() - known)
        + len(dropped.keys() - posted.to_be_dropped - posted.perhaps_dropped),
        "miscounted": _number(database, _MISCOUNTED),
        "misscored": _number(database, _MISSCORED),
        "in_the_inbox": _number(database, _UNSETTLED[0]),
    }


def _number(database: psycopg.Connection[Any], statement: LiteralString) -> int:
    row = database.execute(statement).fetchone()
    assert row is not None
    return int(row[0])


# --- The command ----------------------------------------------------------------------------

SHOWN = (
    "posted",
    "acknowledged",
    "refused",
    "unanswered",
    "recorded",
    "recorded_without_a_202",
    "dropped",
    "quarantined",
    "lost",
    "doubled",
    "invented",
    "miscounted",
    "misscored",
)
MUST_BE_NONE = ("lost", "doubled", "invented", "miscounted", "misscored", "in_the_inbox")


def show(figures: dict[str, Any]) -> None:
    runs = figures["runs"]
    heads = ["", *(run["broker"] for run in runs)]
    rows = [[name.replace("_", " "), *(f"{run[name]:,}" for run in runs)] for name in SHOWN]
    killed = sorted({role for run in runs for role in run["kills"]})
    rows += [
        [f"{role} killed", *(f"{run['kills'].get(role, 0):,}" for run in runs)] for role in killed
    ]
    rows.append(["settled after, seconds", *(f"{run['settled_after_s']:.1f}" for run in runs)])
    print(table(heads, rows))


def faults(figures: dict[str, Any]) -> list[str]:
    return [
        f"{run['broker']}: {name} is {run[name]:,} and must be 0."
        for run in figures["runs"]
        for name in MUST_BE_NONE
        if run[name]
    ]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to post and kill")
    parser.add_argument("--broker", choices=[*BROKERS, "all"], default="postgresql")
    parser.add_argument("--seed", type=int, default=1, help="draws the messages and the kills")


if __name__ == "__main__":
    run_command("durability", __doc__, arguments, measure, show, faults)
