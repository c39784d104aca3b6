"""Whether proofs find bugs: plants each patch of proofs/planted into a copy of the project, and
runs the short form of its proof there, which must fail.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from config.server.parent_death import exit_with_parent
from harness.command import run_command
from harness.processes import PROJECT, Failed
from harness.report import Report, Result, Table, progress
from harness.service import own_environment, temporary_folder

PATCHES = PROJECT / "proofs" / "planted"
# What each proof runs, and the bugs that it must find.
SHORT = {
    "durability": ("--minutes", "0.2", "--kills", "10", "--pause", "0.02"),
    "reads": ("--seconds", "20", "--pause", "0.02"),
    "schedules": ("--seeds", "200", "--processes", "1", "--until-broken"),
}
BUGS = {
    "durability": ("202_before_the_commit", "taken_in_another_transaction"),
    "reads": ("change_that_readers_never_hear_of", "pages_kept_for_seconds"),
    "schedules": (
        "202_before_the_commit",
        "lease_that_never_ends",
        "scored_in_another_transaction",
        "sweep_that_waits_forgets_why",
        "taken_in_another_transaction",
    ),
}
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "data")
# Seconds.
PATIENCE = 1200.0
# Characters of what a proof says that are shown.
SHOWN = 100


def measure(options: argparse.Namespace) -> Report:
    rows = []
    for proof, bugs in BUGS.items():
        for bug in bugs:
            if options.proof in ("all", proof) and options.bug in ("", bug):
                progress(f"{proof}: {words(bug)}.")
                rows.append(_plant(proof, bug))
    yield Table("Planted bugs", rows)
    yield Result("planted", len(rows))
    yield Result("not found", sum(not row["found"] for row in rows), must_be=0)


def words(bug: str) -> str:
    return bug.replace("_", " ")


def patch_of(bug: str) -> Path:
    return PATCHES / f"{bug}.patch"


def _plant(proof: str, bug: str) -> dict[str, Any]:
    with copy_with_bug(patch_of(bug)) as project, temporary_folder() as folder:
        began = time.monotonic()
        run = subprocess.run(
            [sys.executable, "-m", f"proofs.{proof}", *SHORT[proof]],
            cwd=project,
            env=own_environment(folder),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            preexec_fn=exit_with_parent(signal.SIGTERM),
        )
    complaints = [line for line in run.stderr.splitlines() if "It must be" in line]
    if run.returncode and not complaints:
        # The proof itself failed.
        progress(run.stderr[-2000:])
    return {
        "bug": words(bug),
        "proof": proof,
        "found": bool(complaints),
        "after, s": time.monotonic() - began,
        "by": complaints[0].removeprefix("error: ")[:SHOWN] if complaints else "",
    }


@contextmanager
def copy_with_bug(patch: Path) -> Iterator[Path]:
    """A copy of the project with the bug."""
    with temporary_folder() as folder:
        project = folder / "project"
        shutil.copytree(PROJECT, project, ignore=NOT_COPIED, symlinks=True)
        patching = subprocess.run(
            ["git", "apply", str(patch)], cwd=project, capture_output=True, text=True
        )
        if patching.returncode:
            raise Failed(f"{patch.name} does not apply: {patching.stderr.strip()}")
        yield project


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--proof", choices=["all", *SHORT], default="all")
    parser.add_argument("--bug", default="", help="only this one, named as its patch")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
