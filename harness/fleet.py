"""Machines that share one PostgreSQL, one broker and secrets, and no files: one for each role."""

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, LiteralString

import psycopg

from harness import cluster
from harness.brokers import Broker
from harness.database import number
from harness.http import Address, status_of
from harness.networks import Loopback
from harness.ports import free_port
from harness.processes import PATIENCE
from harness.service import database_url, temporary_service

WEBS = ("web 1", "web 2")
WORKERS = ("worker 1", "worker 2")
# The second is there by mistake.
BEATS = ("beat", "second beat")
NAMES = ("postgres", "broker", *WEBS, *WORKERS, *BEATS)

_WAITING: LiteralString = "SELECT count(*) FROM ingestion_inboxmessage WHERE id <= %s"
_LAST: LiteralString = "SELECT COALESCE(max(id), 0) FROM ingestion_inboxmessage"
# Drains of a machine that have claimed messages and wait for the counts, or for another drain that
# does.
_HELD_UP: LiteralString = """
    SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE a.client_addr = %s::inet AND a.wait_event_type = 'Lock' AND l.granted
        AND l.relation = 'ingestion_inboxmessage'::regclass AND l.mode = 'RowExclusiveLock'
"""
# Whether a machine has sent the database a statement since then.
_ACTIVE_SINCE: LiteralString = """
    SELECT count(*) FROM pg_stat_activity
    WHERE client_addr = %s::inet AND query_start > to_timestamp(%s)
"""


class Machines:
    """A machine is a process group with an address and a data folder of its own."""

    def __init__(
        self, network: Loopback, broker: Broker, stack: ExitStack, on_cluster: bool = False
    ) -> None:
        """Start PostgreSQL on *network*, or a cluster. It stops with *stack*, as does what starts
        later."""
        self.network = network
        self.broker = broker
        self.addresses = {name: Address(network.address(name), free_port()) for name in WEBS}
        self._broker_address = Address(network.address("broker"), free_port())
        host = network.address("postgres")
        if on_cluster:
            self.service = stack.enter_context(cluster.service())
            host = self.service.postgres.options["listen_addresses"]
        else:
            with network.inside("postgres"):
                self.service = stack.enter_context(temporary_service({"listen_addresses": host}))
        self._running_broker = stack.enter_context(ExitStack())
        self._broker_starts = 0
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.database = self.service.connect()
        self._trust(f"{network.prefix}.0/24")
        self.service.separate_roles()
        self.service.environment |= {
            "DATABASE_URL": database_url(host),
            "EDS_ALLOWED_HOSTS": ",".join(host for host, _ in self.addresses.values()),
            # All machines are on one here.
            "EDS_WEB_WORKERS": "1",
        }

    def _trust(self, addresses: str) -> None:
        """PostgreSQL by itself trusts its own machine only."""
        with (self.service.postgres.folder / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {addresses} trust\n")
        self.database.execute("SELECT pg_reload_conf()")

    # --- Starting and ending ------------------------------------------------------------------

    def start_all(self) -> None:
        self.start_broker()
        for name in (*WEBS, *WORKERS, *BEATS):
            self.start(name)
        self.service.wait_until_ready(*self.addresses.values())

    def start(self, name: str) -> None:
        with self.network.inside(name):
            if name in WEBS:
                process = self.service.serve(name, self.addresses[name])
            elif name in WORKERS:
                process = self.service.start_worker(name)
            else:
                process = self.service.start_beat(name)
        self._processes[name] = process

    def signal(self, name: str, signal_number: signal.Signals) -> None:
        """Send the signal to all processes of the machine."""
        os.killpg(self._processes[name].pid, signal_number)

    def kill(self, name: str) -> None:
        self.signal(name, signal.SIGKILL)
        self._processes.pop(name).wait(PATIENCE)

    def start_broker(self) -> None:
        """Start the broker with nothing in it."""
        self._broker_starts += 1
        folder = self.service.folder / f"broker-{self._broker_starts}"
        folder.mkdir()
        with self.network.inside("broker"):
            broker = self.broker.started(folder, *self._broker_address)
            url = self._running_broker.enter_context(broker)
        if url:
            self.service.environment["CELERY_BROKER_URL"] = url

    def stop_broker(self) -> None:
        """Stop the broker; where PostgreSQL is the broker too, only empty its queues."""
        self._running_broker.close()
        if "CELERY_BROKER_URL" not in self.service.environment:
            self.database.execute("SELECT pgmq.purge_queue(queue_name) FROM pgmq.meta")

    # --- Looking ------------------------------------------------------------------------------

    def last_message(self) -> int:
        """The number of the last message in the inbox."""
        return number(self.database, _LAST)

    def waiting(self, last: int = 2**62) -> int:
        """Messages in the inbox up to this number."""
        return number(self.database, _WAITING, last)

    def is_held_up(self, worker: str) -> bool:
        """Whether the worker has claimed messages and waits for a lock."""
        return number(self.database, _HELD_UP, self.network.address(worker)) > 0

    def is_active_since(self, name: str, when: float) -> bool:
        """Whether the machine has sent PostgreSQL a statement since then, in Unix time."""
        return number(self.database, _ACTIVE_SINCE, self.network.address(name), when) > 0

    def is_ready(self, web: str) -> bool:
        return status_of(self.addresses[web], "/readyz") == 200

    def ended(self) -> list[str]:
        """The machines that ended by themselves."""
        return [name for name, process in self._processes.items() if process.poll() is not None]


# Whether what a step waits for has come true.
Watch = Callable[[], bool]


def recorded_up_to_now(machines: Machines) -> Watch:
    """Whether everything has left the inbox that is in it now."""
    last = machines.last_message()
    return lambda: machines.waiting(last) == 0


def held_up(machines: Machines) -> psycopg.Connection[Any]:
    """A connection whose transaction lets nobody record. Close it to let recording continue."""
    connection = machines.service.connect()
    connection.autocommit = False
    connection.execute("LOCK TABLE engagement_dailycount IN SHARE MODE")
    return connection
