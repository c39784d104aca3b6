"""One command runs the service, keeps it running, and leaves nothing behind."""

import json
import os
import re
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from config.local.postgres import EmbeddedPostgres
from ingestion.inbox.drain_requests import DRAIN_EXPIRES
from tests.start.folders import data_folder
from tests.start.running import Up, fetch, manage, paste, survivors, until

SECRETS = ("admin_password", "ingestion_key", "api_token")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with data_folder("up", is_new=True) as folder:
        yield folder


@pytest.fixture(scope="module")
def up(folder: Path) -> Iterator[Up]:
    """The service on a new data folder, for all tests of this file but the last ones."""
    started = Up(folder, EDS_WEB_WORKERS="2", EDS_CELERY_WORKERS="2")
    try:
        yield started.wait_until_running()
    finally:
        if started.process.poll() is None:
            started.end()


def test_the_first_start_keeps_the_credentials_and_tells_no_log(up: Up) -> None:
    credentials = up.credentials
    for name in SECRETS:
        assert credentials[name] not in up.text
    path = up.data_dir / "credentials.json"
    assert f"The password, the key, and the token are in {path}." in up.text
    mode = stat.S_IMODE((up.data_dir / "credentials.json").stat().st_mode)
    assert mode == 0o600


def test_each_line_of_a_child_carries_its_name(up: Up) -> None:
    assert any(line.startswith("postgres | ") for line in up.output)
    until(lambda: any(line.startswith("worker   | ") for line in up.output), "the worker's line")
    assert "\x1b" not in up.text, "colours are for terminals"


def test_a_start_prints_no_line_that_looks_like_a_failure(up: Up) -> None:
    """A connection to a PostgreSQL that still starts would leave a FATAL line."""
    assert "database system is ready" in up.text
    assert [line for line in up.output if "FATAL" in line or "ERROR" in line] == []


def test_the_printed_curl_lines_work_when_pasted(up: Up) -> None:
    *posts, accounts, users = up.curl_lines()
    assert [paste(line)[0] for line in posts] == [202] * 4

    def ranked() -> bool:
        status, body = paste(accounts)
        assert status == 200, body
        return any(account["score"] for account in json.loads(body)["data"])

    until(ranked, "an account with a score")
    status, body = paste(users)
    assert status == 200
    assert [account["email"] for account in json.loads(body)["data"]] == ["ada@example.com"]


def test_another_product_can_be_made_while_it_runs(up: Up) -> None:
    result = manage(up.data_dir, "create_product", "Second", "--json")
    assert result.returncode == 0, result.stderr
    assert set(json.loads(result.stdout)) == {
        "product_id",
        "workspace_id",
        "ingestion_key",
        "api_token",
    }


def test_head_requests_leave_no_log_line(up: Up) -> None:
    line_count = len(up.output)
    for path in ("healthz", "readyz", "admin/login/"):
        assert fetch(f"http://127.0.0.1:{up.port}/{path}", "HEAD") == (200, b"")
    assert [line for line in up.output[line_count:] if line.startswith("web")] == []


def test_a_second_start_on_the_same_folder_is_refused(up: Up) -> None:
    second = manage(up.data_dir, "up", "--port", "0")
    assert second.returncode == 1
    assert "already runs on the data folder" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_killed_web_worker_is_brought_back(up: Up) -> None:
    master = up.named("gunicorn")[0]
    victim = master.children()[0]
    os.kill(victim.pid, signal.SIGKILL)
    until(lambda: len(survivors(master.children())) == 4 and not survivors([victim]), "a new one")
    assert all(up.status_of("/admin/login/") == 200 for _ in range(10))


def test_a_killed_celery_worker_is_brought_back_and_its_pool_is_gone(up: Up) -> None:
    worker = until(lambda: up.named("worker --queues default"), "the worker")[0]
    pool = until(worker.children, "its pool")
    os.kill(worker.pid, signal.SIGKILL)
    until(lambda: not survivors(pool), "the end of the pool")
    until(lambda: survivors(up.named("worker --queues default")), "a new worker")
    assert any("worker was ended by SIGKILL; it restarts" in line for line in up.output)


