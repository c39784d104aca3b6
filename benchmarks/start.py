"""How long ``up`` takes to its first 202: on the first start, which makes the database, and on
the starts after it.
"""

import argparse
import http.client
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from harness import report
from harness.command import run_command
from harness.posting import BODY
from harness.report import progress
from harness.service import HOST, until
from harness.whole import START_PATIENCE, Whole, starting, temporary_folder

SECONDS = 5.0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with temporary_folder() as folder:
        first = until_accepted(folder)
        progress(f"The first start took {first:.1f} s to its first 202.")
        again = []
        for _ in range(options.rounds):
            again.append(until_accepted(folder))
            progress(f"Another start took {again[-1]:.1f} s.")
    return {"first_s": first, "again_s": again}


def until_accepted(folder: Path) -> float:
    """Seconds from the start of ``up`` to its first 202."""
    began = time.monotonic()
    with starting(folder, Whole) as whole:
        until(lambda: accepts(whole), "the first 202", START_PATIENCE)
        return time.monotonic() - began


def accepts(whole: Whole) -> bool:
    connection = http.client.HTTPConnection(HOST, whole.port, timeout=5)
    # Until the service listens, and until the first start has made the key.
    with suppress(OSError, http.client.HTTPException):
        headers = {"Authorization": f"Basic {whole.key}"}
        connection.request("POST", "/v2/track", BODY, headers)
        return connection.getresponse().status == 202
    return False


def show(figures: dict[str, Any]) -> None:
    print(f"First start, seconds to the first 202: {figures['first_s']:.1f}")
    again = figures["again_s"]
    print(report.verdict("Second start, seconds", median(again), at_most=SECONDS))
    print(f"    by round: {report.spread(again)}")


def faults(figures: dict[str, Any]) -> list[str]:
    """A service that never accepts fails at once."""
    return []


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=3, help="starts after the first")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure, show, faults)
