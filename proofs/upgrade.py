"""An upgrade: an older release runs, the new one migrates beneath it, runs beside it and takes
over, while clients post and read, and every message is accounted for.

Both releases run in this Python environment, so the older one runs with today's packages.
"""

import argparse
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from harness import accounting, cluster
from harness.command import run_command
from harness.http import Reader
from harness.posting import Posted, posting
from harness.processes import PROJECT, Failed, stop
from harness.report import Report, Result, Table, progress
from harness.service import Service, any_address, temporary_service

# Seconds. The first releases lack dozens of migrations, and clients keep the machine busy.
MIGRATED_WITHIN = 600.0


class Release:
    """One release of the service, with a process for each role."""

    def __init__(self, name: str, service: Service, project: Path) -> None:
        self.address = any_address()
        self._name = name
        self._service = service
        self._project = project
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def migrate(self) -> list[str]:
        """Bring the tables up to date for this release; the migrations that were applied."""
        self._service.project = self._project
        output = self._service.run("manage.py", "migrate", "--no-color", timeout=MIGRATED_WITHIN)
        return re.findall(r"Applying (\S+?)\.\.\. OK", output)

    def start(self) -> None:
        service = self._service
        service.project = self._project
        # In the order in which they end, which is that of docs/operating.md.
        self._processes["worker"] = service.start_worker(f"{self._name} worker")
        self._processes["beat"] = service.start_beat(f"{self._name} beat")
        self._processes["web"] = service.serve(f"{self._name} web", self.address)
        service.wait_until_ready(self.address)

    def stop(self) -> None:
        for process in self._processes.values():
            stop(process)
        self._processes.clear()

    def check(self) -> None:
        """Raise Failed if a role ended by itself."""
        for role, process in self._processes.items():
            if process.poll() is not None:
                last_lines = self._service.last_lines(f"{self._name} {role}")
                raise Failed(f"The {self._name} {role} ended by itself:\n{last_lines}")


class Upgrade:
    """An old release that is replaced by a new one while clients post to both and read."""

    def __init__(self, old: Release, new: Release, product: dict[str, Any], seed: int) -> None:
        self.posted = Posted()
        path = f"/v2/accounts?workspace_id={product['workspace_id']}"
        self.reader = Reader(path, product["api_token"], old.address)
        self.applied: list[str] = []
        self._old, self._new = old, new
        self._key = product["ingestion_key"]
        self._seed = seed
        self._clients = ExitStack()

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Clients post and read as long as the block runs, first from the old release alone."""
        with self.reader.reading(), self._clients:
            # They continue with the new release when their connections break.
            self._post_to(self._old, self._new)
            yield

    def migrate(self) -> None:
        self.applied = self._new.migrate()

    def start_new(self) -> None:
        self._new.start()
        self.reader.addresses.append(self._new.address)
        self._post_to(self._new)

    def stop_old(self) -> None:
        self._old.check()
        with self.reader.lock:
            self.reader.addresses.remove(self._old.address)
        self._old.stop()

    def _post_to(self, *releases: Release) -> None:
        addresses = [release.address for release in releases]
        self._seed += 1000
        self._clients.enter_context(posting([addresses], self._key, self._seed, self.posted))


# What happens one after the other, each followed by an equal share of the time.
PHASES: tuple[tuple[str, Callable[[Upgrade], None]], ...] = (
    ("old alone", lambda upgrade: None),
    ("tables migrated beneath the old", Upgrade.migrate),
    ("new beside the old", Upgrade.start_new),
    ("old ended", Upgrade.stop_old),
)


# The commit of each release of the changelog.
RELEASES = {
    "0.1.0": "f5c7be4",
    "0.2.0": "bb60b73",
    "0.3.0": "65df5e5",
    "0.4.0": "87dfc71",
    "0.5.0": "777658f",
}

# What a worker of these releases logs about a task that only the new one has. The task is a wake-up
# and comes again.
UNKNOWN_TASK = r"Received unregistered task of type .*?KeyError: '[a-z.]+'"

# --- The two releases -------------------------------------------------------------------------


def before_last_migration() -> str:
    """The commit before the last one that added a migration."""
    # Merges join migrations of two branches, and then there is no single one before.
    added = ("--no-merges", "--diff-filter=A", "--format=%h^")
    return git("log", "-1", *added, "--", "*/migrations/0*.py").strip()


@contextmanager
def exported(commit: str) -> Iterator[Path]:
    """The project as it was at the commit, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="eds-release-") as name:
        archive = Path(name, "release.tar")
        git("archive", "--output", str(archive), commit)
        shutil.unpack_archive(archive, name, filter="data")
        yield Path(name)


def git(*arguments: str) -> str:
    process = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True)
    if process.returncode:
        raise Failed(f"git knows no older release to start from: {process.stderr.strip()}")
    return process.stdout


# --- The command ------------------------------------------------------------------------------


def measure(options: argparse.Namespace) -> Report:
    before = RELEASES.get(options.before, options.before) or before_last_migration()
    with ExitStack() as stack:
        older = stack.enter_context(exported(before))
        newer = stack.enter_context(exported(options.after)) if options.after else PROJECT
        service = stack.enter_context(
            cluster.service(older) if options.citus else temporary_service(project=older)
        )
        product = service.create_product()
        old, new = Release("old", service, older), Release("new", service, newer)
        progress(f"Starting {before}.")
        old.start()
        upgrade = Upgrade(old, new, product, options.seed)
        phases = []
        with upgrade.under_way():
            for name, begin in PHASES:
                with upgrade.posted.phase(name) as phase:
                    begin(upgrade)
                    time.sleep(options.seconds / len(PHASES))
                phases.append(phase)
        yield Table("phases", phases)
        yield Result("from", before)
        yield Result("to", options.after or "the working tree")
        yield Result("migrations", ", ".join(upgrade.applied) or "none")
        yield from accounting.settle(upgrade.posted, service.connect)
        new.check()
        posts, reads = upgrade.posted.statuses, upgrade.reader.statuses
        others = posts.total() - posts[202] - posts[503] - posts[None]
        yield Result("posts that got something else than 202 or 503", others, must_be=0)
        yield Result("reads", reads[200])
        yield Result("reads that failed", reads.total() - reads[200], must_be=0)
        yield Result("tracebacks", service.tracebacks(UNKNOWN_TASK), must_be=0)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from",
        dest="before",
        metavar="RELEASE",
        help="a release of the changelog or a commit; by default that before the last migration",
    )
    parser.add_argument(
        "--to", dest="after", metavar="COMMIT", help="the new one; by default the working tree"
    )
    parser.add_argument("--citus", action="store_true", help="on a cluster of three servers")
    parser.add_argument("--seconds", type=float, default=40.0, help="how long to post and read")
    parser.add_argument("--seed", type=int, default=1, help="draws the messages")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
