"""How many events a second are accepted, next to the usual way to take them.

The usual way is the project under benchmarks/baseline: a serializer, an ORM insert and a
``.delay()`` to Redis per request, with its Celery worker running. Ours runs with its worker, too.

It is measured as Django sets it up, which opens a database connection for each request and is what
the bar is about, and tuned as far as its design goes: connections kept, on its fastest server.
"""

import argparse
import shutil
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import psycopg
import redis

from benchmarks import load
from benchmarks.accept import targets_table, warm_up
from benchmarks.load import Figures, Target
from config.local.postgres import ROLE
from harness import report
from harness.command import run_command
from harness.report import progress
from harness.service import (
    HOST,
    WORKERS,
    Failed,
    Service,
    celery,
    free_port,
    temporary_service,
    until,
)

TIMES_THE_USUAL_WAY = 8.0
# What the bar is about; the others are shown beside it.
USUAL = "the usual way"
TUNED, DEFAULTS = "benchmarks.baseline.settings", "benchmarks.baseline.defaults"
DATABASE = "baseline"
QUEUE = "celery"
APPLICATION = "benchmarks.baseline.wsgi:application"
# The fastest of what was tried: 8, 16 and 32 threads, gevent, and one request at a time.
THREADS = ("--worker-class", "gthread", "--threads", "16", "--keep-alive", "75")
# Seconds that its worker gets after a round to finish what it has taken.
REST = 3.0
PATIENCE = 60.0


class Baseline:
    """The usual way: its database, its Redis, its web server and its worker."""

    def __init__(self, service: Service) -> None:
        self._service = service
        port = free_port()
        self._environment = {
            "DJANGO_SETTINGS_MODULE": TUNED,
            "BASELINE_DATABASE_HOST": str(service.postgres.socket_dir),
            "BASELINE_REDIS": f"redis://{HOST}:{port}/0",
        }
        service.start("redis", _redis_command(port))
        self._redis = redis.Redis(HOST, port)
        until(self._answers, "Redis to start", PATIENCE)
        # Autocommit, because a database cannot be created in a transaction.
        service.connect().execute(f"CREATE DATABASE {DATABASE} OWNER {ROLE}")
        service.run("-m", "django", "migrate", "--run-syncdb", environment=self._environment)
        self._database: psycopg.Connection[Any] = service.connect(DATABASE)

    def start_web(self, name: str, *options: str, settings: str = TUNED) -> str:
        """Serve it as the service is served, or with the gunicorn *options*; its address."""
        environment = {**self._environment, "DJANGO_SETTINGS_MODULE": settings}
        return self._service.start_web(name, APPLICATION, *options, **environment)

    def start_worker(self) -> None:
        command = celery("benchmarks.baseline", "worker", f"--concurrency={WORKERS}")
        self._service.start("baseline worker", command, **self._environment)

    def finished(self) -> int:
        """How many events its worker has stored."""
        row = self._database.execute("SELECT count(*) FROM baseline_event").fetchone()
        assert row is not None
        return int(row[0])

    def forget_backlog(self) -> None:
        """Throw away what its worker has not come to: it must not disturb the next round."""
        deadline = time.monotonic() + REST
        before = -1
        while time.monotonic() < deadline and before != (now := self.finished()):
            self._redis.delete(QUEUE)
            before = now
            time.sleep(0.3)

    def _answers(self) -> bool:
        try:
            return bool(self._redis.ping())
        except redis.ConnectionError:
            return False


class Finished:
    """Counts what the baseline's worker finishes while its web server is loaded."""

    def __init__(self, baseline: Baseline) -> None:
        self._baseline = baseline
        self._before = baseline.finished()
        self.per_second: list[float] = []

    def note(self, seconds: float) -> None:
        now = self._baseline.finished()
        self.per_second.append((now - self._before) / seconds)

    def rest(self) -> None:
        self._baseline.forget_backlog()
        self._before = self._baseline.finished()


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with temporary_service() as service:
        key = service.create_product()["ingestion_key"]
        progress("Starting ours and the usual way, each with its worker; one is loaded at a time.")
        baseline = Baseline(service)
        targets = [
            Target("durable track", f"{service.start_web('ours')}/v2/track", key),
            Target(USUAL, baseline.start_web("usual", *THREADS, settings=DEFAULTS) + "/v2/track"),
            Target(f"{USUAL}, tuned", baseline.start_web("threads", *THREADS) + "/v2/track"),
            Target(f"{USUAL}, tuned, our server", baseline.start_web("greenlets") + "/v2/track"),
        ]
        service.start_worker()
        baseline.start_worker()
        warm_up(targets, options.connections)
        finished = Finished(baseline)
        finished.rest()
        ours, *usual = load.interleaved(
            targets,
            options.connections,
            rounds=options.rounds,
            seconds=options.seconds,
            after_round=_after_round(targets[0], finished),
        )
        ratios = {one.target.name: ours.ratios(one) for one in usual}
        return {
            "targets": [one.as_dict() for one in (ours, *usual)],
            "ratios": {name: median(values) for name, values in ratios.items()},
            "ratios_by_round": ratios,
            "usual_way_finished_per_second": median(finished.per_second),
        }


def _after_round(ours: Target, finished: Finished) -> Callable[[Target, Figures], None]:
    def after_round(target: Target, figures: Figures) -> None:
        if target is not ours:
            finished.note(figures.seconds)
            finished.rest()

    return after_round


def _redis_command(port: int) -> list[str]:
    found = shutil.which("redis-server")
    if found is None:
        raise Failed("redis-server is not installed: apt-get install redis-server")
    return [found, "--bind", HOST, "--port", str(port), "--save", "", "--appendonly", "no"]


def show(figures: dict[str, Any]) -> None:
    print(targets_table(figures["targets"]))
    print()
    for name, values in figures["ratios_by_round"].items():
        line = f"Ours, in times {name}"
        if name == USUAL:
            print(report.verdict(line, median(values), at_least=TIMES_THE_USUAL_WAY))
        else:
            print(f"{line}: {median(values):.2f}")
        print(f"    by round: {report.spread(values)}")
    print(
        f"The usual way's worker finished {figures['usual_way_finished_per_second']:,.0f} events/s "
        "while requests came; the rest waited."
    )


def faults(figures: dict[str, Any]) -> list[str]:
    return [
        f"{one['target']} had {one['errors']} errors."
        for one in figures["targets"]
        if one["errors"]
    ]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3, help="rounds for each server")
    parser.add_argument("--seconds", type=int, default=5, help="seconds of a round")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure, show, faults)
