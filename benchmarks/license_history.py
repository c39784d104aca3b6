"""How long the service takes to read the history of licenses and to compute their events, and how
much memory that needs.
"""

import argparse
import sys
from typing import Any

from harness.command import run_command
from harness.ports import free_port
from harness.processes import HOST, listens, until
from harness.report import Report, Result, Table, progress
from harness.service import Service, temporary_service

MS_PER_ROW = 1.0
MEMORY_GROWTH_MB = 60.0
PATIENCE = 3600.0


def measure(options: argparse.Namespace) -> Report:
    with temporary_service() as service:
        steps = list(_steps(service, options))
    yield Table("steps", [{"step": name, **costs} for name, costs in _without_counts(steps)])
    first, history, events = (costs for _, costs in steps[1:])
    rows = options.licenses * options.rows
    per_row = {
        "reading the history": history["seconds"] / rows * 1000,
        "computing the events": events["seconds"] / rows * 1000,
    }
    for name, ms in per_row.items():
        yield Result(f"ms a row, {name}", ms)
    yield Result("ms a row", sum(per_row.values()), at_most=MS_PER_ROW)
    for name, costs in steps[1:]:
        growth = costs["memory growth, MB"]
        yield Result(f"memory growth in MB, {name}", growth, at_most=MEMORY_GROWTH_MB)
    yield Result("licenses of the first sync", first["licenses"], must_be=options.licenses)
    yield Result("rows that were read", history["rows"], must_be=rows)
    yield Result("problem", history["problem"], must_be="")
    yield Result("licenses with their whole history", history["complete"], must_be=options.licenses)
    yield Result("purchases", events["purchased"], must_be=options.licenses)
    yield Result("renewals", events["renewed"], must_be=options.licenses * (options.rows - 1))
    yield Result("churned", events["churned"], must_be=0)


def _steps(service: Service, options: argparse.Namespace) -> Any:
    """Each step with its costs, in a process of its own."""
    port = free_port()
    service.environment["MARKETPLACE_API_URL"] = f"http://{HOST}:{port}"
    command = [sys.executable, "-m", "benchmarks.syncing", "simulate", str(options.licenses)]
    service.start("simulator", [*command, str(port), str(options.rows), options.door])
    until(lambda: listens(HOST, port), "the simulated marketplace", PATIENCE)

    def within(*arguments: str) -> dict[str, Any]:
        return service.run_json("-m", "benchmarks.syncing", *arguments, timeout=PATIENCE)

    connection = str(within("connect")["connection"])
    for name, *arguments in (
        ("first sync", "work", connection),
        ("events of the first sync", "ledger", connection),
        ("history", "read", connection, "history"),
        ("events of the history", "ledger", connection),
    ):
        progress(f"{name} of {options.licenses:,} licenses.")
        yield name, within(*arguments)


def _without_counts(steps: list[tuple[str, dict[str, Any]]]) -> Any:
    names = ("seconds", "PostgreSQL, s", "Python, s", "memory growth, MB")
    return ((step, {name: costs[name] for name in names}) for step, costs in steps)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--door", choices=["export", "pages"], default="export")
    parser.add_argument("--licenses", type=int, default=50_000, help="licenses of the marketplace")
    parser.add_argument("--rows", type=int, default=10, help="states of each license")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
