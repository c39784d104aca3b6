"""How many durable ``POST /v2/track`` a second are accepted, next to a view that does nothing.

Both run on the same server, with the same worker class and number of workers, and are loaded in
turn. The bars are those of docs/performance.md.
"""

import argparse
from statistics import median

from benchmarks import load
from benchmarks.load import Target
from harness.command import run_command
from harness.report import Report, Result, progress
from harness.service import Service, temporary_service

SHARE_OF_EMPTY = 0.8
UNEVENNESS = 4.0
OURS = "durable track"


def measure(options: argparse.Namespace) -> Report:
    with temporary_service() as service:
        targets = start(service)
        if options.worker:
            service.start_worker()
        acknowledged = load.warm_up(targets, max(options.connections))
        measurements = [load.interleaved(targets, count, options) for count in options.connections]
        yield from load.table_of(measurements)
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
    return [
        Target(OURS, f"{ours.url}/v2/track", key),
        Target("empty view, this project", f"{empty.url}/v2/track", key),
        # Its default authentication would refuse a key that it does not know.
        Target("empty view, stock project", f"{stock.url}/v2/track"),
    ]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--connections", type=int, nargs="+", default=[32, 128])
    load.arguments(parser, seconds=5)
    parser.add_argument("--worker", action="store_true", help="have a Celery worker drain, too")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
