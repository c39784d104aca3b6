"""A worker that replaces itself still ends with the process that started it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.start.running import until

# Starts the worker as `up` does, and waits to be killed.
PARENT = """
import signal, subprocess, sys, time
from config.server.parent_death import exit_with_parent
command = [sys.executable, "-c", sys.argv[1], sys.argv[2]]
subprocess.Popen(command, preexec_fn=exit_with_parent(signal.SIGTERM))
time.sleep(60)
"""
# Replaces itself from a thread, as a Celery worker does after a death in its pool.
WORKER = """
import os, pathlib, sys, threading, time
from unittest.mock import Mock
folder = pathlib.Path(sys.argv[1])
if not (folder / "replaced").exists():
    (folder / "replaced").touch()
    from config.celery.pool import restart_worker_if_killed
    from config.server.parent_death import parent_death_signal
    arguments = (parent_death_signal(), Mock(exitcode=-9))
    thread = threading.Thread(target=restart_worker_if_killed, args=arguments)
    thread.start()
    thread.join()
(folder / "pid").write_text(str(os.getpid()))
time.sleep(60)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux sends the signal.")
def test_a_worker_that_replaced_itself_ends_with_its_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, WORKER, str(tmp_path)])
    pid_file = tmp_path / "pid"
    try:
        until(lambda: pid_file.exists() and pid_file.read_text() != "", "the new worker")
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    worker = Path("/proc", pid_file.read_text())
    until(lambda: not worker.exists(), "the end of the worker")
