"""How long ``up`` takes to its first 202: on the first start, which creates the database, and on
the starts after it.
"""

import argparse
import time
from contextlib import closing
from pathlib import Path
from statistics import median

from harness.command import run_command
from harness.http import Client, basic
from harness.posting import BODY
from harness.processes import until
from harness.report import Report, Result, progress
from harness.service import temporary_folder
from harness.whole import Whole, starting

SECONDS = 5.0


def measure(options: argparse.Namespace) -> Report:
    with temporary_folder() as folder:
        first = until_accepted(folder)
        yield Result("first start, seconds to the first 202", first, at_most=SECONDS)
        again = [until_accepted(folder) for _ in range(options.rounds)]
        yield Result("second start, seconds", median(again), at_most=SECONDS, rounds=again)


def until_accepted(folder: Path) -> float:
    """Seconds from the start of ``up`` to its first 202."""
    began = time.monotonic()
    with starting(folder) as service:
        until(lambda: accepts(service), "the first 202")
        seconds = time.monotonic() - began
    progress(f"A start took {seconds:.1f} s to its first 202.")
    return seconds


def accepts(service: Whole) -> bool:
    # The first start has yet to create the key.
    if not (service.folder / "credentials.json").exists():
        return False
    with closing(Client(service.address, headers=basic(service.key), timeout=5)) as client:
        response = client.request("POST", "/v2/track", BODY)
        return response is not None and response.status == 202


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=3, help="starts after the first")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
