"""How long the service itself takes to import a license, how much memory a long sync needs, and
whether a sync that is killed in the middle continues from its page.
"""

import argparse
import signal
import sys
from typing import Any, LiteralString

from harness.command import run_command
from harness.database import number
from harness.ports import free_port
from harness.processes import HOST, listens, until
from harness.report import Report, Result, Table, progress
from harness.service import Service, temporary_service

OWN_MS_PER_LICENSE = 0.3
MEMORY_GROWTH_MB = 60.0
# The part of its pages after which a sync is killed.
KILLED_AT = 0.4
PAGE = 50
PATIENCE = 900.0

_PAGES: LiteralString = "SELECT pages FROM marketplace_syncrun WHERE connection_id = %s"


def measure(options: argparse.Namespace) -> Report:
    with temporary_service() as service:
        bench = Bench(service, options.licenses, options.report)
        first = bench.sync("first sync")
        unchanged = bench.sync("sync of unchanged licenses", "full")
        killed_run, resumed = bench.kill()
    yield Table("syncs", [first, unchanged, killed_run, resumed])
    for run in (first, unchanged):
        own, growth = run["ms a license"], run["memory growth, MB"]
        yield Result(f"own ms a license, {run['sync']}", own, at_most=OWN_MS_PER_LICENSE)
        yield Result(f"memory growth in MB, {run['sync']}", growth, at_most=MEMORY_GROWTH_MB)
    for name in ("state", "seen", "imported", "skipped", "failed", "licenses", "accounts"):
        yield Result(f"{name} after a kill", resumed[name], must_be=first[name])
    yield Result("state of the first sync", first["state"], must_be="succeeded")
    yield Result("state of the killed sync", killed_run["state"], must_be="running")
    yield Result("attempts of the killed sync", resumed["attempt"], must_be=2)
    again = resumed["pages"] - first["pages"]
    yield Result("pages that the kill cost", again)
    yield Result("the killed sync resumed at its page", str(again in (0, 1)), must_be="True")
    yield Result("unchanged licenses that were written", unchanged["imported"], must_be=0)


class Bench:
    """A service that is connected to a simulated marketplace."""

    def __init__(self, service: Service, licenses: int, report: str) -> None:
        self._service = service
        self._licenses, self._report = licenses, report
        self._database = service.connect()
        self._start_simulator()
        self._connection = self._connect()

    def sync(self, name: str, *options: str) -> dict[str, Any]:
        """A sync to its end, with what it took."""
        progress(f"{name} of {self._licenses:,} licenses.")
        run = self._within("work", self._connection, *options)
        # All of the time: a page is fetched while the one before it is written, so what the
        # simulated marketplace takes cannot be told from ours. It responds in about a millisecond.
        return {"sync": name, **run, "ms a license": run["seconds"] / max(run["seen"], 1) * 1000}

    def kill(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The first sync of another product, killed in the middle and resumed."""
        connection = self._connect()
        pages = int(self._licenses / PAGE * KILLED_AT)
        progress(f"A sync that is killed with SIGKILL after {pages:,} pages.")
        command = [sys.executable, "-m", "benchmarks.syncing", "work", connection]
        process = self._service.start("killed sync", command)
        until(lambda: self._pages(connection) >= pages, "the sync to read them", PATIENCE)
        process.send_signal(signal.SIGKILL)
        process.wait()
        run = {"sync": "killed", **self._within("latest", connection)}
        progress(f"Killed after {run['pages']:,} pages; another worker continues.")
        resumed = self._within("work", connection)
        columns = {"ms a license": None, "sync": "resumed"}
        return {**dict.fromkeys(resumed), **columns, **run}, {**resumed, **columns}

    def _start_simulator(self) -> None:
        port = free_port()
        progress(f"Starting a simulated marketplace with {self._licenses:,} licenses.")
        self._service.environment["MARKETPLACE_API_URL"] = f"http://{HOST}:{port}"
        command = [sys.executable, "-m", "benchmarks.syncing", "simulate"]
        self._service.start("simulator", [*command, str(self._licenses), str(port)])
        until(lambda: listens(HOST, port), "the simulated marketplace", PATIENCE)

    def _connect(self) -> str:
        return str(self._within("connect", self._report)["connection"])

    def _within(self, *arguments: str) -> dict[str, Any]:
        return self._service.run_json("-m", "benchmarks.syncing", *arguments, timeout=PATIENCE)

    def _pages(self, connection: str) -> int:
        return number(self._database, _PAGES, int(connection))


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--report", choices=["pages", "export"], default="pages")
    parser.add_argument("--licenses", type=int, default=50_000, help="licenses of the marketplace")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
