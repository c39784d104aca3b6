"""Backups: the service runs and clients post, a base backup is taken, and everything is killed at
once. The database is then restored to a moment, and to the end of the archive, in new folders, and
every message is accounted for.
"""

import argparse
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil

from harness import accounting
from harness.command import run_command
from harness.posting import CLIENTS, Posted, add_posting_arguments, posting
from harness.processes import PROJECT, Failed, until
from harness.report import Report, Result, progress
from harness.service import copy_migrated_cluster, own_environment, temporary_folder
from harness.whole import Whole, starting

# Seconds. An acknowledged message that is younger than this at the kill may not be in the archive.
MAX_LOSS = 1.0


def measure(options: argparse.Namespace) -> Report:
    with temporary_folder() as folder, temporary_folder() as backups:
        copy_migrated_cluster(folder)
        before, after = Posted(), Posted()
        with starting(folder, EDS_BACKUP_FOLDER=str(backups)) as service:
            service.wait_until_ready()
            until(lambda: list(backups.glob("*/wal/*/*.partial")), "the archive to begin")
            key, address = service.key, [[service.address]]
            with posting(address, key, options.seed, before, options.pause):
                time.sleep(options.seconds / 3)
                progress("Backing up.")
                yield Result("seconds of the base backup", timed(folder, backups, "backup"))
                time.sleep(options.seconds / 3)
            moment = datetime.now(UTC)
            # The clients' clock is the database's, and nothing is posted at the moment.
            time.sleep(0.2)
            with posting(address, key, options.seed + CLIENTS, after, options.pause):
                time.sleep(options.seconds / 3)
                killed_at = datetime.now(UTC)
                kill_everything(service)
        for name, posts, arguments in (
            ("at a moment", before, ["--at", moment.isoformat()]),
            ("at the end", merged(before, after), []),
        ):
            with temporary_folder() as target:
                try:
                    seconds = timed(target, backups, "restore", *arguments)
                except Failed as failure:
                    progress(str(failure))
                    yield Result(f"{name}: restored", "no", must_be="yes")
                    continue
                yield Result(f"{name}: seconds of the restore", seconds)
                with starting(target) as service:
                    service.wait_until_ready()
                    if name == "at the end":
                        forgive_the_last(posts, killed_at)
                    yield from accounting.settle(posts, service.connect, name)


def timed(folder: Path, backups: Path, *arguments: str) -> float:
    """Run the command on the data folder, and return its seconds."""
    options = ["--with-secrets"] if arguments[0] == "backup" else []
    started = time.monotonic()
    process = subprocess.run(
        [sys.executable, "manage.py", *arguments, *options],
        cwd=PROJECT,
        env=own_environment(folder, EDS_BACKUP_FOLDER=str(backups)),
        capture_output=True,
        text=True,
    )
    if process.returncode:
        raise Failed(f"{arguments[0]} failed: {process.stdout}{process.stderr}")
    progress(process.stdout.strip())
    return time.monotonic() - started


def kill_everything(service: Whole) -> None:
    """Kill `up` and everything below it with SIGKILL."""
    progress("Killing everything.")
    parent = psutil.Process(service.process.pid)
    for process in (parent, *parent.children(recursive=True)):
        with suppress(psutil.Error):
            process.kill()


def merged(first: Posted, second: Posted) -> Posted:
    return Posted(
        acknowledged=first.acknowledged | second.acknowledged,
        unanswered=first.unanswered | second.unanswered,
        refused=first.refused | second.refused,
        to_be_dropped=first.to_be_dropped | second.to_be_dropped,
        perhaps_dropped=first.perhaps_dropped | second.perhaps_dropped,
        others=first.others + second.others,
    )


def forgive_the_last(posted: Posted, killed_at: datetime) -> None:
    """Expect nothing of what was posted within the last moment before the kill."""
    last = {
        track
        for track in posted.acknowledged
        if (killed_at - track.occurred_at).total_seconds() < MAX_LOSS
    }
    posted.acknowledged -= last
    posted.unanswered |= last


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=30.0, help="how long to post")
    add_posting_arguments(parser)


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
