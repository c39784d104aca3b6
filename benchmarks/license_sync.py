"""How long the service itself takes to import a license, how much memory a long sync needs, and
whether a sync that is killed in the middle goes on from its page.
"""

import argparse
import json
import signal
import socket
import sys
from typing import Any

from benchmarks import report
from benchmarks.command import run_command
from benchmarks.report import progress
from benchmarks.service import HOST, Service, free_port, temporary_service, until

OWN_MS_PER_LICENSE = 0.3
MEMORY_GROWTH_MB = 60.0
# A sync is killed when it has read so much of its pages.
KILLED_AT = 0.4
PAGE = 50
PATIENCE = 900.0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with temporary_service() as service:
        bench = Bench(service, options.licenses, options.report)
        first = bench.first()
        unchanged = bench.unchanged()
        killed = bench.killed()
        return {"licenses": options.licenses, "first": first, "unchanged": unchanged, **killed}


class Bench:
    """A service that is connected to a simulated marketplace."""

    def __init__(self, service: Service, licenses: int, report: str) -> None:
        self._service = service
        self._licenses, self._report = licenses, report
        self._database = service.connect()
        self._start_simulator()
        self._connection = self._connect()

    def first(self) -> dict[str, Any]:
        """The first sync: every license is new."""
        return self._timed("First sync", self._connection)

    def unchanged(self) -> dict[str, Any]:
        """A full sync that finds nothing new."""
        return self._timed("Full sync of unchanged licenses", self._connection, "full")

    def killed(self) -> dict[str, Any]:
        """The first sync of another product, killed in the middle and started again."""
        connection = self._connect()
        pages = int(self._licenses / PAGE * KILLED_AT)
        progress(f"A sync that is killed with SIGKILL after {pages:,} pages.")
        command = [sys.executable, "-m", "benchmarks.syncing", "work", connection]
        process = self._service.start("killed sync", command)
        until(lambda: self._pages(connection) >= pages, "the sync to come so far", PATIENCE)
        process.send_signal(signal.SIGKILL)
        process.wait()
        at_death = self._within("found", connection)
        progress(f"Killed after {at_death['pages']:,} pages; another worker goes on.")
        resumed = self._within("work", connection)
        return {"killed": at_death, "resumed": resumed}

    def _timed(self, what: str, *arguments: str) -> dict[str, Any]:
        progress(f"{what} of {self._licenses:,} licenses.")
        said = self._within("work", *arguments)
        # All of the time: a page is fetched while the one before it is written, so what the
        # simulated marketplace takes cannot be told from ours. It answers in about a millisecond.
        own = said["seconds"] / max(said["seen"], 1) * 1000
        progress(f"{said['seen']:,} licenses in {said['seconds']:.1f} s: {own:.3f} ms each")
        return {**said, "own_ms_per_license": own}

    def _start_simulator(self) -> None:
        port = free_port()
        progress(f"Starting a simulated marketplace with {self._licenses:,} licenses.")
        self._service.environment["MARKETPLACE_API_URL"] = f"http://{HOST}:{port}"
        command = [sys.executable, "-m", "benchmarks.syncing", "simulate"]
        self._service.start("simulator", [*command, str(self._licenses), str(port)])
        until(lambda: _listens(port), "the simulated marketplace", PATIENCE)

    def _connect(self) -> str:
        return str(self._within("connect", self._report)["connection"])

    def _within(self, *arguments: str) -> dict[str, Any]:
        said = self._service.run("-m", "benchmarks.syncing", *arguments, timeout=PATIENCE)
        read: dict[str, Any] = json.loads(said)
        return read

    def _pages(self, connection: str) -> int:
        row = self._database.execute(
            "SELECT pages FROM marketplace_syncrun WHERE connection_id = %s", [int(connection)]
        ).fetchone()
        return int(row[0]) if row else 0


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def show(figures: dict[str, Any]) -> None:
    lines = []
    for name in ("first", "unchanged"):
        one = figures[name]
        lines += [
            report.verdict(
                f"Own time a license, {name} sync, ms",
                one["own_ms_per_license"],
                at_most=OWN_MS_PER_LICENSE,
            ),
            f"    {one['seen']:,} licenses on {one['pages']:,} pages in {one['seconds']:.1f} s; "
            f"{one['processor_seconds']:.1f} s of a core in Python and "
            f"{one['database_seconds']:.1f} s in PostgreSQL; the simulated marketplace took "
            f"{one['vendor_seconds']:.1f} s to answer, partly meanwhile",
            report.verdict(
                f"Memory growth, {name} sync, MB",
                one["memory_growth_mb"],
                at_most=MEMORY_GROWTH_MB,
            ),
        ]
    killed, resumed = figures["killed"], figures["resumed"]
    lines.append(
        f"Killed after {killed['pages']:,} pages; the next worker read {resumed['pages']:,} in "
        f"all, {resumed['pages'] - figures['first']['pages']} more than without."
    )
    print("\n".join(lines))


def faults(figures: dict[str, Any]) -> list[str]:
    first, killed, resumed = figures["first"], figures["killed"], figures["resumed"]
    found = []
    names = ("state", "seen", "imported", "skipped", "failed", "licenses", "accounts")
    for name in names:
        if resumed[name] != first[name]:
            found.append(f"{name} is {resumed[name]} after a kill and {first[name]} without.")
    if first["state"] != "succeeded" or resumed["attempt"] != 2 or killed["state"] != "running":
        found.append("The syncs did not run as they should have.")
    if not 0 <= resumed["pages"] - first["pages"] <= 1:
        found.append("The resumed sync did not go on from its page.")
    if figures["unchanged"]["imported"]:
        found.append("Unchanged licenses were written.")
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--report", choices=["pages", "export"], default="pages")
    parser.add_argument("--licenses", type=int, default=50_000, help="licenses of the marketplace")


if __name__ == "__main__":
    run_command("license_sync", __doc__, arguments, measure, show, faults)
