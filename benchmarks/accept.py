"""How many durable ``POST /v2/track`` a second are accepted, next to a view that does nothing.

Both run on the same server, with the same worker class and number of workers, and are loaded in
turn. The bars are those of docs/performance.md.
"""

import argparse
from statistics import median
from typing import Any

from benchmarks import load
from benchmarks.load import Round, Target
from harness.command import run_command
from harness.report import Report, Result, Table, progress
from harness.service import Service, temporary_service

SHARE_OF_EMPTY = 0.8
UNEVENNESS = 4.0
OURS = "durable track"
# The web server of each target.
WEB = {OURS: "ours", "empty view, this project": "empty", "empty view, stock project": "stock"}


def measure(options: argparse.Namespace) -> Report:
    with temporary_service() as service:
        targets = start(service)
        if options.worker:
            service.start_worker()
        acknowledged = load.warm_up(targets, max(options.connections))
        meter = Meter(service)
        measurements = [
            load.interleaved(targets, count, options, meter.note) for count in options.connections
        ]
        yield from load.table_of(measurements)
        yield Table("processor time", meter.rows())
        yield from meter.ratios()
        for ours, *empties in measurements:
            for empty in empties:
                name = f"share at {ours.connections} connections, of the {empty.target.name}"
                shares = ours.ratios(empty)
                yield Result(name, median(shares), at_least=SHARE_OF_EMPTY, rounds=shares)
            name = f"p99 / p50 at {ours.connections} connections"
            yield Result(name, ours.unevenness, at_most=UNEVENNESS)
            acknowledged += ours.requests
        if not options.worker:
            yield from load.compare_with_inbox(acknowledged, service.connect())


class Meter:
    """The processor time of each request, in its web server and in PostgreSQL, round by round."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._before = {name: service.processor_seconds(name) for name in ("", *WEB.values())}
        self._web: dict[str, list[float]] = {name: [] for name in WEB}
        self._database: dict[str, list[float]] = {name: [] for name in WEB}

    def note(self, target: Target, figures: Round) -> None:
        """Note a round. Nothing but its target was loaded since the last one."""
        self._web[target.name].append(self._since(WEB[target.name]) / figures.requests * 1e6)
        self._database[target.name].append(self._since("") / figures.requests * 1e6)

    def _since(self, name: str) -> float:
        now = self._service.processor_seconds(name)
        seconds, self._before[name] = now - self._before[name], now
        return seconds

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "µs a request": name,
                "web": median(self._web[name]),
                "PostgreSQL": median(self._database[name]),
            }
            for name in WEB
        ]

    def ratios(self) -> Report:
        for empty in list(WEB)[1:]:
            rounds = [
                (web + database) / base
                for web, database, base in zip(
                    self._web[OURS], self._database[OURS], self._web[empty], strict=True
                )
            ]
            yield Result(f"processor time, in times the {empty}", median(rounds), rounds=rounds)


def start(service: Service) -> list[Target]:
    """Our service first, then the empty views that it is compared with."""
    key = service.create_product()["ingestion_key"]
    progress("Starting three web servers; one at a time is loaded.")
    ours = service.start_web("ours")
    empty = service.start_web("empty", DJANGO_SETTINGS_MODULE="benchmarks.empty.settings")
    stock = service.start_web(
        "stock",
        "benchmarks.stock.wsgi:application",
        DJANGO_SETTINGS_MODULE="benchmarks.stock.settings",
    )
    _, in_project, in_stock = WEB
    return [
        Target(OURS, f"{ours.url}/v2/track", key),
        Target(in_project, f"{empty.url}/v2/track", key),
        # Its default authentication would refuse a key that it does not know.
        Target(in_stock, f"{stock.url}/v2/track"),
    ]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--connections", type=int, nargs="+", default=[32, 128])
    load.arguments(parser, seconds=5)
    parser.add_argument("--worker", action="store_true", help="have a Celery worker drain, too")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
