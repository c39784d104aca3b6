"""With EDS_LOG_FORMAT=json every line is one JSON object."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

from django.conf import settings

from config.json_lines import add_process_name
from config.local.supervisor import Console
from tests.start.running import bad_request, clean_environment, fetch, free_port, until

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
    assert [(one["process"], one["message"]) for one in lines] == [
        ("up", "Stopping."),
        ("up", "Running."),
        ("up", "Here."),
        ("up", "35% done, 100 accounts"),
    ]


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
        bad_request(port)
        # It has no database to ask.
        assert fetch(f"http://127.0.0.1:{port}/admin/login/", "POST")[0] == 403
        os.kill(server.pid, 15)
        server.wait(30)
    finally:
        server.kill()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert any(line["logger"] == "gunicorn.error" for line in lines)
