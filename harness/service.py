"""A service for the length of a run: temporary data folder, PostgreSQL, roles, all local.

Nothing here reads the settings: the roles run as in production, each in processes of its own.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg
from cryptography.fernet import Fernet

from config.local.postgres import DATABASE, ROLE, SUPERUSER, EmbeddedPostgres, stop_process
from config.server import gunicorn
from harness.http import Address, status_of
from harness.ports import free_port
from harness.processes import (
    HOST,
    PATIENCE,
    PROJECT,
    Failed,
    processor_seconds,
    running,
    until,
)
from harness.report import progress

WORKERS = os.cpu_count() or 1
STOP_TIMEOUT = 15.0
# Characters.
SHOWN_OF_TRACEBACK = 4000
# A run's service has its own settings, whatever is set up in this shell.
NOT_INHERITED = ("DATABASE_URL", "CELERY_BROKER_URL", "DJANGO_SETTINGS_MODULE", "EDS_", "PG")
# From the snapshot, which takes a tenth of the time that all migrations take.
_MIGRATE = "import django; django.setup(); from config.setup.preflight import migrate; migrate()"
# The files of a PostgreSQL that has all tables and does not run. A new service starts with a copy.
MIGRATED_CLUSTER = "BENCHMARK_CLUSTER"


class Service:
    """Runs roles and commands against one temporary data folder, with the code in *project*."""

    def __init__(
        self, folder: Path, postgres: EmbeddedPostgres, stack: ExitStack, project: Path = PROJECT
    ) -> None:
        self.folder = folder
        # What is started from now on runs this code; what runs already keeps its own.
        self.project = project
        self.postgres = postgres
        self._stack = stack
        self._shares_files = True
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        # A full inbox is not what is measured here.
        self.environment = own_environment(folder, EDS_INBOX_LIMIT="100000000")

    # --- Commands -----------------------------------------------------------------------------

    def run(
        self,
        *arguments: str,
        timeout: float = PATIENCE,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """Run a Python command to its end and return what it printed."""
        process = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.project,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if process.returncode:
            raise Failed(f"`{' '.join(arguments)}` failed:\n{process.stderr[-2000:]}")
        return process.stdout

    def migrate(self) -> None:
        """Create the tables, as ``up`` does. An older release has its own way."""
        if self.project == PROJECT:
            self.run("-c", _MIGRATE)
        else:
            self.run("manage.py", "migrate", "--verbosity", "0")

    def run_json(self, *arguments: str, timeout: float = PATIENCE) -> dict[str, Any]:
        """Run a Python command that prints JSON."""
        content: dict[str, Any] = json.loads(self.run(*arguments, timeout=timeout))
        return content

    def create_product(self, name: str = "Benchmark") -> dict[str, Any]:
        """Create a product; its ids and credentials, as ``create_product --json`` prints them."""
        return self.run_json("manage.py", "create_product", name, "--json")

    # --- Roles --------------------------------------------------------------------------------

    def start(self, name: str, command: list[str], **environment: str) -> "subprocess.Popen[bytes]":
        """Start a process that runs until the service stops. Its output goes to a file."""
        folder = {} if self._shares_files else {"EDS_DATA_DIR": str(self.folder / _plain(name))}
        environment = {**self.environment, **folder, **environment}
        # In the end nothing waits for a role: what it would finish is thrown away.
        process = running(command, self._log(name), environment, self.project, grace=0)
        started = self._started[name] = self._stack.enter_context(process)
        return started

    def processor_seconds(self, name: str) -> float:
        """The processor time that the role of this name has taken, or PostgreSQL for no name."""
        pid = self._started[name].pid if name else self.postgres.pid()
        return processor_seconds(pid) if pid else 0.0

    def start_web(
        self, name: str, application: str = "", *options: str, **environment: str
    ) -> Address:
        """Start a web role on a free port, with as many workers as there are cores.

        *application* is another WSGI application than the service's own, for the same server.
        *options* are gunicorn's, instead of those of ``config.server.gunicorn``.
        """
        address = any_address()
        if options:
            command = [sys.executable, "-m", "gunicorn", "--bind", f"{HOST}:{address.port}"]
            command += ["--workers", str(WORKERS), *options]
        else:
            command = gunicorn.gunicorn_command(HOST, address.port, WORKERS, WORKERS)
        if application:
            command.append(application)
        process = self.start(name, command, **environment)

        def responds() -> bool:
            if process.poll() is not None:
                raise Failed(f"{name} did not start:\n{self.last_lines(name)}")
            return status_of(address, "/") is not None

        until(responds, f"{name} to respond")
        return address

    def serve(self, name: str, address: Address, **environment: str) -> "subprocess.Popen[bytes]":
        """Start ``serve``, which is a whole web role."""
        command = ["serve", "--host", address.host, "--port", str(address.port)]
        return self.start(name, [sys.executable, "manage.py", *command], **environment)

    def start_worker(self, name: str = "worker", *options: str) -> "subprocess.Popen[bytes]":
        """Start a Celery worker, for all queues unless *options* limit it."""
        # Workers on one machine need names of their own.
        return self.start(name, celery("worker", "--hostname", f"{_plain(name)}@%h", *options))

    def start_workers(self) -> None:
        """Start a worker for messages and one for scoring, as ``up`` does."""
        self.start_worker("worker", "--queues", "default")
        self.start_worker("scoring", "--queues", "scoring", "--concurrency", "1")

    def start_beat(self, name: str = "beat") -> "subprocess.Popen[bytes]":
        return self.start(name, celery("beat"))

    def wait_until_ready(self, *addresses: Address) -> None:
        for address in addresses:
            until(lambda at=address: status_of(at, "/readyz") == 200, "the roles to be ready")  # type: ignore[misc]

    def separate_roles(self) -> None:
        """Let roles share no files from now on, as if each had a machine. They need an address of
        the database, and get the secrets that ``up`` keeps in a file."""
        self._shares_files = False
        self.environment |= secrets_of_a_run()

    # --- Looking ------------------------------------------------------------------------------

    def connect(self, database: str = DATABASE) -> psycopg.Connection[Any]:
        """A connection of the run's own, which ends with the service."""
        connection = psycopg.connect(
            host=str(self.postgres.socket_dir), user=SUPERUSER, dbname=database, autocommit=True
        )
        self._stack.callback(connection.close)
        return connection

    def last_lines(self, name: str) -> str:
        return self._log(name).read_text("utf-8", "replace")[-2000:]

    def tracebacks(self, expected: str = "") -> int:
        """How many errors all processes have logged with a traceback. Prints the first of each.

        Those that *expected*, a regular expression, matches as a whole do not count.
        """
        number = 0
        for log in self.folder.glob("*.log"):
            text = log.read_text("utf-8", "replace")
            unexpected = re.sub(expected, "", text, flags=re.DOTALL) if expected else text
            before, traceback, after = unexpected.partition("Traceback (")
            if traceback:
                number += 1 + after.count(traceback)
                progress(f"{log.name}: {before[-300:]}{traceback}{after[:SHOWN_OF_TRACEBACK]}")
        return number

    def _log(self, name: str) -> Path:
        return self.folder / f"{_plain(name)}.log"


