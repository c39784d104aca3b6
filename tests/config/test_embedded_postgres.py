"""The embedded PostgreSQL: its share of the memory, and folders that a crash left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from config.local import postgres
from config.local.postgres import EmbeddedPostgres
from harness.processes import PROJECT, until

GIB = 1024**3


@pytest.mark.parametrize(
    ("memory", "limit", "buffers"),
    [
        (24 * GIB, None, "1024MB"),
        (4 * GIB, None, "512MB"),
        (1 * GIB, None, "256MB"),
        (24 * GIB, f"{4 * GIB}\n", "512MB"),
        (4 * GIB, "max\n", "512MB"),
        (4 * GIB, f"{2**63 - 4096}\n", "512MB"),
    ],
)
def test_its_cache_is_an_eighth_of_the_memory_that_it_may_take(
    memory: int, limit: str | None, buffers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the container's, where it has a limit of its own."""
    sizes = {"SC_PHYS_PAGES": memory // 4096, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    path = tmp_path / "memory.max"
    if limit is not None:
        path.write_text(limit)
    monkeypatch.setattr(postgres, "_CONTAINER_LIMITS", (path,))
    assert postgres.shared_buffers() == buffers
    assert postgres.EmbeddedPostgres(tmp_path).options["shared_buffers"] == buffers


INITIALISE = "import sys; from pathlib import Path; from config.local.postgres import *;"
INITIALISE += "EmbeddedPostgres(Path(sys.argv[1])).initialise()"


@pytest.mark.slow
def test_files_whose_creation_was_killed_are_created_again(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    folder = tmp_path / "postgres"
    process = subprocess.Popen(
        [sys.executable, "-c", INITIALISE, str(folder)], cwd=PROJECT, start_new_session=True
    )
    # The first file that PostgreSQL's initdb writes, and long before the last one.
    until(lambda: [*tmp_path.rglob("PG_VERSION")], "the first file")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.2)
    server = EmbeddedPostgres(folder)
    assert not server.is_initialised()
    server.initialise()
    assert (folder / "global" / "pg_control").stat().st_size == 8192
    assert [path.name for path in tmp_path.iterdir()] == ["postgres"]


def test_the_number_of_a_server_may_be_that_of_another_process_after_a_crash(
    tmp_path: Path,
) -> None:
    server = EmbeddedPostgres(tmp_path)
    left_behind = tmp_path / "postmaster.pid"
    left_behind.write_text(f"{os.getpid()}\n{tmp_path}\n")
    assert server.pid() is None
    server.wait_until_free(timeout=1)
    assert not left_behind.exists()
