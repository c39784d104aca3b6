"""What is answered under pressure, and what recovers by itself: a full inbox, a slow or missing
database, no connections left, slow clients, thousands of idle ones.

Each situation is made, lasts some seconds while clients post, and ends. What they were answered is
counted, and the time until the service answers 202 again and its inbox is empty.
"""

import argparse
import http.client
import resource
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

import psutil
import psycopg

from harness.command import run_command
from harness.posting import BODY
from harness.report import progress, table
from harness.service import HOST, Failed, until
from harness.whole import Whole, running

# Senders are answered within so many seconds, whatever happens.
ANSWERED_WITHIN = 12.0
RECOVERED_WITHIN = 60.0
CLIENTS = 16
PAUSE = 0.05
INBOX_LIMIT = 1000
HEAD = f"POST /v2/track HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(BODY)}\r\n".encode()


@dataclass
class Answers:
    """What clients were answered. No answer at all counts as status 0."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    retry_after: set[str] = field(default_factory=set)


def post(whole: Whole, answers: Answers) -> int:
    """Post once, on a connection of its own."""
    began = time.monotonic()
    status = 0
    connection = http.client.HTTPConnection(HOST, whole.port, timeout=3 * ANSWERED_WITHIN)
    with suppress(OSError, http.client.HTTPException):
        headers = {"Authorization": f"Basic {whole.key}"}
        connection.request("POST", "/v2/track", BODY, headers)
        answer = connection.getresponse()
        status = answer.status
        if status == 503:
            answers.retry_after.add(answer.getheader("Retry-After") or "none")
    connection.close()
    answers.statuses[status] += 1
    answers.seconds.append(time.monotonic() - began)
    return status


@contextmanager
def posting(whole: Whole) -> Iterator[Answers]:
    """Clients that post all the time, at a pace that is no load by itself."""
    answers, over = Answers(), threading.Event()

    def client() -> None:
        while not over.wait(PAUSE):
            post(whole, answers)

    clients = [threading.Thread(target=client, daemon=True) for _ in range(CLIENTS)]
    for one in clients:
        one.start()
    try:
        yield answers
    finally:
        over.set()
        for one in clients:
            one.join()


# --- Situations -------------------------------------------------------------------------------


@contextmanager
def stopped(processes: list[psutil.Process]) -> Iterator[None]:
    """Processes that do not run for a while, as if their machine did not answer."""
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.Error):
                process.resume()


@contextmanager
def full_inbox(whole: Whole) -> Iterator[None]:
    found = whole.processes()
    with stopped(found["worker"] + found["worker's pool process"]), whole.connect() as database:
        # Twice the limit: from then on nothing fits, whoever sends it.
        database.execute(
            "INSERT INTO ingestion_inboxmessage (received_at, key_digest, key_hint, payload) "
            "SELECT now(), '\\x00', '', '\\x00' FROM generate_series(1, %s)",
            [2 * INBOX_LIMIT],
        )
        yield
        database.execute("DELETE FROM ingestion_inboxmessage WHERE key_digest = '\\x00'")


@contextmanager
def locked_inbox(whole: Whole) -> Iterator[None]:
    with whole.connect() as database, database.transaction():
        database.execute("LOCK TABLE ingestion_inboxmessage IN ACCESS EXCLUSIVE MODE")
        yield


@contextmanager
def silent_database(whole: Whole) -> Iterator[None]:
    with stopped(whole.processes()["PostgreSQL"]):
        yield


@contextmanager
def crashing_database(whole: Whole) -> Iterator[None]:
    for process in whole.processes()["PostgreSQL"]:
        with suppress(psutil.Error):
            process.send_signal(signal.SIGKILL)
    yield


@contextmanager
def no_connections_left(whole: Whole) -> Iterator[None]:
    with ExitStack() as stack:
        with suppress(psycopg.OperationalError):
            while True:
                stack.enter_context(whole.connect())
        yield


@contextmanager
def long_transaction(whole: Whole) -> Iterator[None]:
    with whole.connect() as database, database.transaction():
        database.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        database.execute("SELECT count(*) FROM engagement_user")
        database.execute("UPDATE engagement_product SET name = name")
        yield


@contextmanager
def connections(whole: Whole, number: int, first: bytes) -> Iterator[list[socket.socket]]:
    """So many clients that connect and send no more than *first*."""
    with ExitStack() as stack:
        opened = []
        for _ in range(number):
            client = stack.enter_context(socket.create_connection((HOST, whole.port), timeout=5))
            client.sendall(first)
            opened.append(client)
        yield opened


@contextmanager
def dripping(clients: list[socket.socket], byte: bytes) -> Iterator[None]:
    """Each client sends a byte now and then, so that none of them is silent."""
    over = threading.Event()

    def drip() -> None:
        while not over.wait(1.0):
            for client in clients:
                with suppress(OSError):
                    client.send(byte)

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def slow_heads(whole: Whole, number: int) -> Iterator[None]:
    with connections(whole, number, HEAD + b"X-Slow: ") as clients, dripping(clients, b"a"):
        yield


@contextmanager
def slow_bodies(whole: Whole, number: int) -> Iterator[None]:
    with connections(whole, number, HEAD + b"\r\n") as clients, dripping(clients, b" "):
        yield


@contextmanager
def idle_connections(whole: Whole, number: int) -> Iterator[None]:
    request = f"GET /healthz HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    with connections(whole, number, request):
        yield


# --- The command ------------------------------------------------------------------------------

Situation = Callable[[Whole], Any]


def situations(clients: int) -> dict[str, tuple[Situation, set[int]]]:
    """Each situation with what may be answered while it lasts."""
    return {
        "long open transaction elsewhere": (long_transaction, {202}),
        "inbox full": (full_inbox, {202, 503}),
        "inbox locked": (locked_inbox, {202, 503}),
        "database silent": (silent_database, {202, 503}),
        "database killed": (crashing_database, {202, 503}),
        "no database connections left": (no_connections_left, {202, 503}),
        f"{clients:,} slow heads": (lambda whole: slow_heads(whole, clients), {202}),
        f"{clients:,} slow bodies": (lambda whole: slow_bodies(whole, clients), {202}),
        f"{clients:,} idle connections": (lambda whole: idle_connections(whole, clients), {202}),
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    allow_files(options.clients + 1000)
    done = []
    with running(EDS_INBOX_LIMIT=str(INBOX_LIMIT)) as whole:
        until(lambda: post(whole, Answers()) == 202, "the first 202", RECOVERED_WITHIN)
        for name, (situation, allowed) in situations(options.clients).items():
            progress(f"{name}, for {options.seconds} s.")
            done.append({"situation": name, "allowed": sorted(allowed)})
            done[-1] |= observe(whole, situation, options.seconds)
    return {"situations": done}


def observe(whole: Whole, situation: Situation, seconds: float) -> dict[str, Any]:
    before = deaths(whole)
    with situation(whole), posting(whole) as answers:
        time.sleep(seconds)
    ended = time.monotonic()
    until(lambda: post(whole, Answers()) == 202, "a 202 afterwards", RECOVERED_WITHIN)
    accepted_after = time.monotonic() - ended
    until(lambda: is_empty(whole), "the inbox to be empty", RECOVERED_WITHIN)
    return {
        "answered": {str(status): n for status, n in sorted(answers.statuses.items())},
        "retry_after": sorted(answers.retry_after),
        "p99_s": quantiles(answers.seconds, n=100)[-1],
        "longest_s": max(answers.seconds),
        "accepted_again_after_s": accepted_after,
        "inbox_empty_after_s": time.monotonic() - ended,
        "web_workers_died": deaths(whole) - before,
    }


def deaths(whole: Whole) -> int:
    """How often gunicorn's master said that it lost a worker."""
    return whole.log(10_000_000).count("was sent SIG")


