"""Puts load on a web server with wrk, and compares servers that are loaded in turn."""

import argparse
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import psycopg

from harness.database import WAITING, number
from harness.http import Address, Client, basic
from harness.posting import BODY
from harness.processes import Failed, program
from harness.report import Report, Result, Table, progress

SCRIPT = Path(__file__).with_name("track.lua")
# Seconds without a response after which wrk counts an error.
RESPONSE_TIMEOUT = 10
WARM_UP_SECONDS = 2


@dataclass(frozen=True)
class Target:
    """A server under load: the address to post to, and the key to send with it ("" for none).

    *script* makes the requests; *arguments* are what it takes beside the key. *body* is what one
    request looks like, and *status* its response.
    """

    name: str
    url: str
    key: str = ""
    script: Path = SCRIPT
    arguments: tuple[str, ...] = ()
    body: bytes = BODY
    status: int = 202


@dataclass(frozen=True)
class Round:
    """What wrk saw in one round. Latencies are in milliseconds.

    ``errors`` counts statuses of 400 and above, broken connections, and missing responses.
    """

    requests: int
    seconds: float
    p50: float
    p99: float
    longest: float
    errors: int

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds


@dataclass(frozen=True)
class Rounds:
    """All rounds of one target at one number of connections."""

    target: Target
    connections: int
    rounds: list[Round]

    @property
    def requests(self) -> int:
        return sum(figures.requests for figures in self.rounds)

    def ratios(self, other: "Rounds") -> list[float]:
        """Requests/s as a share of the other's, round by round: both rounds of a pair ran one
        after the other, so what else happened on the machine concerns both."""
        pairs = zip(self.rounds, other.rounds, strict=True)
        return [mine.per_second / theirs.per_second for mine, theirs in pairs]

    @property
    def unevenness(self) -> float:
        """p99 / p50: large where some connections wait while others are served."""
        return self._median(lambda figures: figures.p99 / figures.p50)

    def as_row(self) -> dict[str, Any]:
        return {
            "": self.target.name,
            "connections": self.connections,
            "requests/s": self._median(lambda figures: figures.per_second),
            "p50 ms": self._median(lambda figures: figures.p50),
            "p99 ms": self._median(lambda figures: figures.p99),
            "p99/p50": self.unevenness,
            "errors": sum(figures.errors for figures in self.rounds),
        }

    def _median(self, figure: Callable[[Round], float]) -> float:
        return median(map(figure, self.rounds))


def interleaved(
    targets: Sequence[Target],
    connections: int,
    options: argparse.Namespace,
    after_round: Callable[[Target, Round], None] = lambda target, figures: None,
) -> list[Rounds]:
    """Load the targets in turn, one at a time: A B A B …; *after_round* is called after each."""
    measurements = [Rounds(target, connections, []) for target in targets]
    for place in range(1, options.rounds + 1):
        for target, rounds in zip(targets, measurements, strict=True):
            figures = run(target, connections, options.seconds)
            rounds.rounds.append(figures)
            progress(
                f"{connections} connections, round {place} of {options.rounds}: {target.name} "
                f"{figures.per_second:,.0f}/s, p50 {figures.p50:.1f} ms, p99 {figures.p99:.1f} ms"
            )
            after_round(target, figures)
    return measurements


def run(target: Target, connections: int, seconds: int) -> Round:
    """One round of load with *connections* open all the time, each with one request under way."""
    command = [program("wrk"), "-t1", f"-c{connections}", f"-d{seconds}s"]
    command += [f"--timeout={RESPONSE_TIMEOUT}s", f"--script={target.script}", target.url]
    command += ["--", target.key, *target.arguments]
    limit = seconds + 3 * RESPONSE_TIMEOUT
    process = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    for line in process.stdout.splitlines():
        if line.startswith("RESULT "):
            result = json.loads(line.removeprefix("RESULT "))
            errors = result.pop("refused") + result.pop("broken")
            return Round(**result, errors=errors)
    raise Failed(f"wrk failed: {process.stdout}{process.stderr}")


def check(target: Target) -> None:
    """Post once. Raise Failed unless the response is what the load will count on."""
    address = urlsplit(target.url)
    headers = basic(target.key) if target.key else {}
    client = Client(Address(str(address.hostname), address.port or 80), headers=headers)
    json_type = {"Content-Type": "application/json"}
    response = client.request("POST", address.path, target.body, json_type)
    client.close()
    if response is None or response.status != target.status:
        raise Failed(f"{target.name} does not respond with {target.status}: {response}")


def warm_up(targets: Sequence[Target], connections: int) -> int:
    """Load and connect everything. Return how many requests of the first target succeeded."""
    requests = []
    for target in targets:
        check(target)
        requests.append(run(target, connections, WARM_UP_SECONDS).requests + 1)
    return requests[0]


def table_of(measurements: Sequence[Sequence[Rounds]]) -> Report:
    """What each target did at each number of connections. There must be no errors."""
    rows = [rounds.as_row() for targets in measurements for rounds in targets]
    yield Table("targets", rows)
    yield Result("errors", sum(row["errors"] for row in rows), must_be=0)


def compare_with_inbox(acknowledged: int, database: psycopg.Connection[Any]) -> Report:
    """Messages under way when a round ended are in the inbox without being counted."""
    waiting = number(database, WAITING)
    yield Result("messages in the inbox", waiting)
    yield Result("messages acknowledged and counted", acknowledged)
    yield Result("of them missing", max(acknowledged - waiting, 0), must_be=0)


def arguments(parser: argparse.ArgumentParser, seconds: int) -> None:
    parser.add_argument("--rounds", type=int, default=3, help="rounds for each target")
    parser.add_argument("--seconds", type=int, default=seconds, help="seconds of a round")
