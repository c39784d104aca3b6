"""How the supervisor ends its children: those that need nobody all at once, then the others."""

import signal
import subprocess
import sys
from functools import partial
from io import StringIO
from pathlib import Path

from config.local.supervisor import Child, Console, Supervisor, spawn
from tests.start.running import until

# Ends when told to, once it sees the file that it waits for; leaves files for others to see.
PROGRAM = """
import pathlib, signal, sys, time
name, waits_for = sys.argv[1:]
def end(*_):
    pathlib.Path(name + ".told").touch()
    while not pathlib.Path(waits_for).exists():
        time.sleep(0.01)
    pathlib.Path(name + ".ended").touch()
    sys.exit(7)
signal.signal(signal.SIGTERM, end)
pathlib.Path(name + ".runs").touch()
time.sleep(60)
"""
KILLED = -signal.SIGKILL


def child(folder: Path, name: str, waits_for: str, *, serves_others: bool = False) -> Child:
    command = [sys.executable, "-c", PROGRAM, name, waits_for]
    start = partial(spawn, command, folder)
    return Child(name, start, signal.SIGTERM, stop_timeout=2.0, stops_last=serves_others)


def endings(folder: Path, *children: Child) -> list[int | None]:
    """Start and stop them; the status that each ended with."""
    supervisor = Supervisor(Console(StringIO()))
    processes: list[subprocess.Popen[bytes]] = []
    for one in children:
        supervisor.start(one)
        assert one.process is not None
        processes.append(one.process)
        until(lambda one=one: (folder / f"{one.name}.runs").exists(), one.name)  # type: ignore[misc]
    supervisor.stop()
    return [process.poll() for process in processes]


def test_none_waits_for_another_to_end_before_it_is_told(tmp_path: Path) -> None:
    first, second = child(tmp_path, "a", "b.told"), child(tmp_path, "b", "a.told")
    assert endings(tmp_path, first, second) == [7, 7]


def test_what_serves_the_others_is_told_when_they_have_ended(tmp_path: Path) -> None:
    database = child(tmp_path, "database", "web.ended", serves_others=True)
    web = child(tmp_path, "web", "web.told")
    assert endings(tmp_path, database, web) == [7, 7]


def test_what_serves_the_others_is_not_told_while_one_of_them_runs(tmp_path: Path) -> None:
    database = child(tmp_path, "database", "database.told", serves_others=True)
    needy = child(tmp_path, "needy", "database.told")
    assert endings(tmp_path, database, needy) == [7, KILLED]


def test_who_does_not_end_is_killed(tmp_path: Path) -> None:
    assert endings(tmp_path, child(tmp_path, "deaf", "never")) == [KILLED]
