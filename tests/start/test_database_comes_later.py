"""Roles that start before their database do their work as soon as it is there."""

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.fernet import Fernet
from django.conf import settings

from config.local.postgres import stop_process
from tests.start.external import External, external
from tests.start.running import clean_environment, free_port, manage, until

SECRETS = {"EDS_SECRET_KEY": "s" * 60, "EDS_ENCRYPTION_KEYS": Fernet.generate_key().decode()}
TRACK = json.dumps({"userId": "ada", "event": "opened"})
ROLES = {
    "web": ("manage.py", "serve"),
    "worker": ("-m", "celery", "--quiet", "--app", "config", "worker"),
    "beat": ("-m", "celery", "--quiet", "--app", "config", "beat"),
}


class Roles:
    """A web server, a worker and beat on one database, which carries their broker, too."""

    def __init__(self, database_url: str, folder: Path) -> None:
        self.port = free_port()
        self.settings = {
            "DATABASE_URL": database_url,
            "EDS_WEB_WORKERS": "1",
            "EDS_CELERY_WORKERS": "1",
            **SECRETS,
        }
        self.key = ""
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._folder = folder

    def prepare(self) -> None:
        """Make Acme with a key."""
        result = manage(self._folder, "create_product", "Acme", "--json", **self.settings)
        self.key = json.loads(result.stdout)["ingestion_key"]

    def start(self, name: str) -> None:
        command = [sys.executable, *ROLES[name]]
        command += ["--port", str(self.port)] if name == "web" else []
        with (self._folder / name).open("ab") as output:
            self.processes[name] = subprocess.Popen(
                command,
                cwd=settings.BASE_DIR,
                env=clean_environment(self._folder, **self.settings),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log_of(self, name: str) -> str:
        return (self._folder / name).read_text()

    def ask(self, method: str, path: str, body: str | None = None) -> tuple[int, str, str | None]:
        """Status, body and Retry-After; status 0 where nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Authorization": f"Basic {self.key}"} if body else {}
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.getheader("Retry-After")
        except OSError:
            return 0, "", None
        finally:
            connection.close()


@pytest.fixture
def server() -> Iterator[External]:
    with external() as server:
        yield server


@pytest.fixture
def roles(server: External, tmp_path: Path) -> Iterator[Roles]:
    """All three, started while their database, which they once had, is down."""
    roles = Roles(server.url, tmp_path)
    roles.prepare()
    server.stop()
    with ExitStack() as stack:
        for name in ROLES:
            roles.start(name)
            stack.callback(stop_process, roles.processes[name], signal.SIGTERM, timeout=10)
        until(lambda: roles.ask("GET", "/healthz")[0] == 200, "the web server")
        yield roles


def recorded(server: External) -> Any:
    with psycopg.connect(server.url) as database:
        return database.execute("SELECT sum(count) FROM engagement_dailycount").fetchone()


def test_the_roles_report_the_missing_database_and_work_when_it_is_back(
    roles: Roles, server: External
) -> None:
    status, _, retry_after = roles.ask("POST", "/v2/track", TRACK)
    assert (status, retry_after) == (503, "2")
    status, body, _ = roles.ask("GET", "/readyz")
    assert (status, json.loads(body)["checks"]) == (
        503,
        {"database": "The database cannot be reached."},
    )
    until(lambda: "Cannot connect to own-database" in roles.log_of("worker"), "the worker's line")
    until(lambda: "The schedule cannot be read" in roles.log_of("beat"), "beat's line")

    server.start()
    until(lambda: roles.ask("POST", "/v2/track", TRACK)[0] == 202, "an accepted message")
    identify = json.dumps({"userId": "ada"})
    assert roles.ask("POST", "/v2/identify", identify)[0] == 202
    until(lambda: recorded(server) == (1,), "the message to be recorded")
    until(lambda: roles.ask("GET", "/readyz")[0] == 200, "the web server to be ready")
    until(lambda: "The schedule can be read now" in roles.log_of("beat"), "beat's line")
    for name, process in roles.processes.items():
        assert process.poll() is None, roles.log_of(name)
        assert "Traceback" not in roles.log_of(name)


def test_beat_can_be_stopped_while_it_waits(tmp_path: Path) -> None:
    roles = Roles(f"postgresql://eds@127.0.0.1:{free_port()}/eds", tmp_path)
    roles.start("beat")
    try:
        until(lambda: "The schedule cannot be read" in roles.log_of("beat"), "beat's line")
        roles.processes["beat"].terminate()
        assert roles.processes["beat"].wait(timeout=10) == -signal.SIGTERM
    finally:
        stop_process(roles.processes["beat"], signal.SIGTERM, timeout=10)
