"""The whole service, run by ``up`` in a process and a data folder of its own."""

import http.client
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import psutil
import psycopg

from config.local.postgres import DATABASE, SUPERUSER, stop_process
from harness.service import HOST, PROJECT, Failed, free_port, own_environment, until

START_PATIENCE = 60.0
STOP_TIMEOUT = 20.0


class Whole:
    """``up`` and its children: web server, workers, beat and PostgreSQL."""

    def __init__(self, folder: Path, port: int, process: "subprocess.Popen[bytes]") -> None:
        self.folder = folder
        self.port = port
        self.process = process

    @cached_property
    def credentials(self) -> dict[str, Any]:
        """What the first start made and printed."""
        read: dict[str, Any] = json.loads((self.folder / "credentials.json").read_text())
        return read

    @property
    def key(self) -> str:
        return str(self.credentials["ingestion_key"])

    def wait_until_ready(self) -> None:
        try:
            until(self._is_ready, "the service to be ready", START_PATIENCE)
        except Failed as failed:
            raise Failed(f"{failed} The service said:\n{self.log()}") from None

    def _is_ready(self) -> bool:
        if self.process.poll() is not None:
            raise Failed(f"`up` ended:\n{self.log()}")
        return self.get("/readyz") == 200

    def get(self, path: str) -> int | None:
        """The status of the answer; None where there is none."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=5)
        with suppress(OSError, http.client.HTTPException):
            connection.request("GET", path)
            return connection.getresponse().status
        return None

    def log(self, characters: int = 3000) -> str:
        return (self.folder / "up.log").read_text("utf-8", "replace")[-characters:]

    def connect(self) -> psycopg.Connection[Any]:
        socket_dir = next(self.folder.rglob(".s.PGSQL.*[0-9]")).parent
        return psycopg.connect(
            host=str(socket_dir), user=SUPERUSER, dbname=DATABASE, autocommit=True
        )

    def processes(self) -> dict[str, list[psutil.Process]]:
        """The processes that may be killed, by what they do. Never ``up`` itself."""
        found: dict[str, list[psutil.Process]] = {}
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.Error):
                if role := _role(process):
                    found.setdefault(role, []).append(process)
        return found


def _role(process: psutil.Process) -> str:
    """What the process is for; empty where it is not to be killed."""
    command = " ".join(process.cmdline())
    parent = process.parent()
    of_the_same = parent is not None and " ".join(parent.cmdline()) == command
    if "gunicorn" in command:
        return "web worker" if of_the_same else "web server"
    if "beat" in command and "celery" in command:
        return "beat"
    if "celery" in command and "worker" in command:
        return "worker's pool process" if of_the_same else "worker"
    return "PostgreSQL" if command.startswith("postgres") or "/postgres -D" in command else ""


Started = TypeVar("Started", bound=Whole)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="eds-benchmark-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        # PostgreSQL runs as a user of its own where we are root, and must reach its folder.
        folder.chmod(0o711)
        yield folder


@contextmanager
def starting(folder: Path, kind: type[Started], **settings: str) -> Iterator[Started]:
    """``up`` with its data in *folder*, just started; stopped by its process id in the end."""
    port = free_port()
    with (folder / "up.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--port", str(port)],
            cwd=PROJECT,
            env=own_environment(folder, **settings),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield kind(folder, port, process)
    finally:
        stop_process(process, signal.SIGTERM, timeout=STOP_TIMEOUT)


@contextmanager
def running(**settings: str) -> Iterator[Whole]:
    """``up`` in a temporary folder, ready."""
    with temporary_folder() as folder, starting(folder, Whole, **settings) as whole:
        whole.wait_until_ready()
        yield whole
