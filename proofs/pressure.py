"""What is answered under pressure, and what recovers by itself: a full inbox, a slow or missing
database, no connections left, slow clients, thousands of idle ones.

Each situation lasts some seconds while clients post. Counted are their responses, and the time
until the service answers 202 again and its inbox is empty.
"""

import argparse
import re
import resource
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from statistics import quantiles
from typing import Any

import psutil
import psycopg

from harness.command import run_command
from harness.http import Client, basic
from harness.posting import BODY
from harness.processes import HOST, Failed, until
from harness.report import Report, Result, Table, display, progress
from harness.threads import repeating
from harness.whole import Whole, running

# Seconds within which senders get a response, whatever happens.
ANSWERED_WITHIN = 12.0
RECOVERED_WITHIN = 60.0
CLIENTS = 16
PAUSE = 0.05
INBOX_LIMIT = 1000
HEAD = f"POST /v2/track HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(BODY)}\r\n".encode()
HEALTH = f"GET /healthz HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


@dataclass
class Responses:
    """What clients got. No response at all counts as status 0."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    retry_after: Counter[str] = field(default_factory=Counter)


def post(service: Whole, responses: Responses) -> int:
    """Post once, on a connection of its own."""
    began = time.monotonic()
    headers = basic(service.key)
    with closing(Client(service.address, headers=headers, timeout=3 * ANSWERED_WITHIN)) as client:
        response = client.request("POST", "/v2/track", BODY)
    status = response.status if response else 0
    if response and status == 503:
        responses.retry_after[response.headers.get("Retry-After") or "none"] += 1
    responses.statuses[status] += 1
    responses.seconds.append(time.monotonic() - began)
    return status


@contextmanager
def posting(service: Whole) -> Iterator[Responses]:
    """Clients that post all the time, at a pace that is no load by itself."""
    responses = Responses()
    with repeating(lambda: post(service, responses), CLIENTS, PAUSE):
        yield responses


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
def full_inbox(service: Whole) -> Iterator[None]:
    roles = service.processes()
    with stopped(roles["worker"] + roles["worker's pool process"]), service.connect() as database:
        # Twice the limit: from then on nothing fits.
        database.execute(
            "INSERT INTO ingestion_inboxmessage (received_at, key_digest, key_hint, payload) "
            "SELECT now(), '\\x00', '', '\\x00' FROM generate_series(1, %s)",
            [2 * INBOX_LIMIT],
        )
        yield
        database.execute("DELETE FROM ingestion_inboxmessage WHERE key_digest = '\\x00'")


@contextmanager
def locked_inbox(service: Whole) -> Iterator[None]:
    with service.connect() as database, database.transaction():
        database.execute("LOCK TABLE ingestion_inboxmessage IN ACCESS EXCLUSIVE MODE")
        yield


@contextmanager
def silent_database(service: Whole) -> Iterator[None]:
    with stopped(service.processes()["PostgreSQL"]):
        yield


@contextmanager
def crashing_database(service: Whole) -> Iterator[None]:
    for process in service.processes()["PostgreSQL"]:
        with suppress(psutil.Error):
            process.send_signal(signal.SIGKILL)
    yield


@contextmanager
def no_connections_left(service: Whole) -> Iterator[None]:
    with ExitStack() as stack:
        with suppress(psycopg.OperationalError):
            while True:
                stack.enter_context(service.connect())
        yield


@contextmanager
def long_transaction(service: Whole) -> Iterator[None]:
    with service.connect() as database, database.transaction():
        database.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        database.execute("SELECT count(*) FROM engagement_user")
        database.execute("UPDATE engagement_product SET name = name")
        yield


@contextmanager
def connections(service: Whole, clients: int, first: bytes, then: bytes = b"") -> Iterator[None]:
    """Clients that connect, send *first*, and then a byte now and then, if there is one."""
    with ExitStack() as stack:
        opened = []
        for _ in range(clients):
            client = stack.enter_context(socket.create_connection(service.address, timeout=5))
            client.sendall(first)
            opened.append(client)

        def drip() -> None:
            for client in opened:
                with suppress(OSError):
                    client.send(then)

        if then:
            stack.enter_context(repeating(drip, pause=1.0))
        yield


# --- The command ------------------------------------------------------------------------------

Situation = Callable[[Whole], Any]


def situations(clients: int) -> dict[str, tuple[Situation, set[int]]]:
    """Each situation with the statuses that are allowed while it lasts."""
    slow_heads = partial(connections, clients=clients, first=HEAD + b"X-Slow: ", then=b"a")
    slow_bodies = partial(connections, clients=clients, first=HEAD + b"\r\n", then=b" ")
    return {
        "long open transaction elsewhere": (long_transaction, {202}),
        "inbox full": (full_inbox, {202, 503}),
        "inbox locked": (locked_inbox, {202, 503}),
        "database silent": (silent_database, {202, 503}),
        "database killed": (crashing_database, {202, 503}),
        "no database connections left": (no_connections_left, {202, 503}),
        f"{clients:,} slow heads": (slow_heads, {202}),
        f"{clients:,} slow bodies": (slow_bodies, {202}),
        f"{clients:,} idle connections": (
            partial(connections, clients=clients, first=HEALTH),
            {202},
        ),
    }


def measure(options: argparse.Namespace) -> Report:
    allow_files(options.clients + 1000)
    rows = []
    with running(EDS_INBOX_LIMIT=str(INBOX_LIMIT)) as service:
        until(lambda: post(service, Responses()) == 202, "the first 202", RECOVERED_WITHIN)
        for name, (situation, allowed) in situations(options.clients).items():
            if not re.search(options.only, name):
                continue
            progress(f"{name}, for {options.seconds} s.")
            with service.explained():
                row, responses = observe(service, situation, options.seconds)
            rows.append({"": name, **row})
            others = sorted(set(responses.statuses) - allowed)
            yield Result(f"{name}: other responses", display(others) or "none", must_be="none")
            within = max(responses.seconds) <= ANSWERED_WITHIN
            yield Result(f"{name}: responses in time", str(within), must_be="True")
            yield Result(f"{name}: web workers died", row["died"], must_be=0)
            without = responses.retry_after["none"]
            yield Result(f"{name}: 503 without Retry-After", without, must_be=0)
    yield Table("situations", rows)


def observe(
    service: Whole, situation: Situation, seconds: float
) -> tuple[dict[str, Any], Responses]:
    before = deaths(service)
    with situation(service), posting(service) as responses:
        time.sleep(seconds)
    ended = time.monotonic()
    until(lambda: post(service, Responses()) == 202, "a 202 afterwards", RECOVERED_WITHIN)
    accepted_after = time.monotonic() - ended
    until(service.is_drained, "the inbox to be empty", RECOVERED_WITHIN)
    row = {
        "answered": dict(sorted(responses.statuses.items())),
        "Retry-After": sorted(responses.retry_after),
        "p99 s": quantiles(responses.seconds, n=100)[-1],
        "longest s": max(responses.seconds),
        "202 after s": accepted_after,
        "drained after s": time.monotonic() - ended,
        "died": deaths(service) - before,
    }
    return row, responses


def deaths(service: Whole) -> int:
    """How often gunicorn's master logged that it lost a worker."""
    return service.log(10_000_000).count("was sent SIG")


def allow_files(number: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < number:
        raise Failed(f"{number} open files are needed and {hard} allowed: see `ulimit -Hn`.")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, number), hard))


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=12.0, help="how long each lasts")
    parser.add_argument("--only", default="", metavar="PATTERN", help="those with such a name")
    parser.add_argument("--clients", type=int, default=2500, help="slow and idle clients")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
