"""The whole service, run by ``up`` in a process and a data folder of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import psycopg

from config.local.postgres import DATABASE, SUPERUSER
from harness import processes
from harness.cluster import Cluster
from harness.database import WAITING, number
from harness.http import Address, status_of
from harness.processes import PROJECT, Failed, until
from harness.service import any_address, copy_migrated_cluster, own_environment, temporary_folder


class Whole:
    """``up`` and its children: web server, workers, beat, and PostgreSQL."""

    def __init__(
        self, folder: Path, address: Address, process: "subprocess.Popen[bytes]", output: Path
    ) -> None:
        self.folder = folder
        self.output = output
        self.address = address
        self.process = process
        # Another database than the embedded one.
        self.cluster: Cluster | None = None

    @cached_property
    def credentials(self) -> dict[str, Any]:
        """What the first start created and printed."""
        content: dict[str, Any] = json.loads((self.folder / "credentials.json").read_text())
        return content

    @property
    def key(self) -> str:
        return str(self.credentials["ingestion_key"])

    def wait_until_ready(self) -> None:
        def is_ready() -> bool:
            self.check()
            return status_of(self.address, "/readyz") == 200

        with self.explained():
            until(is_ready, "the service to be ready")

    def check(self) -> None:
        """Raise Failed if ``up`` has ended by itself."""
        if self.process.poll() is not None:
            raise Failed(f"`up` ended by itself:\n{self.log()}")

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Add what the service logged to a failure."""
        try:
            yield
        except Failed as failure:
            raise Failed(f"{failure} The service logged:\n{self.log()}") from None

    def log(self, characters: int = 3000) -> str:
        return self.output.read_text("utf-8", "replace")[-characters:]

    def connect(self) -> psycopg.Connection[Any]:
        """Connect to its database, which may be away: then this is an OperationalError."""
        if self.cluster:
            return self.cluster.coordinator.connect()
        sockets = [*self.folder.rglob(".s.PGSQL.*[0-9]")]
        if not sockets:
            raise psycopg.OperationalError("PostgreSQL has no socket.")
        return psycopg.connect(
            host=str(sockets[0].parent), user=SUPERUSER, dbname=DATABASE, autocommit=True
        )

    def is_drained(self) -> bool:
        """Whether the inbox is empty. No while the database is away."""
        with suppress(psycopg.Error), self.connect() as database:
            return number(database, WAITING) == 0
        return False

    def processes(self) -> dict[str, list[psutil.Process]]:
        """The processes that may be killed, by what they do. Never ``up`` itself."""
        by_role: dict[str, list[psutil.Process]] = {}
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.Error):
                if role := _role(process):
                    by_role.setdefault(role, []).append(process)
        return by_role | (self.cluster.processes() if self.cluster else {})


def _role(process: psutil.Process) -> str:
    """What the process is for; empty if it is not to be killed."""
    command = " ".join(process.cmdline())
    parent = process.parent()
    is_child_of_its_kind = parent is not None and " ".join(parent.cmdline()) == command
    if "gunicorn" in command:
        return "web worker" if is_child_of_its_kind else "web server"
    if "beat" in command and "celery" in command:
        return "beat"
    if "celery" in command and "worker" in command:
        return "worker's pool process" if is_child_of_its_kind else "worker"
    return "PostgreSQL" if command.startswith("postgres") or "/postgres -D" in command else ""


@contextmanager
def starting(
    folder: Path, output: Path | None = None, project: Path | str = PROJECT, **settings: str
) -> Iterator[Whole]:
    """``up`` with its data in *folder*, just started; stopped by its process id in the end. Its
    output goes to a file in the folder, or to *output*. *project* is the folder of its code."""
    output = output or folder / "up.log"
    address = any_address()
    command = [sys.executable, "manage.py", "up", "--port", str(address.port)]
    environment = own_environment(folder, **settings)
    with processes.running(command, output, environment, Path(project)) as process:
        yield Whole(folder, address, process, output)


@contextmanager
def running(**settings: str) -> Iterator[Whole]:
    """``up`` in a temporary folder, ready."""
    with temporary_folder() as folder:
        copy_migrated_cluster(folder)
        with starting(folder, None, **settings) as service:
            service.wait_until_ready()
            yield service
