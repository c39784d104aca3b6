"""Many machines: roles with an address each share one PostgreSQL and one broker. While clients
post, workers, the broker and a web server fail in turns, and every message is accounted for.
"""

import argparse
import http.client
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from benchmarks import accounting
from benchmarks.brokers import BROKERS, Broker
from benchmarks.command import run_command
from benchmarks.posting import Address, Posted, posting
from benchmarks.report import progress, table
from benchmarks.service import (
    PATIENCE,
    Failed,
    Service,
    celery,
    free_port,
    temporary_service,
    until,
)
from config.postgres import DATABASE, ROLE

WEBS = ("web 1", "web 2")
WORKERS = ("worker 1", "worker 2")
# The second is there by mistake.
BEATS = ("beat", "second beat")


class Machines:
    """Processes that stand for machines: they share PostgreSQL, a broker and secrets, no files."""

    def __init__(self, service: Service, broker: Broker, network: str, stack: ExitStack) -> None:
        """*network* is the start of the addresses, all of them on the loopback."""
        self.addresses: dict[str, Address] = {
            name: (f"{network}.{place}", free_port()) for place, name in enumerate(WEBS, 4)
        }
        self._service = service
        self._broker = broker
        self._broker_at: Address = (f"{network}.3", free_port())
        self._running_broker = stack.enter_context(ExitStack())
        self._broker_starts = 0
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._database = service.connect()
        service.environment |= {
            "DATABASE_URL": f"postgresql://{ROLE}@{network}.2/{DATABASE}",
            "EDS_SECRET_KEY": "only-for-this-benchmark" * 3,
            "EDS_ENCRYPTION_KEYS": service.run("manage.py", "generate_key").strip(),
            "EDS_ALLOWED_HOSTS": ",".join(host for host, _ in self.addresses.values()),
        }

    def start_all(self) -> None:
        self.start_broker()
        for name in (*WEBS, *WORKERS, *BEATS):
            self.start(name)
        until(lambda: all(map(self._is_ready, WEBS)), "both web servers to be ready", PATIENCE)

    def start(self, name: str) -> None:
        if name in WEBS:
            host, port = self.addresses[name]
            command = [sys.executable, "manage.py", "serve", "--host", host, "--port", str(port)]
        else:
            command = celery("config", "worker" if name in WORKERS else "beat")
        folder = self._service.folder / name.replace(" ", "-")
        self._processes[name] = self._service.start(name, command, EDS_DATA_DIR=str(folder))

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send the signal to all processes of the machine."""
        os.killpg(self._processes[name].pid, number)

    def kill(self, name: str) -> None:
        self.signal(name, signal.SIGKILL)
        self._processes.pop(name).wait(PATIENCE)

    def start_broker(self) -> None:
        """Start the broker with nothing in it."""
        self._broker_starts += 1
        folder = self._service.folder / f"broker-{self._broker_starts}"
        folder.mkdir()
        address = self._running_broker.enter_context(self._broker.started(folder, *self._broker_at))
        if address:
            self._service.environment["CELERY_BROKER_URL"] = address

    def stop_broker(self) -> None:
        """Stop the broker; where PostgreSQL is the broker too, only empty its queues."""
        self._running_broker.close()
        if "CELERY_BROKER_URL" not in self._service.environment:
            self._database.execute("SELECT pgmq.purge_queue(queue_name) FROM pgmq.meta")

    def waiting(self) -> int:
        """Messages in the inbox."""
        row = self._database.execute("SELECT count(*) FROM ingestion_inboxmessage").fetchone()
        assert row is not None
        return int(row[0])

    def ended(self) -> list[str]:
        """Who ended without being told."""
        return [name for name, process in self._processes.items() if process.poll() is not None]

    def _is_ready(self, web: str) -> bool:
        connection = http.client.HTTPConnection(*self.addresses[web], timeout=5)
        with suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        return False


# What happens one after the other, each for an equal share of the time.
PHASES: tuple[tuple[str, Callable[[Machines], None]], ...] = (
    ("all run", lambda machines: None),
    ("worker 1 killed", lambda machines: machines.kill("worker 1")),
    ("worker 2 hangs too", lambda machines: machines.signal("worker 2", signal.SIGSTOP)),
    ("worker 2 goes on", lambda machines: machines.signal("worker 2", signal.SIGCONT)),
    ("broker stopped", lambda machines: machines.stop_broker()),
    ("broker back and empty", lambda machines: machines.start_broker()),
    ("worker 1 back", lambda machines: machines.start("worker 1")),
    ("web 1 killed", lambda machines: machines.kill("web 1")),
)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    network = f"127.0.{random.randrange(1, 255)}"
    broker = BROKERS[options.broker]
    with temporary_service({"listen_addresses": f"{network}.2"}) as service, ExitStack() as stack:
        machines = Machines(service, broker, network, stack)
        key = service.create_product()["ingestion_key"]
        progress(f"Starting {broker.name}, two web servers, two workers and two beats.")
        machines.start_all()
        # Half of the clients prefer each web server.
        one, other = (machines.addresses[name] for name in WEBS)
        with posting([(one, other), (other, one)], key, options.seed) as posted:
            phases = [_pass(machines, posted, *phase, options) for phase in PHASES]
        progress(f"{len(posted.acknowledged):,} tracks answered with 202; settling.")
        settled_after = accounting.until_settled(service.connect)
        if ended := machines.ended():
            raise Failed(f"{ended[0]} ended by itself:\n{service.last_lines(ended[0])}")
        accounted = accounting.account_for(posted, service.connect())
    run = {"broker": broker.name, **accounted, "settled_after_s": settled_after}
    return {"phases": phases, "run": run}


def _pass(
    machines: Machines,
    posted: Posted,
    name: str,
    begin: Callable[[Machines], None],
    options: argparse.Namespace,
) -> dict[str, Any]:
    progress(f"{name}.")
    before = _answers(posted)
    begin(machines)
    time.sleep(options.seconds / len(PHASES))
    after = _answers(posted)
    gained = {answer: after[answer] - before[answer] for answer in after}
    return {"phase": name, **gained, "in_the_inbox": machines.waiting()}


def _answers(posted: Posted) -> dict[str, int]:
    """How many tracks were answered in which way until now."""
    with posted.lock:
        return {
            "acknowledged": len(posted.acknowledged),
            "refused": len(posted.refused),
            "unanswered": len(posted.unanswered),
        }


def show(figures: dict[str, Any]) -> None:
    names = ("acknowledged", "refused", "unanswered", "in_the_inbox")
    heads = ["tracks, while", *(name.replace("_", " ") for name in names)]
    rows = [
        [phase["phase"], *(f"{phase[name]:,}" for name in names)] for phase in figures["phases"]
    ]
    print(f"{table(heads, rows)}\n")
    run = figures["run"]
    settled = ["settled after, seconds", f"{run['settled_after_s']:.1f}"]
    print(table(["", run["broker"]], [*accounting.rows([run]), settled]))


def faults(figures: dict[str, Any]) -> list[str]:
    return accounting.faults(figures["run"])


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=80.0, help="how long to post and fail")
    parser.add_argument("--broker", choices=[*BROKERS], default="redis")
    parser.add_argument("--seed", type=int, default=1, help="draws the messages")


if __name__ == "__main__":
    run_command("machines", __doc__, arguments, measure, show, faults)
