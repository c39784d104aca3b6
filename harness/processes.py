"""Processes: what to start and stop them with, and how to wait for them."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import psutil

from config.local.postgres import stop_process
from config.server.parent_death import exit_with_parent

PROJECT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
# Seconds that roles may take to start on a busy machine, and a single command to end.
PATIENCE = 180.0
STOP_TIMEOUT = 20.0
SYSTEM_PATH = "/usr/lib/rabbitmq/bin:/usr/sbin:/usr/bin:/bin:/usr/local/bin"

Result = TypeVar("Result")


class Failed(Exception):
    """The run cannot go on. The message is a sentence for the person who started it."""


@contextmanager
def running(
    command: list[str],
    log: Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path = PROJECT,
    grace: float = STOP_TIMEOUT,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process in a group of its own inside the block. Its output is added to *log*.

    When the block ends, the process is asked to stop, and killed after *grace* seconds.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=exit_with_parent(signal.SIGTERM),
        )
    try:
        yield process
    finally:
        stop(process, grace)


def stop(process: "subprocess.Popen[bytes]", grace: float = STOP_TIMEOUT) -> None:
    """End the process as a service manager would."""
    stop_process(process, signal.SIGTERM, timeout=grace)


def processor_seconds(pid: int) -> float:
    """What the process, its children, and those of its children that have ended have taken."""
    seconds = 0.0
    for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        with suppress(psutil.Error):
            times = process.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def until(look: Callable[[], Result], what: str, patience: float = PATIENCE) -> Result:
    """Return the first true value of *look*. Raise Failed after *patience* seconds."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if result := look():
            return result
        time.sleep(0.05)
    raise Failed(f"Waited {patience:.0f} s in vain for {what}.")


def program(name: str, package: str = "") -> str:
    """Return the path of an installed program."""
    path = shutil.which(name, path=f"{SYSTEM_PATH}:{os.environ.get('PATH', '')}")
    if path is None:
        raise Failed(f"{name} is not installed. On Debian: apt-get install {package or name}")
    return path


def listens(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0
