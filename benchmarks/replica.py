"""A read replica: a web server that reads from a real streaming replica, and one beside it that
reads from the primary, while clients post and a worker records and scores. Then the replica stops
and comes back.
"""

import argparse
import http.client
import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any, LiteralString

import psycopg

from config.local.postgres import DATABASE, ROLE, SUPERUSER
from harness import accounting
from harness.asking import status_of
from harness.command import run_command
from harness.posting import ANSWER_TIMEOUT, Address, Posted, posting
from harness.report import progress, table
from harness.service import HOST, PATIENCE, Service, celery, free_port, temporary_service, until
from harness.standby import Standby

READERS = 4
LOOK_EVERY = 0.02
# Lists, and one account with all that is known of it.
PATHS = ("/v2/accounts?", "/v2/users?", "/v2/accounts/1?expand=insights,segments,events,history&")
ROLES = ("without", "with", "worker", "beat")
_PIDS: LiteralString = "SELECT pid FROM pg_stat_activity WHERE application_name = 'reading'"
_REPLAYED: LiteralString = "SELECT pg_last_wal_replay_lsn() >= %s::text::pg_lsn"
_RANKED: LiteralString = """
    SELECT account_id, raw FROM engagement_accountengagement ORDER BY 1, score_set_id
"""


class Sides:
    """The primary, its replica, and a web server for each that reads from it."""

    def __init__(self, service: Service, standby: Standby, network: str) -> None:
        self.service, self.standby = service, standby
        self.primary = service.connect()
        database = f"postgresql://{ROLE}@{network}.{{place}}/{DATABASE}?application_name={{name}}"
        service.environment |= {
            "EDS_SECRET_KEY": "only-for-this-benchmark" * 3,
            "EDS_ENCRYPTION_KEYS": service.run("manage.py", "generate_key").strip(),
            # Requests are counted, and never too many.
            "EDS_READ_REQUESTS_PER_MINUTE": "100000000",
        }
        self.made = service.create_product()
        service.environment["DATABASE_URL"] = database.format(place=2, name="writing")
        self.door = self._serve("door")
        reading = {"DATABASE_URL": database.format(place=2, name="reading")}
        replica = database.format(place=3, name="reading")
        self.readers = {
            "without": self._serve("without", **reading),
            "with": self._serve("with", **reading, EDS_REPLICA_URL=replica),
        }
        service.start("worker", celery("config", "worker"))
        service.start("beat", celery("config", "beat"))
        for address in (self.door, *self.readers.values()):
            until(lambda at=address: status_of(at, "/readyz") == 200, "the roles", PATIENCE)  # type: ignore[misc]

    def _serve(self, name: str, **environment: str) -> Address:
        port = free_port()
        command = [sys.executable, "manage.py", "serve", "--port", str(port)]
        folder: Path = self.service.folder / name
        self.service.start(name, command, EDS_DATA_DIR=str(folder), **environment)
        return HOST, port

    def follower(self) -> "psycopg.Connection[Any]":
        socket = str(self.standby.server.socket_dir)
        return psycopg.connect(host=socket, user=SUPERUSER, dbname=DATABASE, autocommit=True)

    def seconds_spent(self) -> dict[str, float]:
        """Processor time of PostgreSQL's processes that serve the readers, on each side."""
        with closing(self.follower()) as follower:
            return {
                name: sum(_processor_time(pid) for (pid,) in database.execute(_PIDS).fetchall())
                for name, database in (("primary", self.primary), ("replica", follower))
            }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    network = f"127.0.{random.randrange(1, 255)}"
    with temporary_service({"listen_addresses": f"{network}.2"}) as service, ExitStack() as stack:
        follows = {"listen_addresses": f"{network}.3", "hot_standby_feedback": "on"}
        standby = Standby(service.postgres, service.folder / "replica", follows)
        progress("Copying the primary with pg_basebackup.")
        standby.copy()
        standby.start()
        stack.callback(standby.stop)
        sides = Sides(service, standby, network)
        posted = Posted()
        with posting([(sides.door,)], sides.made["ingestion_key"], options.seed, posted):
            progress("Posting until there are scores to read.")
            until(lambda: set(_read_once(sides)) == {200}, "scores on the replica", PATIENCE)
            phases = [_read(sides, name, options.seconds) for name in sides.readers]
            outage = _stop_and_start(sides, posted, options.seconds / 2)
        settled_after = accounting.until_settled(service.connect)
        run = {
            "broker": "with a replica",
            **accounting.account_for(posted, service.connect()),
            "settled_after_s": settled_after,
            "differing_scores": _differing(sides),
            "tracebacks": sum(service.output(name).count("Traceback (") for name in ROLES),
        }
    return {"phases": phases, "outage": outage, "run": run}


def _read_once(sides: Sides) -> list[int | None]:
    headers = {"Authorization": f"Bearer {sides.made['api_token']}"}
    workspace = f"workspace_id={sides.made['workspace_id']}"
    return [status_of(sides.readers["with"], path + workspace, headers) for path in PATHS]


@contextmanager
def _reading(sides: Sides, name: str) -> Iterator["Counter[int | None]"]:
    """Clients read from the web server as fast as they are answered; what they were answered."""
    statuses: Counter[int | None] = Counter()
    over = threading.Event()
    threads = [
        threading.Thread(target=_ask, args=(sides, name, over, statuses)) for _ in range(READERS)
    ]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _ask(sides: Sides, name: str, over: threading.Event, statuses: "Counter[int | None]") -> None:
    headers = {"Authorization": f"Bearer {sides.made['api_token']}"}
    connection = http.client.HTTPConnection(*sides.readers[name], timeout=ANSWER_TIMEOUT)
    for path in cycle(PATHS):
        if over.is_set():
            break
        status = None
        try:
            connection.request(
                "GET", f"{path}workspace_id={sides.made['workspace_id']}", headers=headers
            )
            answer = connection.getresponse()
            answer.read()
            status = answer.status
        except (OSError, http.client.HTTPException):
            connection.close()
        statuses[status] += 1
        if status != 200:
            over.wait(0.1)
    connection.close()


