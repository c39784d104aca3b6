"""Runs the service's processes as children: starts, restarts, and stops them."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import IO

from config import environment
from config.local.postgres import signal_process, wait_or_kill
from config.logging.json_lines import add_process_name
from config.server.parent_death import exit_with_parent

# Seconds between two checks of the children.
POLL_INTERVAL = 0.1
# Seconds before a crashed child restarts. They double with each crash.
MIN_BACKOFF, MAX_BACKOFF = 0.5, 10.0
# Seconds after which a crash counts as the first again.
BACKOFF_RESET_AFTER = 30.0
COLORS = {
    **{"up": 37, "postgres": 34, "web": 32, "beat": 36, "market": 33},
    **{"worker": 35, "scoring": 94, "syncs": 95, "archive": 90},
}
NAME_WIDTH = max(map(len, COLORS))

StartProcess = Callable[[], "subprocess.Popen[bytes]"]


@dataclass
class Child:
    """A process that should run. *start* creates it, *stop_signal* asks it to end.

    A child that serves the others *stops_last*.
    """

    name: str
    start: StartProcess
    stop_signal: int
    stop_timeout: float = 6.0
    stops_last: bool = False
    process: "subprocess.Popen[bytes] | None" = None
    started_at: float = 0.0
    crash_count: int = 0
    due_at: float = field(default=0.0)


class Console:
    """Prints the lines of all children on one stream.

    Each line has the name of its child as a prefix, or is a JSON object with the name.
    """

    def __init__(self, stream: IO[str], *, as_json: bool = False) -> None:
        self._stream = stream
        self._as_json = as_json
        self._lock = threading.Lock()
        # Only a person reads a terminal. Anything else may be kept, as the log of a container is.
        self.is_terminal = stream.isatty()

    def say(self, text: str) -> None:
        """Print a text of the supervisor's own."""
        for line in text.splitlines():
            self.line("up", line)

    def plain(self, text: str) -> None:
        """Print a text for a person, without a prefix, so that it can be copied."""
        if self._as_json and not self.is_terminal:
            self.say(text)
        else:
            self._write(text + "\n")

    def output(self) -> IO[str]:
        """Return a stream for code that writes its own lines."""
        return _ConsoleStream(self) if self._as_json else self._stream

    def line(self, name: str, line: str) -> None:
        if self._as_json:
            self._write(add_process_name(name, line, datetime.now(UTC)) + "\n")
            return
        prefix = f"{name:<{NAME_WIDTH}} |"
        if self.is_terminal:
            prefix = f"\x1b[{COLORS.get(name, 37)}m{prefix}\x1b[0m"
        self._write(f"{prefix} {line}\n")

    def follow(self, name: str, output: IO[bytes]) -> None:
        """Start a thread that prints the lines of *output*."""

        def copy() -> None:
            with output:
                for line in output:
                    self.line(name, line.decode("utf-8", "replace").rstrip())

        threading.Thread(target=copy, name=f"{name} output", daemon=True).start()

    def _write(self, text: str) -> None:
        # The reader of our output may be gone. The service continues without it.
        with self._lock, suppress(OSError):
            self._stream.write(text)
            self._stream.flush()


class _ConsoleStream(StringIO):
    """A stream that prints its lines on a console."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def write(self, text: str) -> int:
        self._console.say(text)
        return len(text)


class Supervisor:
    """Keeps children running until a signal asks it to stop.

    Use it in the main thread only, because the parent death signal of a child is tied to the thread
    that started it.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.children: list[Child] = []
        self.stopping = False

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM ask the supervisor to stop instead of ending the process."""

        def stop(number: int, _: object) -> None:
            self.stopping = True

        numbers = (signal.SIGINT, signal.SIGTERM)
        handlers = {number: signal.signal(number, stop) for number in numbers}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def start(self, child: Child) -> None:
        """Start the child, and restart it whenever it crashes."""
        self.children.append(child)
        self._launch(child)

    def start_later(self, child: Child, seconds: float) -> None:
        """Do the same as ``start`` after a delay."""
        self.children.append(child)
        child.due_at = time.monotonic() + seconds

    def bring_forward(self, seconds: float) -> None:
        """Start children that have not started yet that much earlier."""
        for child in self.children:
            if not child.started_at:
                child.due_at -= seconds

    def run(self) -> None:
        """Restart crashed children until a signal arrives."""
        while not self.stopping:
            self.check()
            time.sleep(POLL_INTERVAL)

    def check(self) -> None:
        """Check each child once."""
        now = time.monotonic()
        for child in self.children:
            if child.process is None:
                if now >= child.due_at:
                    self._launch(child)
            elif child.process.poll() is not None:
                self._schedule_restart(child, now)

    def stop(self) -> None:
        """Stop all children and their descendants.

        All stop at once, because workers take seconds. Those that serve the others stop afterwards,
        the last started first.
        """
        if self.children:
            self.console.say("Stopping.")
        _stop([child for child in self.children if not child.stops_last])
        for child in reversed(self.children):
            if child.stops_last:
                _stop([child])

    def _launch(self, child: Child) -> None:
        child.started_at = time.monotonic()
        child.process = child.start()
        if child.process.stdout is not None:
            self.console.follow(child.name, child.process.stdout)

    def _schedule_restart(self, child: Child, now: float) -> None:
        assert child.process is not None
        ending = _ending(child.process.returncode)
        # Descendants of a crashed child must not disturb its replacement.
        kill_group(child.process.pid)
        child.process = None
        child.crash_count = (
            1 if now - child.started_at > BACKOFF_RESET_AFTER else child.crash_count + 1
        )
        delay = min(MIN_BACKOFF * 2 ** (child.crash_count - 1), MAX_BACKOFF)
        child.due_at = now + delay
        self.console.say(f"{child.name} {ending}; it restarts in {delay:g} s.")


def _stop(children: list[Child]) -> None:
    """Ask all children to end, and then wait for them."""
    running = [(child, child.process) for child in children if child.process is not None]
    for child, process in running:
        signal_process(process, child.stop_signal)
    asked_at = time.monotonic()
    for child, process in running:
        wait_or_kill(process, max(0.0, asked_at + child.stop_timeout - time.monotonic()))
        kill_group(process.pid)
        child.process = None


def spawn(
    command: list[str],
    folder: Path,
    variables: Mapping[str, str] | None = None,
    descriptors: Sequence[int] = (),
) -> "subprocess.Popen[bytes]":
    """Start the command in *folder*, in its own process group, with its output in a pipe.

    Its environment is this process's with *variables* on top. It inherits the *descriptors*.
    """
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment.child_environment(variables or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=descriptors,
        # On SIGTERM a worker would finish its task first, long after its database is gone. A task
        # that is cut off rolls back.
        preexec_fn=exit_with_parent(signal.SIGKILL),
    )


def python_module(*arguments: str) -> list[str]:
    return [sys.executable, "-m", *arguments]


def kill_group(pid: int) -> None:
    """Kill what is left of the process group of *pid*."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _ending(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"