@contextmanager
def temporary_service(
    options: dict[str, str] | None = None, project: Path = PROJECT
) -> Iterator[Service]:
    """A migrated service in a temporary folder; *options* are PostgreSQL's beyond production's.

    *project* is the folder of the code that it runs. When the block ends, everything that was
    started is stopped by its process id, and the folder is removed.
    """
    with temporary_folder() as folder, service_in(folder, options, project) as service:
        yield service


@contextmanager
def service_in(
    folder: Path, options: dict[str, str] | None = None, project: Path = PROJECT
) -> Iterator[Service]:
    """A migrated service in a folder that is kept, with what is already in it."""
    _end_on_sigterm()
    with ExitStack() as stack:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o711)
        is_migrated = project == PROJECT and copy_migrated_cluster(folder)
        postgres = EmbeddedPostgres(folder / "postgres", options)
        service = Service(folder, postgres, stack, project)
        progress("Starting PostgreSQL.")
        postgres.initialise()
        process = postgres.start_with_log(folder / "postgres.log")
        stack.callback(stop_process, process, signal.SIGINT, timeout=STOP_TIMEOUT)
        if not is_migrated:
            service.migrate()
        yield service


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A data folder that PostgreSQL can reach, because it runs as a user of its own for root."""
    folder = Path(tempfile.mkdtemp(prefix="eds-run-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def copy_migrated_cluster(folder: Path) -> bool:
    """Give a new folder a copy of the migrated cluster, if there is one."""
    cluster = os.environ.get(MIGRATED_CLUSTER)
    if not cluster or (folder / "postgres").exists():
        return False
    subprocess.run(["cp", "-a", cluster, folder / "postgres"], check=True)
    return True


def own_environment(folder: Path, **settings: str) -> dict[str, str]:
    """This shell's environment without the service's own settings, and with these."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)}
    own = {"EDS_DATA_DIR": str(folder), "DJANGO_SETTINGS_MODULE": "config.settings"}
    return {**inherited, **own, **settings}


def database_url(host: str, port: int = 5432) -> str:
    return f"postgresql://{ROLE}@{host}:{port}/{DATABASE}"


def secrets_of_a_run() -> dict[str, str]:
    """What a service needs whose database is not the embedded one."""
    return {
        "EDS_SECRET_KEY": "only-for-this-run" * 3,
        "EDS_ENCRYPTION_KEYS": Fernet.generate_key().decode(),
    }


def celery(*arguments: str, app: str = "config") -> list[str]:
    return [sys.executable, "-m", "celery", "--quiet", "--app", app, *arguments]


def any_address() -> Address:
    """An address on this machine that nothing uses."""
    return Address(HOST, free_port())


def _plain(name: str) -> str:
    return name.replace(" ", "-")


def _end_on_sigterm() -> None:
    """SIGTERM unwinds as Ctrl-C does, so that everything that was started is stopped."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