def scored_events(up: Up) -> int:
    """How many events the account's score counts, as the read API says."""
    accounts = up.curl_lines()[-2]
    link = json.loads(paste(accounts)[1])["data"][0]["_links"]["self"]
    status, body = paste(re.sub(r"'http://[^']*'", f"'{link}'", accounts))
    assert status == 200, body
    events: int = json.loads(body)["data"]["metrics"]["recently_scored_events"]
    return events


def test_killed_pool_processes_do_not_block_the_others(up: Up) -> None:
    posts = up.curl_lines()[:-2]
    for _ in range(2):
        worker = until(lambda: up.named("worker --queues default"), "the worker")[0]
        # One of the idle ones waits for the next task, and holds a lock while it does.
        for process in until(worker.children, "its pool"):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            time.sleep(0.2)
        before = scored_events(up)
        assert [paste(line)[0] for line in posts] == [202] * 4
        expected = before + 2
        until(lambda expected=expected: scored_events(up) == expected, "the score")  # type: ignore[misc]


def test_a_worker_that_hangs_in_a_task_is_replaced_and_goes_on(up: Up) -> None:
    before = scored_events(up)
    posts = up.curl_lines()[:-2]
    ask = "from ingestion import tasks; tasks.drain.apply_async(time_limit=1)"
    # Beat would ask for drains of its own, which may hang for longer.
    beat = up.named("celery", "beat")[0]
    beat.suspend()
    # By then those that it asked for are over, or have expired in the queue.
    time.sleep(DRAIN_EXPIRES + 1)
    with connect(up) as other:
        other.execute("LOCK TABLE ingestion_claimedbatch IN ACCESS EXCLUSIVE MODE")
        result = manage(up.data_dir, "shell", "-c", ask)
        assert result.returncode == 0, result.stderr
        until(lambda: "Hard time limit (1s) exceeded" in up.text, "the end of a process")
    beat.resume()
    assert [paste(line)[0] for line in posts] == [202] * 4
    until(lambda: scored_events(up) == before + 2, "the score")


def connect(up: Up) -> "psycopg.Connection[Any]":
    """A connection to the service's own database."""
    server = EmbeddedPostgres(up.data_dir / "postgres").database_settings()
    return psycopg.connect(host=server["HOST"], dbname=server["NAME"], user=server["USER"])


def test_a_killed_postgres_is_brought_back_and_serves_the_same_data(up: Up) -> None:
    server = up.named("bin/postgres", "-D")[0]
    os.kill(server.pid, signal.SIGKILL)
    until(lambda: not survivors([server]), "its end")
    *_, accounts, _ = up.curl_lines()
    until(lambda: paste(accounts)[0] == 200, "an answer from the database")


def test_sigkill_leaves_nothing_running(up: Up) -> None:
    processes = up.processes()
    assert len(processes) > 6
    up.end(signal.SIGKILL)
    until(lambda: survivors(processes) == [], "the end of all processes")


def test_the_next_start_finds_its_data_and_sigterm_leaves_nothing_running(up: Up) -> None:
    credentials = up.credentials
    again = Up(up.data_dir).wait_until_running()
    try:
        assert again.credentials == credentials
        assert credentials["ingestion_key"] not in again.text, "secrets are printed once"
        accounts = json.loads(paste(again.curl_lines()[-2])[1])["data"]
        assert [account["tracking_id"] for account in accounts] == ["a1"]
        processes = again.processes()
        assert len(processes) > 6
        start = time.monotonic()
        assert again.end() == 0
        assert time.monotonic() - start < 60
        assert survivors(processes) == []
        assert again.credentials == credentials
    finally:
        if again.process.poll() is None:
            again.end()
