"""Runs pytest, and what failed once more: ``python -m tests.second_run`` and pytest's arguments.

A machine that others use, too, now and then fails a test that starts servers. Only what fails
twice fails the run. What passes the second time is named, because it still needs a look.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

# More failures are no accident.
MOST = 20


def run(arguments: Sequence[str], folder: Path | None = None) -> int:
    """Run the tests in *folder*, those that fail twice at most; return the exit status."""
    with tempfile.TemporaryDirectory(prefix="eds-second-run-") as cache:
        command = [sys.executable, "-m", "pytest", *arguments, "-o", f"cache_dir={cache}"]
        status = subprocess.call(command, cwd=folder)
        failures = _failures(Path(cache))
        if status != pytest.ExitCode.TESTS_FAILED or not 0 < len(failures) <= MOST:
            return status
        _show("Failed the first time, and run once more:", failures)
        status = subprocess.call([*command, "-n", "0", "--last-failed"], cwd=folder)
        _show("Passed only at the second time:", failures - _failures(Path(cache)))
        return status


def _failures(cache: Path) -> set[str]:
    """The names of the tests that failed when they last ran."""
    file = cache / "v" / "cache" / "lastfailed"
    return set(json.loads(file.read_text())) if file.exists() else set()


def _show(title: str, names: set[str]) -> None:
    if names:
        print("", title, *sorted(names), "", sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
