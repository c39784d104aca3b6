"""No header of a client changes what the web server does with a request."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from django.conf import settings

from config.local.postgres import stop_process
from tests.start.running import clean_environment, free_port, until

METRICS = "metrics-token"
# None of the requests needs a database.
SETTINGS = {
    "DATABASE_URL": "postgresql://eds@127.0.0.1:1/eds",
    "EDS_SECRET_KEY": "s" * 60,
    "EDS_ENCRYPTION_KEYS": Fernet.generate_key().decode(),
    "EDS_METRICS_TOKEN": METRICS,
    "EDS_WEB_WORKERS": "1",
}


class Web:
    """``manage.py serve`` on a port, asked over raw sockets."""

    def __init__(self, folder: Path, **more: str) -> None:
        self.port = free_port()
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "serve", "--port", str(self.port)],
            cwd=settings.BASE_DIR,
            env=clean_environment(folder, **SETTINGS, **more),
        )
        until(lambda: self.status("/healthz") == 200, "the web server")

    def answer(self, path: str, *headers: str, method: str = "GET") -> str:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
        with socket.socket() as client:
            client.settimeout(20)
            if client.connect_ex(("127.0.0.1", self.port)):
                return ""
            client.sendall("\r\n".join([*lines, "", ""]).encode())
            return client.makefile("rb").read().decode()

    def status(self, path: str, *headers: str) -> int:
        words = self.answer(path, *headers).split(maxsplit=2)
        return int(words[1]) if words else 0


def running(folder: Path, **more: str) -> Iterator[Web]:
    web = Web(folder, **more)
    try:
        yield web
    finally:
        stop_process(web.process, signal.SIGTERM, timeout=10)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    yield from running(tmp_path_factory.mktemp("web"))


@pytest.fixture(scope="module")
def behind_https(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    yield from running(tmp_path_factory.mktemp("https"), EDS_HTTPS="true")


@pytest.mark.parametrize("name", ["SCRIPT_NAME", "PATH_INFO", "Script_Name", "REMOTE_USER"])
def test_headers_named_as_the_servers_variables_are_ignored(name: str, web: Web) -> None:
    assert web.status("/healthz", f"{name}: x") == 200


@pytest.mark.parametrize("path", ["/metrics", "/admin/login/", "/healthz"])
def test_no_header_moves_an_address(path: str, web: Web) -> None:
    token = f"Authorization: Bearer {METRICS}"
    for headers in (["SCRIPT_NAME: /x"], [f"PATH_INFO: {path}"]):
        assert web.status(f"/x{path}", token, *headers) == 404


def test_a_client_that_says_https_is_taken_for_http(web: Web) -> None:
    # A form whose page came by HTTPS: Django compares its origin with the scheme of the request.
    token = "a" * 32
    form = (f"Cookie: csrftoken={token}", f"X-CSRFToken: {token}", "Content-Length: 0")
    headers = ("X-Forwarded-Proto: https", "Origin: https://localhost", *form)
    assert web.answer("/admin/login/", *headers, method="POST").startswith("HTTP/1.1 403")


def test_a_proxy_that_ends_https_is_believed_where_the_setting_says_so(behind_https: Web) -> None:
    assert behind_https.status("/openapi.json", "X-Forwarded-Proto: https") == 200
    assert behind_https.status("/openapi.json", "X-Forwarded-Proto: http") == 301
    # Headers that disagree are for Django to judge; the server refuses none.
    both = ("X-Forwarded-Proto: https", "X-Forwarded-Ssl: off")
    assert behind_https.status("/openapi.json", *both) == 200


def test_an_api_is_not_redirected_but_refused_without_https(behind_https: Web) -> None:
    """A program that follows the redirect would go on sending its key in the clear."""
    for path in ("/v2/workspaces", "/v1/accounts", "/mcp"):
        answer = behind_https.answer(path, "Authorization: Bearer eds_x")
        assert answer.startswith("HTTP/1.1 403") and '"https_required"' in answer, path
    response = behind_https.answer("/v2/track", "Content-Length: 0", method="POST")
    assert response.startswith("HTTP/1.1 403")
    # Who checks the machine itself is not behind the proxy.
    assert behind_https.status("/healthz") == 200
