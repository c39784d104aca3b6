"""How many durable ``POST /v2/track`` a second are accepted, next to a view that does nothing.

Both run on the same server, with the same worker class and number of workers, and are loaded in
turns. The bars are those of docs/performance.md.
"""

import argparse
from collections.abc import Sequence
from statistics import median
from typing import Any

from benchmarks import load
from benchmarks.load import Rounds, Target
from harness import report
from harness.command import run_command
from harness.report import progress
from harness.service import Service, temporary_service

SHARE_OF_EMPTY = 0.8
UNEVENNESS = 4.0
WARM_UP_SECONDS = 2


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with temporary_service() as service:
        targets = start(service)
        if options.worker:
            service.start_worker()
        answered = warm_up(targets, max(options.connections))
        measured = {}
        for connections in options.connections:
            rounds = load.interleaved(
                targets, connections, rounds=options.rounds, seconds=options.seconds
            )
            measured[connections] = rounds
            answered += sum(one.requests for one in rounds[0].rounds)
        figures = summary(measured)
        if not options.worker:
            figures["answered"] = answered
            figures["in_the_inbox"] = waiting(service)
    return figures


def start(service: Service) -> list[Target]:
    """Our service first, then the empty views that it is held against."""
    key = service.create_product()["ingestion_key"]
    progress("Starting three web servers; one at a time is loaded.")
    ours = service.start_web("ours")
    empty = service.start_web("empty", DJANGO_SETTINGS_MODULE="benchmarks.empty.settings")
    stock = service.start_web(
        "stock",
        "benchmarks.stock.wsgi:application",
        DJANGO_SETTINGS_MODULE="benchmarks.stock.settings",
    )
    return [
        Target("durable track", f"{ours}/v2/track", key),
        Target("empty view, this project", f"{empty}/v2/track", key),
        # Its default authentication would refuse a key that it does not know.
        Target("empty view, stock project", f"{stock}/v2/track"),
    ]


def warm_up(targets: Sequence[Target], connections: int) -> int:
    """Have everything loaded and connected; how many requests the first target answered."""
    answered = []
    for target in targets:
        load.check(target)
        answered.append(load.run(target, connections, WARM_UP_SECONDS).requests + 1)
    return answered[0]


def waiting(service: Service) -> int:
    row = service.connect().execute("SELECT count(*) FROM ingestion_inboxmessage").fetchone()
    assert row is not None
    return int(row[0])


def summary(measured: dict[int, list[Rounds]]) -> dict[str, Any]:
    ratios = {
        f"{ours.connections} connections, of the {empty.target.name}": ours.ratios(empty)
        for ours, *empties in measured.values()
        for empty in empties
    }
    return {
        "targets": [one.as_dict() for rounds in measured.values() for one in rounds],
        "ratios": {name: median(values) for name, values in ratios.items()},
        "ratios_by_round": ratios,
    }


def show(figures: dict[str, Any]) -> None:
    print(targets_table(figures["targets"]))
    print()
    for name, values in figures["ratios_by_round"].items():
        print(report.verdict(f"Share at {name}", median(values), at_least=SHARE_OF_EMPTY))
        print(f"    by round: {report.spread(values)}")
    for one in figures["targets"]:
        if one["target"] == "durable track":
            name = f"p99 / p50 at {one['connections']} connections"
            print(report.verdict(name, one["p99_over_p50"], at_most=UNEVENNESS))
    if "answered" in figures:
        print(
            f"{figures['answered']:,} requests were answered 202 and counted; "
            f"{figures['in_the_inbox']:,} messages are in the inbox (those under way when a "
            "round ended are more)."
        )


def targets_table(targets: Sequence[dict[str, Any]]) -> str:
    rows = [
        [
            one["target"],
            str(one["connections"]),
            f"{one['requests_per_second']:,.0f}",
            f"{one['p50_ms']:.1f}",
            f"{one['p99_ms']:.1f}",
            f"{one['p99_over_p50']:.1f}",
            str(one["errors"]),
        ]
        for one in targets
    ]
    heads = ["", "connections", "requests/s", "p50 ms", "p99 ms", "p99/p50", "errors"]
    return report.table(heads, rows)


def faults(figures: dict[str, Any]) -> list[str]:
    """What must not happen, however fast the machine is."""
    found = [
        f"{one['target']} had {one['errors']} errors at {one['connections']} connections."
        for one in figures["targets"]
        if one["errors"]
    ]
    if figures.get("in_the_inbox", 0) < figures.get("answered", 0):
        found.append("There are fewer messages in the inbox than were answered 202.")
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--connections", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--rounds", type=int, default=3, help="rounds for each server")
    parser.add_argument("--seconds", type=int, default=5, help="seconds of a round")
    parser.add_argument("--worker", action="store_true", help="have a Celery worker drain, too")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure, show, faults)
