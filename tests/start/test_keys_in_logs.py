"""A key in a URL, as beacons and SDKs' settings have it, reaches no log of the web server."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

from cryptography.fernet import Fernet
from django.conf import settings

from config.local.postgres import stop_process
from core import credentials
from tests.start.running import clean_environment, free_port, until

KEY = credentials.generate("edk")
# No database: each message that could be recorded gets a 503, and its cause a line.
SETTINGS = {
    "DATABASE_URL": "postgresql://eds@127.0.0.1:1/eds",
    "EDS_SECRET_KEY": "s" * 60,
    "EDS_ENCRYPTION_KEYS": Fernet.generate_key().decode(),
    "EDS_WEB_WORKERS": "1",
    "EDS_PAGE_WORKERS": "1",
}
TRACK = b'{"userId": "ada", "event": "Opened"}'
REQUEST_LINES = [
    f"POST /beacon/v1/batch?writeKey={KEY} HTTP/1.1",
    f"POST /v1/t?writeKey={KEY} HTTP/1.1",
    f"GET /v1/projects/{KEY}/settings HTTP/1.1",
    f"GET /v1/projects/{KEY}/other HTTP/1.1",
    f"DELETE /segment/v1/projects/{KEY}/settings HTTP/1.1",
    f"GET /sourceConfig/?writeKey={KEY} HTTP/1.1",
    f"GET /somewhere/else/{KEY} HTTP/1.1",
    # The server refuses these, and says why.
    f"POST /v1/t?writeKey={KEY} and a space HTTP/1.1",
    f"POST /v1/t?writeKey={KEY} HTTP/9.9.9",
    f"GET /v1/t HTTP/1.1\r\nAuthorization Basic {KEY}",
]


def test_a_key_in_a_url_reaches_no_log(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "serve", "--port", str(port)],
            cwd=settings.BASE_DIR,
            env=clean_environment(tmp_path, **SETTINGS),
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: status(port, "GET /healthz HTTP/1.1") == 200, "the web server")
        statuses = [status(port, line) for line in REQUEST_LINES]
    finally:
        stop_process(process, signal.SIGTERM, timeout=10)
    assert statuses == [400, 503, 200, 404, 405, 200, 404, 400, 400, 400]
    lines = log.read_text()
    # Something was logged. What is no HTTP request leaves no line.
    assert "cannot be committed" in lines and "Invalid request" not in lines
    assert KEY[4:] not in lines


def status(port: int, request_line: str) -> int:
    head = f"{request_line}\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(TRACK)}"
    with socket.socket() as client:
        client.settimeout(20)
        if client.connect_ex(("127.0.0.1", port)):
            return 0
        client.sendall(head.encode() + b"\r\n\r\n" + TRACK)
        words = client.makefile("rb").read().split(maxsplit=2)
        return int(words[1]) if len(words) > 1 else 0
