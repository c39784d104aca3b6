"""With EDS_LOG_FORMAT=json every line is one JSON object."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import psutil
from django.conf import settings

from config.local.supervisor import Console
from config.logging.json_lines import add_process_name
from config.logging.json_streams import JsonStream
from tests.start.running import (
    PATIENCE,
    clean_environment,
    fetch,
    free_port,
    until,
)

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def test_lines_of_children_become_objects_with_their_name() -> None:
    line = json.loads(add_process_name("web", '{"time": "t", "message": "m"}', NOON))
    assert line == {"time": "t", "message": "m", "process": "web"}
    for text in ("LOG:  checkpoint", "[1]", "12", '"text"', ""):
        assert json.loads(add_process_name("postgres", text, NOON)) == {
            "time": "2026-03-02T12:00:00.000+00:00",
            "level": "info",
            "message": text,
            "process": "postgres",
        }


def test_lines_of_up_become_objects() -> None:
    output = StringIO()
    console = Console(output, as_json=True)
    console.say("Stopping.")
    console.plain("Running.\nHere.")
    console.output().write("35% done, 100 accounts\n")
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    assert [(line["process"], line["message"]) for line in lines] == [
        ("up", "Stopping."),
        ("up", "Running."),
        ("up", "Here."),
        ("up", "35% done, 100 accounts"),
    ]


def test_lines_of_a_process_become_objects_without_credentials() -> None:
    read, write = os.pipe()
    with os.fdopen(read) as output:
        stream = JsonStream(write)
        for text in ("Applying", " it... ", "OK\n\n", "10%\r20%\n", "error: no\n", "edk_1"):
            stream.write(text)
        stream.write("2345678901234567 is a key\n")
        stream.write(json.dumps({"time": "t", "message": "m"}) + "\n")
        os.close(write)
        lines = [json.loads(line) for line in output]
    assert [(line.get("level"), line["message"]) for line in lines] == [
        ("info", "Applying it... OK"),
        ("info", "20%"),
        ("error", "error: no"),
        ("info", "edk_12345… is a key"),
        (None, "m"),
    ]


STARTS: dict[str, list[str]] = {
    "a command": ["manage.py", "migrate"],
    "a worker": ["-m", "celery", "-A", "config", "worker"],
    "a web server": [
        *("-m", "gunicorn", "--config", "python:config.server.gunicorn"),
        *("--bind", "127.0.0.1:0", "--workers", "1"),
    ],
    "an error of ours": ["-c", "from config.logging.json_streams import install; install(); 1 / 0"],
}


def test_every_line_of_a_failing_start_is_an_object(tmp_path: Path) -> None:
    """Before the settings can be read, and whoever complains: Django, Celery, gunicorn, Python."""
    variables = {"EDS_LOG_FORMAT": "json", "EDS_WEB_WORKERS": "many"}
    starts = {
        name: subprocess.Popen(
            [sys.executable, *command],
            cwd=settings.BASE_DIR,
            env=clean_environment(tmp_path, **variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name, command in STARTS.items()
    }
    for name, process in starts.items():
        output, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode, name
        lines = [json.loads(line) for line in output.splitlines()]
        assert all({"time", "level", "message"} <= line.keys() for line in lines), name
        expected = "EDS_WEB_WORKERS must be a whole number, not 'many'"
        if name == "an error of ours":
            (line,) = lines
            assert "ZeroDivisionError" in line["traceback"] and line["level"] == "error"
        else:
            assert any(expected in line["message"] for line in lines), name


def kill_workers(server_pid: int) -> None:
    for worker in psutil.Process(server_pid).children():
        worker.kill()


def test_every_line_of_a_web_server_of_its_own_is_an_object(tmp_path: Path) -> None:
    port = free_port()
    variables: dict[str, Any] = {
        "DATABASE_URL": f"postgresql://eds@127.0.0.1:{free_port()}/eds",
        "EDS_SECRET_KEY": "s" * 60,
        "EDS_ENCRYPTION_KEYS": ",".join(map(str, settings.ENCRYPTION_KEYS)),
        "EDS_LOG_FORMAT": "json",
    }
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "manage.py", "serve", "--port", str(port)],
            cwd=settings.BASE_DIR,
            env=clean_environment(tmp_path, **variables),
            stdout=log,
            stderr=log,
        )
    try:
        until(lambda: fetch(f"http://127.0.0.1:{port}/healthz")[0] == 200, "an answer")
        kill_workers(server.pid)
        until(lambda: b"SIGKILL" in (tmp_path / "log").read_bytes(), "gunicorn's line")
        until(lambda: fetch(f"http://127.0.0.1:{port}/healthz")[0] == 200, "another worker")
        # It has no database to ask.
        assert fetch(f"http://127.0.0.1:{port}/admin/login/", "POST")[0] == 403
        os.kill(server.pid, 15)
        server.wait(30)
    finally:
        server.kill()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert any(line["logger"] == "gunicorn.error" for line in lines)