def is_empty(whole: Whole) -> bool:
    with suppress(psycopg.Error), whole.connect() as database:
        row = database.execute("SELECT count(*) FROM ingestion_inboxmessage").fetchone()
        return row == (0,)
    return False


def allow_files(number: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < number:
        raise Failed(f"{number} open files are needed and {hard} allowed: see `ulimit -Hn`.")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, number), hard))


def show(figures: dict[str, Any]) -> None:
    heads = ["", "answered", "p99 s", "longest s", "202 after s", "drained after s", "died"]
    print(table(heads, [cells(one) for one in figures["situations"]]))
    waits = {wait for one in figures["situations"] for wait in one["retry_after"]}
    print(f"Retry-After of the answers with 503, in seconds: {', '.join(sorted(waits))}.")


def cells(one: dict[str, Any]) -> list[str]:
    answered = ", ".join(f"{status}: {number:,}" for status, number in one["answered"].items())
    names = ("p99_s", "longest_s", "accepted_again_after_s", "inbox_empty_after_s")
    figures = [f"{one[name]:.1f}" for name in names]
    return [one["situation"], answered, *figures, str(one["web_workers_died"])]


def faults(figures: dict[str, Any]) -> list[str]:
    found = []
    for one in figures["situations"]:
        others = set(one["answered"]) - {str(status) for status in one["allowed"]}
        if others:
            found.append(f"{one['situation']}: answered {', '.join(sorted(others))}.")
        if one["longest_s"] > ANSWERED_WITHIN:
            found.append(f"{one['situation']}: an answer took {one['longest_s']:.1f} s.")
        if "none" in one["retry_after"]:
            found.append(f"{one['situation']}: a 503 had no Retry-After.")
        if one["web_workers_died"]:
            found.append(f"{one['situation']}: {one['web_workers_died']} web workers died.")
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=12.0, help="how long each lasts")
    parser.add_argument("--clients", type=int, default=2500, help="slow and idle clients")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure, show, faults)
