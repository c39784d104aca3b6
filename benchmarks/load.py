"""Puts load on a web server with wrk, and compares servers that are loaded in turns."""

import http.client
import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from harness.posting import BODY
from harness.report import progress
from harness.service import Failed

SCRIPT = Path(__file__).with_name("track.lua")
# Seconds without an answer after which wrk counts an error.
ANSWER_TIMEOUT = 10


@dataclass(frozen=True)
class Target:
    """A server under load: the address to post to, and the key to send with it ("" for none).

    *script* makes the requests; *arguments* are what it takes beside the key. *body* is what one
    request looks like, which is answered *status*.
    """

    name: str
    url: str
    key: str = ""
    script: Path = SCRIPT
    arguments: tuple[str, ...] = ()
    body: bytes = BODY
    status: int = 202


@dataclass(frozen=True)
class Figures:
    """What wrk saw in one round. Latencies are in milliseconds.

    ``errors`` counts answers of 400 and above, broken connections and missing answers.
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

    @property
    def unevenness(self) -> float:
        """p99 / p50: large where some connections wait while others are served."""
        return self.p99 / self.p50


@dataclass(frozen=True)
class Rounds:
    """The figures of one target at one number of connections, a round each."""

    target: Target
    connections: int
    rounds: list[Figures]

    def median(self, figure: Callable[[Figures], float]) -> float:
        return median(figure(one) for one in self.rounds)

    @property
    def per_second(self) -> float:
        return self.median(lambda one: one.per_second)

    @property
    def errors(self) -> int:
        return sum(one.errors for one in self.rounds)

    def ratios(self, other: "Rounds") -> list[float]:
        """Requests/s as a share of the other's, round by round: both rounds of a pair ran one
        after the other, so what else happened on the machine concerns both."""
        pairs = zip(self.rounds, other.rounds, strict=True)
        return [mine.per_second / theirs.per_second for mine, theirs in pairs]

    def as_dict(self) -> dict[str, object]:
        return {
            "target": self.target.name,
            "connections": self.connections,
            "requests_per_second": self.per_second,
            "p50_ms": self.median(lambda one: one.p50),
            "p99_ms": self.median(lambda one: one.p99),
            "p99_over_p50": self.median(lambda one: one.unevenness),
            "errors": self.errors,
            "rounds": [one.per_second for one in self.rounds],
        }


def interleaved(
    targets: Sequence[Target],
    connections: int,
    *,
    rounds: int,
    seconds: int,
    after_round: Callable[[Target, Figures], None] = lambda target, figures: None,
) -> list[Rounds]:
    """Load the targets in turns, one at a time: A B A B …; *after_round* is called after each."""
    measured = [Rounds(target, connections, []) for target in targets]
    for number in range(1, rounds + 1):
        for one in measured:
            figures = run(one.target, connections, seconds)
            one.rounds.append(figures)
            progress(
                f"{connections} connections, round {number} of {rounds}: {one.target.name} "
                f"{figures.per_second:,.0f}/s, p50 {figures.p50:.1f} ms, p99 {figures.p99:.1f} ms"
            )
            after_round(one.target, figures)
    return measured


def run(target: Target, connections: int, seconds: int) -> Figures:
    """One round of load with *connections* open all the time, each with one request under way."""
    command = [_wrk(), "-t1", f"-c{connections}", f"-d{seconds}s", f"--timeout={ANSWER_TIMEOUT}s"]
    command += [f"--script={target.script}", target.url, "--", target.key, *target.arguments]
    limit = seconds + 3 * ANSWER_TIMEOUT
    ended = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    for line in ended.stdout.splitlines():
        if line.startswith("RESULT "):
            return _figures(line.removeprefix("RESULT "))
    raise Failed(f"wrk failed: {ended.stdout}{ended.stderr}")


def check(target: Target) -> None:
    """Post once; Failed unless the answer is what the load will count on."""
    address = urlsplit(target.url)
    headers = {"Authorization": f"Basic {target.key}"} if target.key else {}
    connection = http.client.HTTPConnection(address.netloc, timeout=ANSWER_TIMEOUT)
    try:
        headers["Content-Type"] = "application/json"
        connection.request("POST", address.path, target.body, headers)
        answer = connection.getresponse()
        if answer.status != target.status:
            raise Failed(f"{target.name} answered {answer.status}: {answer.read()[:500]!r}")
    finally:
        connection.close()


def _figures(line: str) -> Figures:
    said = json.loads(line)
    return Figures(
        requests=said["requests"],
        seconds=said["seconds"],
        p50=said["p50"],
        p99=said["p99"],
        longest=said["longest"],
        errors=said["refused"] + said["broken"],
    )


def _wrk() -> str:
    found = shutil.which("wrk")
    if found is None:
        raise Failed("wrk, the load generator, is not installed: apt-get install wrk")
    return found