def _read(sides: Sides, name: str, seconds: float) -> dict[str, Any]:
    progress(f"Reading {name} the replica for {seconds:.0f} s.")
    before = sides.seconds_spent()
    started = time.monotonic()
    with _reading(sides, name) as statuses:
        lags = _lags(sides, started + seconds)
    took = time.monotonic() - started
    after = sides.seconds_spent()
    reads = statuses[200]
    return {
        "reading": name,
        "reads": reads,
        "others": statuses.total() - reads,
        "reads_per_second": reads / took,
        "ms_a_read": {side: 1000 * (after[side] - before[side]) / reads for side in after},
        "lag_median_s": median(lags),
        "lag_longest_s": max(lags),
    }


def _lags(sides: Sides, until_then: float) -> list[float]:
    """How long after each look at the primary the replica had all that was written by then."""
    lags = []
    with closing(sides.follower()) as follower:
        while time.monotonic() < until_then:
            row = sides.primary.execute("SELECT pg_current_wal_lsn()::text").fetchone()
            looked = time.monotonic()
            while not _is_true(follower.execute(_REPLAYED, row)):
                time.sleep(0.001)
            lags.append(time.monotonic() - looked)
            time.sleep(LOOK_EVERY)
    return lags


def _stop_and_start(sides: Sides, posted: Posted, seconds: float) -> dict[str, Any]:
    """What readers and senders are told while it is away, and how soon it is read again."""
    progress(f"The replica stops for {seconds:.0f} s.")
    with posted.lock:
        before = Counter(posted.statuses)
    sides.standby.stop()
    with _reading(sides, "with") as statuses:
        time.sleep(seconds)
        ready = status_of(sides.readers["with"], "/readyz")
    with posted.lock:
        posts = Counter(posted.statuses) - before
    sides.standby.start()
    started = time.monotonic()
    until(lambda: set(_read_once(sides)) == {200}, "the replica to be read again", PATIENCE)
    return {
        "reads": {str(status): number for status, number in statuses.items()},
        "readyz": ready,
        "posts": {str(status): number for status, number in posts.items()},
        "read_again_after_s": time.monotonic() - started,
    }


def _differing(sides: Sides) -> int:
    """How many scores differ once the replica has all that was written."""
    row = sides.primary.execute("SELECT pg_current_wal_lsn()::text").fetchone()
    with closing(sides.follower()) as follower:
        until(lambda: _is_true(follower.execute(_REPLAYED, row)), "the replica", PATIENCE)
        ours, theirs = (set(side.execute(_RANKED)) for side in (sides.primary, follower))
    return len(ours ^ theirs)


def _is_true(cursor: "psycopg.Cursor[Any]") -> bool:
    row = cursor.fetchone()
    return bool(row and row[0])


def _processor_time(pid: int) -> float:
    with suppress(FileNotFoundError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def show(figures: dict[str, Any]) -> None:
    phases = figures["phases"]
    heads = ["reading", *(f"{phase['reading']} the replica" for phase in phases)]
    print(table(heads, _rows(phases)))
    outage = figures["outage"]
    print(f"\nwhile the replica was away: reads {json.dumps(outage['reads'])}, /readyz ", end="")
    print(f"{outage['readyz']}, posts {json.dumps(outage['posts'])}; ", end="")
    print(f"read again {outage['read_again_after_s']:.1f} s after it took connections\n")
    run = figures["run"]
    more = [
        [name.replace("_", " "), f"{run[name]:,}"] for name in ("differing_scores", "tracebacks")
    ]
    settled = ["settled after, seconds", f"{run['settled_after_s']:.1f}"]
    print(table(["", run["broker"]], [*accounting.rows([run]), *more, settled]))


def _rows(phases: list[dict[str, Any]]) -> list[list[str]]:
    def row(name: str, show: str, *keys: str) -> list[str]:
        cells = []
        for phase in phases:
            figure: Any = phase
            for key in keys:
                figure = figure[key]
            cells.append(format(figure, show))
        return [name, *cells]

    return [
        row("answered 200, a second", ".0f", "reads_per_second"),
        row("answered otherwise", ",", "others"),
        row("PostgreSQL's time a read at the primary, ms", ".2f", "ms_a_read", "primary"),
        row("and at the replica, ms", ".2f", "ms_a_read", "replica"),
        row("median lag, seconds", ".3f", "lag_median_s"),
        row("longest lag, seconds", ".3f", "lag_longest_s"),
    ]


def faults(figures: dict[str, Any]) -> list[str]:
    found = accounting.faults(figures["run"])
    for phase in figures["phases"]:
        if phase["others"]:
            found.append(f"{phase['others']:,} reads {phase['reading']} the replica were not 200.")
    if set(figures["outage"]["reads"]) - {"503"}:
        found.append("Without the replica readers were told something else than 503.")
    if set(figures["outage"]["posts"]) - {"202"}:
        found.append("Without the replica senders were told something else than 202.")
    if figures["run"]["differing_scores"]:
        found.append("The replica has other scores than the primary.")
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to read from each")
    parser.add_argument("--seed", type=int, default=1, help="draws the messages")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure, show, faults)
