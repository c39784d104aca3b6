"""A service for the length of a benchmark: temporary data folder, PostgreSQL, roles, all local.

Nothing here reads the settings: the roles run as in production, each in processes of its own.
"""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import psycopg

from config.local.postgres import DATABASE, SUPERUSER, EmbeddedPostgres, stop_process
from config.parent_death import exit_with_parent
from config.server import gunicorn
from harness.report import progress

PROJECT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
WORKERS = os.cpu_count() or 1
# Seconds that a role may take to start, and a single command to end.
PATIENCE = 60.0
STOP_TIMEOUT = 15.0
# A benchmark's service has its own settings, whatever is set up in this shell.
NOT_INHERITED = ("DATABASE_URL", "CELERY_BROKER_URL", "DJANGO_SETTINGS_MODULE", "EDS_", "PG")

Found = TypeVar("Found")


class Failed(Exception):
    """The benchmark cannot go on; the message is a sentence for whoever started it."""


class Service:
    """Runs roles and commands against one temporary data folder, with the code in *project*."""

    def __init__(
        self, folder: Path, postgres: EmbeddedPostgres, stack: ExitStack, project: Path = PROJECT
    ) -> None:
        self.folder = folder
        # Whatever is started from now on runs this code; what runs already keeps its own.
        self.project = project
        self.postgres = postgres
        self._stack = stack
        # A full inbox is not what is measured here.
        self.environment = own_environment(folder, EDS_INBOX_LIMIT="100000000")

    def create_product(self) -> dict[str, Any]:
        """A product with its credentials, as ``create_product --json`` prints them."""
        made: dict[str, Any] = json.loads(
            self.run("manage.py", "create_product", "Benchmark", "--json")
        )
        return made

    def run(
        self,
        *arguments: str,
        timeout: float = PATIENCE,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """Run a Python command to its end; what it printed."""
        ended = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.project,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if ended.returncode:
            raise Failed(f"`{' '.join(arguments)}` failed:\n{ended.stderr[-2000:]}")
        return ended.stdout

    def start(self, name: str, command: list[str], **environment: str) -> "subprocess.Popen[bytes]":
        """Start a process that runs until the benchmark ends; its output goes to a file."""
        with self._log(name).open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.project,
                env={**self.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=exit_with_parent(signal.SIGTERM),
            )
        self._stack.callback(_stop, process)
        return process

    def start_web(self, name: str, application: str = "", *options: str, **environment: str) -> str:
        """Start a web role on a free port, with as many workers as there are cores; its address.

        *application* is another WSGI application than the service's own, for the same server.
        *options* are gunicorn's, instead of those of ``config.server.gunicorn``.
        """
        port = free_port()
        if options:
            command = [sys.executable, "-m", "gunicorn", "--bind", f"{HOST}:{port}"]
            command += ["--workers", str(WORKERS), *options]
        else:
            command = gunicorn.gunicorn_command(HOST, port, WORKERS, WORKERS)
        if application:
            command.append(application)
        process = self.start(name, command, **environment)
        self._until(name, process, lambda: _listens(port))
        return f"http://{HOST}:{port}"

    def start_worker(self, name: str = "worker") -> "subprocess.Popen[bytes]":
        """Start a Celery worker with the service's default settings, for all queues."""
        return self.start(name, celery("config", "worker"))

    def start_workers(self) -> None:
        """Start a worker for messages and one for scoring, as ``up`` does."""
        for name, queue, *options in (
            ("worker", "default"),
            ("scoring", "scoring", "--concurrency", "1"),
        ):
            arguments = ("--queues", queue, "--hostname", f"{name}@%h", *options)
            self.start(name, celery("config", "worker", *arguments))

    def start_beat(self) -> "subprocess.Popen[bytes]":
        """Start beat with the service's default schedule."""
        return self.start("beat", celery("config", "beat"))

    def connect(self, database: str = DATABASE) -> psycopg.Connection[Any]:
        """A connection of the benchmark's own, which ends with the benchmark."""
        connection = psycopg.connect(
            host=str(self.postgres.socket_dir), user=SUPERUSER, dbname=database, autocommit=True
        )
        self._stack.callback(connection.close)
        return connection

    def _until(
        self, name: str, process: "subprocess.Popen[bytes]", look: Callable[[], bool]
    ) -> None:
        deadline = time.monotonic() + PATIENCE
        while not look():
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"{name} did not start:\n{self.last_lines(name)}")
            time.sleep(0.05)

    def last_lines(self, name: str) -> str:
        return self.output(name)[-2000:]

    def output(self, name: str) -> str:
        """What the process that was started under this name has printed."""
        return self._log(name).read_text("utf-8", "replace")

    def _log(self, name: str) -> Path:
        return self.folder / f"{name.replace(' ', '-')}.log"


@contextmanager
def temporary_service(
    options: dict[str, str] | None = None, project: Path = PROJECT
) -> Iterator[Service]:
    """A migrated service in a temporary folder; *options* are PostgreSQL's beyond production's.

    *project* is the folder of the code that it runs.

    When the block is left, everything that was started is stopped by its process id and the
    folder is removed.
    """
    folder = Path(tempfile.mkdtemp(prefix="eds-benchmark-"))
    try:
        with service_in(folder, options, project) as service:
            yield service
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def service_in(
    folder: Path, options: dict[str, str] | None = None, project: Path = PROJECT
) -> Iterator[Service]:
    """A migrated service in a folder that is kept, with whatever is in it.

    A new folder starts with a copy of the cluster that ``BENCHMARK_CLUSTER`` names, if it is set.
    """
    _end_on_sigterm()
    with ExitStack() as stack:
        folder.mkdir(parents=True, exist_ok=True)
        # PostgreSQL runs as a user of its own where we are root, and must reach its folder.
        folder.chmod(0o711)
        cluster = os.environ.get("BENCHMARK_CLUSTER") if project == PROJECT else None
        if cluster and not (folder / "postgres").exists():
            subprocess.run(["cp", "-a", cluster, folder / "postgres"], check=True)
        postgres = EmbeddedPostgres(folder / "postgres", options)
        service = Service(folder, postgres, stack, project)
        progress("Starting PostgreSQL.")
        postgres.initialise()
        with (folder / "postgres.log").open("ab") as log:
            process = postgres.popen(log.fileno())
        stack.callback(stop_process, process, signal.SIGINT, timeout=STOP_TIMEOUT)
        postgres.wait_until_ready(process)
        service.run("manage.py", "migrate", "--verbosity", "0")
        yield service


def own_environment(folder: Path, **settings: str) -> dict[str, str]:
    """This shell's environment without the service's own settings, and with these."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)}
    own = {"EDS_DATA_DIR": str(folder), "DJANGO_SETTINGS_MODULE": "config.settings"}
    return {**kept, **own, **settings}


def until(look: Callable[[], Found], what: str, patience: float) -> Found:
    """The first true thing that *look* returns; Failed after *patience* seconds."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.05)
    raise Failed(f"Waited {patience:.0f} s in vain for {what}.")


def celery(app: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "celery", "--quiet", "--app", app, *arguments]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/", headers={"Host": "localhost"})
        connection.getresponse()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


def _stop(process: "subprocess.Popen[bytes]") -> None:
    stop_process(process, signal.SIGTERM, timeout=STOP_TIMEOUT)


def _end_on_sigterm() -> None:
    """SIGTERM unwinds as Ctrl-C does, so that whatever was started is stopped."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
