"""The order in which the supervisor stops its children."""

import signal
import subprocess
import sys
from functools import partial
from io import StringIO
from pathlib import Path

from config.local.supervisor import Child, Console, Supervisor, spawn
from tests.start.running import until

# Ends on SIGTERM when the file that it waits for exists. Its own files show how far it is.
PROGRAM = """
import pathlib, signal, sys, time
name, waits_for = sys.argv[1:]
def end(*_):
    pathlib.Path(name + ".asked").touch()
    while not pathlib.Path(waits_for).exists():
        time.sleep(0.01)
    pathlib.Path(name + ".ended").touch()
    sys.exit(7)
signal.signal(signal.SIGTERM, end)
pathlib.Path(name + ".runs").touch()
time.sleep(60)
"""
KILLED = -signal.SIGKILL


def child(folder: Path, name: str, waits_for: str, *, stops_last: bool = False) -> Child:
    command = [sys.executable, "-c", PROGRAM, name, waits_for]
    start = partial(spawn, command, folder)
    return Child(name, start, signal.SIGTERM, stop_timeout=2.0, stops_last=stops_last)


def endings(folder: Path, *children: Child) -> list[int | None]:
    """Start and stop the children. Return their exit statuses."""
    supervisor = Supervisor(Console(StringIO()))
    processes: list[subprocess.Popen[bytes]] = []
    for child in children:
        supervisor.start(child)
        assert child.process is not None
        processes.append(child.process)
        runs = folder / f"{child.name}.runs"
        until(runs.exists, child.name)
    supervisor.stop()
    return [process.poll() for process in processes]


def test_all_children_are_asked_to_stop_at_once(tmp_path: Path) -> None:
    first, second = child(tmp_path, "a", "b.asked"), child(tmp_path, "b", "a.asked")
    assert endings(tmp_path, first, second) == [7, 7]


def test_a_child_that_serves_the_others_stops_last(tmp_path: Path) -> None:
    database = child(tmp_path, "database", "web.ended", stops_last=True)
    web = child(tmp_path, "web", "web.asked")
    assert endings(tmp_path, database, web) == [7, 7]


def test_a_child_that_serves_the_others_runs_until_they_have_ended(tmp_path: Path) -> None:
    database = child(tmp_path, "database", "database.asked", stops_last=True)
    needy = child(tmp_path, "needy", "database.asked")
    assert endings(tmp_path, database, needy) == [7, KILLED]


def test_a_child_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    assert endings(tmp_path, child(tmp_path, "deaf", "never")) == [KILLED]
