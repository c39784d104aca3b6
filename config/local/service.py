"""The whole service on one machine: its processes, and the order in which they start."""

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import IO

import django
from django.conf import settings
from django.core.management.base import CommandError
from django.db import connections
from django.utils.log import configure_logging

from config.local import data_folder
from config.local.postgres import EmbeddedPostgres
from config.local.supervisor import Child, Console, Supervisor, python_module, spawn
from config.server import gunicorn
from config.server.start_order import START_GATE
from config.server.without_pages import leave_out_pages

# The web role starts first: senders wait for it, and nobody yet for the others. These start once it
# answers, or after this many seconds.
WEB_START_TIME = 30.0
# Seconds after the worker and beat, because these need the processor first.
SCORING_START_DELAY, SYNC_START_DELAY, ARCHIVE_START_DELAY = 2.0, 5.0, 3.0
# A sync mostly waits for its marketplace, so several run at once.
SYNC_CONCURRENCY = 4


def run(host: str, port: int, output: IO[str], *, with_demo: bool = False) -> None:
    """Run the service until Ctrl-C or SIGTERM. Raise CommandError if it cannot start."""
    configure_logging(settings.LOGGING_CONFIG, settings.LOGGING)
    console = Console(output, as_json=_as_json())
    supervisor = Supervisor(console)
    with data_folder.lock_data_dir(settings.DATA_DIR), supervisor.signals():
        if reason := gunicorn.port_error(host, port):
            raise CommandError(reason)
        gate, opener = os.pipe()
        web = partial(_web, host, port, gate)
        # It loads the application while the database is prepared. With one that others run, it
        # would only delay the error if that cannot be reached.
        starts_early = settings.EMBEDDED_POSTGRES is not None and not with_demo
        try:
            if starts_early:
                supervisor.start(web({}))
            with _loading_apps():
                if settings.EMBEDDED_POSTGRES:
                    _start_postgres(supervisor, console, settings.EMBEDDED_POSTGRES)
            # Models can be imported only now.
            from config.local import first_start, preparation

            preparation.prepare_tables(console)
            # Data is accepted from now on: the inbox is there. Hashing the password takes longer.
            os.close(opener)
            created = first_start.create_first_start(settings.DATA_DIR)
            prepare_demo = preparation.prepare_demo if with_demo else preparation.leave_demo
            variables = prepare_demo(supervisor, console)
            # The children have their own connections, and this process needs none from now on.
            connections.close_all()
            if not supervisor.stopping:
                if not starts_early:
                    supervisor.start(web(variables))
                _start_roles(supervisor, variables)
                greeting = partial(first_start.greeting, settings.DATA_DIR, created)
                _greet_when_ready(supervisor, console, host, port, greeting)
                supervisor.run()
        finally:
            supervisor.stop()


@contextmanager
def _loading_apps() -> Iterator[None]:
    """Load the apps beside the block, which must not need them."""
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(_load_apps)
        yield
        loading.result()


def _load_apps() -> None:
    leave_out_pages()
    django.setup()
    # What run() needs next, for which PostgreSQL need not have started.
    import_module("config.local.preparation")


def _start_postgres(supervisor: Supervisor, console: Console, postgres: EmbeddedPostgres) -> None:
    if not postgres.is_initialised():
        console.say(f"Creating a PostgreSQL database in {postgres.folder}; this takes seconds.")
    postgres.initialise()
    postgres.wait_until_free()
    child = Child(
        "postgres",
        start=lambda: postgres.popen(subprocess.PIPE),
        stop_signal=signal.SIGINT,
        stop_timeout=20,
        stops_last=True,
    )
    supervisor.start(child)
    assert child.process is not None
    postgres.wait_until_ready(child.process)


def _web(host: str, port: int, gate: int, variables: Mapping[str, str]) -> Child:
    """Return the web role. It serves once the other end of the *gate* is closed."""
    command = gunicorn.gunicorn_command(host, port, settings.WEB_WORKERS, settings.PAGE_WORKERS)
    command += ["--env", f"{START_GATE}={gate}"]
    return Child(
        "web", partial(spawn, command, settings.BASE_DIR, variables, [gate]), signal.SIGTERM
    )


def _start_roles(supervisor: Supervisor, variables: Mapping[str, str]) -> None:
    """Start the other roles soon."""
    # Scoring and license syncs have workers of their own, so that they delay neither messages nor
    # each other. One process is enough for scoring, because PostgreSQL does the work.
    single, several = ("--concurrency", "1"), ("--concurrency", str(SYNC_CONCURRENCY))
    later = {
        "worker": (_worker("--queues", "default"), 0.0),
        "beat": (python_module("celery", "--quiet", "--app", "config", "beat"), 0.0),
        "scoring": (_named_worker("scoring", "scoring", *single), SCORING_START_DELAY),
        "syncs": (_named_worker("syncs", "marketplace", *several), SYNC_START_DELAY),
    }
    for name, (command, seconds) in later.items():
        supervisor.start_later(_role(name, command, variables), WEB_START_TIME + seconds)
    if settings.EMBEDDED_POSTGRES and settings.BACKUP_FOLDER:
        archive = [sys.executable, str(settings.BASE_DIR / "manage.py"), "archive_wal"]
        child = Child(
            "archive", partial(spawn, archive, settings.BASE_DIR), signal.SIGINT, stops_last=True
        )
        supervisor.start_later(child, WEB_START_TIME + ARCHIVE_START_DELAY)


def _role(name: str, command: list[str], variables: Mapping[str, str]) -> Child:
    return Child(name, partial(spawn, command, settings.BASE_DIR, variables), signal.SIGTERM)


def _as_json() -> bool:
    return bool(settings.LOG_FORMAT == "json")


def _worker(*options: str) -> list[str]:
    return python_module("celery", "--quiet", "--app", "config", "worker", *options)


def _named_worker(name: str, queue: str, *options: str) -> list[str]:
    return _worker("--queues", queue, *options, "--hostname", f"{name}@%h")


def _greet_when_ready(
    supervisor: Supervisor,
    console: Console,
    host: str,
    port: int,
    greeting: Callable[..., str],
) -> None:
    """Print the greeting when the service answers, and have the other roles start.

    A thread waits, so that children stay watched.
    """
    latest = time.monotonic() + WEB_START_TIME

    def greet() -> None:
        while not _answers(host, port):
            time.sleep(0.05)
        supervisor.bring_forward(max(0.0, latest - time.monotonic()))
        address = f"http://{_reachable(host)}:{port}"
        console.plain(greeting(address, with_secrets=console.is_terminal))

    threading.Thread(target=greet, name="greeting", daemon=True).start()


def _answers(host: str, port: int) -> bool:
    """Return whether a web worker responds at all."""
    connection = http.client.HTTPConnection(_reachable(host).strip("[]"), port, timeout=5)
    try:
        connection.request("GET", "/healthz", headers={"Host": "localhost"})
        connection.getresponse()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


def _reachable(host: str) -> str:
    """Return the host for a URL. Every interface is reached through the loopback."""
    if host in {"", "0.0.0.0"}:
        return "127.0.0.1"
    if host == "::":
        return "[::1]"
    return f"[{host}]" if ":" in host else host
