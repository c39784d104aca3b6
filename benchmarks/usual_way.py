"""How many events a second are accepted, next to the usual way to take them.

The usual way is the project under benchmarks/baseline: a serializer, an ORM insert and a
``.delay()`` to Redis per request, with its Celery worker running. Ours runs with its worker, too.

It is measured as Django sets it up, which opens a database connection for each request and is what
the bar is about, and tuned as far as its design goes: connections kept, on its fastest server.
"""

import argparse
import time
from statistics import median

import redis

from benchmarks import load
from benchmarks.load import Round, Target
from config.local.postgres import ROLE
from harness.command import run_command
from harness.database import number
from harness.ports import free_port
from harness.processes import HOST, listens, program, until
from harness.report import Report, Result, progress
from harness.service import WORKERS, Service, celery, temporary_service

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
        command = [program("redis-server"), "--bind", HOST, "--port", str(port), "--save", ""]
        service.start("redis", [*command, "--appendonly", "no"])
        self._redis = redis.Redis(HOST, port)
        until(lambda: listens(HOST, port), "Redis to start")
        # Autocommit, because a database cannot be created in a transaction.
        service.connect().execute(f"CREATE DATABASE {DATABASE} OWNER {ROLE}")
        service.run("-m", "django", "migrate", "--run-syncdb", environment=self._environment)
        self._database = service.connect(DATABASE)

    def start_web(self, name: str, *options: str, settings: str = TUNED) -> str:
        """Serve it as the service is served, or with the gunicorn *options*; its address."""
        environment = {**self._environment, "DJANGO_SETTINGS_MODULE": settings}
        return self._service.start_web(name, APPLICATION, *options, **environment).url + "/v2/track"

    def start_worker(self) -> None:
        command = celery("worker", f"--concurrency={WORKERS}", app="benchmarks.baseline")
        self._service.start("baseline worker", command, **self._environment)

    def finished(self) -> int:
        """How many events its worker has stored."""
        return number(self._database, "SELECT count(*) FROM baseline_event")

    def forget_backlog(self) -> None:
        """Throw away what its worker has not come to: it must not disturb the next round."""
        deadline = time.monotonic() + REST
        before = -1
        while time.monotonic() < deadline and before != (now := self.finished()):
            self._redis.delete(QUEUE)
            before = now
            time.sleep(0.3)


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


def measure(options: argparse.Namespace) -> Report:
    with temporary_service() as service:
        key = service.create_product()["ingestion_key"]
        progress("Starting ours and the usual way, each with its worker; one is loaded at a time.")
        baseline = Baseline(service)
        ours = Target("durable track", f"{service.start_web('ours').url}/v2/track", key)
        targets = [
            ours,
            Target(USUAL, baseline.start_web("usual", *THREADS, settings=DEFAULTS)),
            Target(f"{USUAL}, tuned", baseline.start_web("threads", *THREADS)),
            Target(f"{USUAL}, tuned, our server", baseline.start_web("greenlets")),
        ]
        service.start_worker()
        baseline.start_worker()
        load.warm_up(targets, options.connections)
        finished = Finished(baseline)
        finished.rest()

        def after_round(target: Target, figures: Round) -> None:
            if target is not ours:
                finished.note(figures.seconds)
                finished.rest()

        measurements = load.interleaved(targets, options.connections, options, after_round)
        yield from load.table_of([measurements])
        for rounds in measurements[1:]:
            ratios = measurements[0].ratios(rounds)
            bar = TIMES_THE_USUAL_WAY if rounds.target.name == USUAL else None
            name = f"ours, in times {rounds.target.name}"
            yield Result(name, median(ratios), at_least=bar, rounds=ratios)
        # While requests came; the rest waited.
        yield Result("events/s that its worker finished", median(finished.per_second))


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--connections", type=int, default=32)
    load.arguments(parser, seconds=5)


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
