"""``manage.py`` as a person runs it: a process of its own, on a free port of the loopback."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil
import psycopg
from django.conf import settings

from config.local.first_start import FirstStart
from config.local.postgres import DATABASE, ROLE, EmbeddedPostgres, stop_process
from harness.ports import free_port as free_port

NOT_INHERITED = ("DATABASE_URL", "CELERY_BROKER_URL", "MARKETPLACE_API_URL", "EDS_")
# Each process that starts takes a second of a processor.
FEW_PROCESSES = {"EDS_WEB_WORKERS": "1", "EDS_CELERY_WORKERS": "1"}
# Seconds. A busy machine may need that long for what usually takes a few.
PATIENCE = 240.0
T = TypeVar("T")


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def web_worker(*options: str) -> Iterator[int]:
    """Run the web server with one worker and an application that answers ok. Yield its port."""
    port = free_port()
    command = [sys.executable, "-m", "gunicorn", "--config", "python:config.server.gunicorn"]
    command += ["--bind", f"127.0.0.1:{port}", "--workers", "1", *options]
    process = subprocess.Popen([*command, "tests.start.idle:application"], cwd=settings.BASE_DIR)
    try:
        until(lambda: listens(port), "the server")
        yield port
    finally:
        stop_process(process, signal.SIGTERM, timeout=10)


def clean_environment(data_dir: Path, **settings_given: str) -> dict[str, str]:
    """This shell's environment without the service's own variables, and with these."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)}
    return {**environment, "EDS_DATA_DIR": str(data_dir), **settings_given}


def manage(
    data_dir: Path, *arguments: str, **settings_given: str
) -> subprocess.CompletedProcess[str]:
    """Run a command that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=settings.BASE_DIR,
        env=clean_environment(data_dir, **settings_given),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def until(look: Callable[[], T], what: str, patience: float = PATIENCE) -> T:
    """Call *look* until it returns a true value, and return that."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if result := look():
            return result
        time.sleep(0.05)
    raise AssertionError(f"waited {patience:.0f} s for {what}")


class Up:
    """``python manage.py up`` on a data folder, with what it printed."""

    def __init__(
        self,
        data_dir: Path,
        *options: str,
        terminal: bool = False,
        program: Sequence[str] = ("manage.py",),
        **settings_given: str,
    ) -> None:
        read, write = os.openpty() if terminal else os.pipe()
        self.data_dir = data_dir
        self.settings_given = settings_given
        self.port = free_port()
        self.output: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, *program, "up", "--port", str(self.port), *options],
            cwd=settings.BASE_DIR,
            env=clean_environment(data_dir, **{**FEW_PROCESSES, **settings_given}),
            stdout=write,
            stderr=write,
        )
        os.close(write)
        self._lines = open(read, encoding="utf-8", errors="replace")  # noqa: SIM115
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        # A terminal whose other end is closed says so with an error.
        with self._lines as lines, suppress(OSError):
            for line in lines:
                self.output.append(line.rstrip("\n"))

    @property
    def text(self) -> str:
        return "\n".join(self.output)

    def wait_until_running(self) -> "Up":
        def ready() -> bool:
            assert self.process.poll() is None, self.text
            return "Running at" in self.text

        until(ready, "the greeting")
        return self

    def connect(self) -> psycopg.Connection[Any]:
        """A connection of the service's role to its database."""
        if url := self.settings_given.get("DATABASE_URL"):
            return psycopg.connect(url, autocommit=True)
        postgres = EmbeddedPostgres(self.data_dir / "postgres")
        return psycopg.connect(
            host=str(postgres.socket_dir), user=ROLE, dbname=DATABASE, autocommit=True
        )

    @property
    def credentials(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads((self.data_dir / "credentials.json").read_text())
        return read

    def curl_lines(self) -> list[str]:
        """The curl commands that a person at a terminal sees, each as it would be pasted."""
        instructions = FirstStart(self.credentials).instructions(f"http://127.0.0.1:{self.port}")
        return re.findall(r"^curl (?:.*\\\n)*.*$", instructions, re.MULTILINE)

    def status_of(self, path: str) -> int:
        """The HTTP status of a GET; 0 where nobody answers."""
        return fetch(f"http://127.0.0.1:{self.port}{path}")[0]

    def processes(self) -> list[psutil.Process]:
        """Everything that it started and runs, children of children included."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def named(self, *words: str) -> list[psutil.Process]:
        """Processes whose command line holds all of the words, the oldest first."""
        return [process for process in self.processes() if words_in(process, words)]

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send the signal and return the exit status."""
        self.process.send_signal(number)
        status = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return status


def words_in(process: psutil.Process, words: tuple[str, ...]) -> bool:
    try:
        line = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return all(word in line for word in words)


def survivors(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that still run. Zombies do not."""
    return [process for process in processes if process.is_running() and not _is_zombie(process)]


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def fetch(
    url: str, method: str = "GET", headers: dict[str, str] | None = None, body: bytes | None = None
) -> tuple[int, bytes]:
    """Return status and body; status 0 if there is no response."""
    request = urllib.request.Request(url, data=body, headers=headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    except OSError:
        return 0, b""


def paste(curl_line: str) -> tuple[int, bytes]:
    """Send the request of the curl command, parsed as by a shell."""
    # shlex keeps the line break that a shell would take out.
    words = iter(shlex.split(curl_line.replace("\\\n", " "))[1:])
    method, headers, body, url = "GET", {}, None, ""
    for word in words:
        if word == "-X":
            method = next(words)
        elif word == "-H":
            name, value = next(words).split(": ", 1)
            headers[name] = value
        elif word == "-d":
            body = next(words).encode()
        else:
            url = word
    return fetch(url, method, headers, body)
