"""An upgrade: an older release runs, the new one migrates beneath it, runs beside it and takes
over, while clients post and read, and every message is accounted for.

Both releases run in this Python environment, so the older one runs with today's packages.
"""

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from config.local.postgres import stop_process
from harness import accounting
from harness.asking import Reader, status_of
from harness.command import run_command
from harness.posting import Address, Posted, posting
from harness.report import progress, table
from harness.service import (
    HOST,
    PATIENCE,
    PROJECT,
    STOP_TIMEOUT,
    Failed,
    Service,
    celery,
    free_port,
    temporary_service,
    until,
)

# In the order in which they end, which is that of docs/operating.md.
ROLES = ("worker", "beat", "web")


class Release:
    """One release of the service, with a process for each role."""

    def __init__(self, name: str, service: Service, project: Path) -> None:
        self.name = name
        self.address: Address = (HOST, free_port())
        self._service = service
        self._project = project
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def migrate(self) -> list[str]:
        """Bring the tables up to date for this release; the migrations that were applied."""
        self._service.project = self._project
        said = self._service.run("manage.py", "migrate", "--no-color")
        return re.findall(r"Applying (\S+?)\.\.\. OK", said)

    def start(self) -> None:
        self._service.project = self._project
        host, port = self.address
        commands = {
            # Two workers on one machine need names of their own.
            "worker": celery("config", "worker", "--hostname", f"{self.name}@%h"),
            "beat": celery("config", "beat"),
            "web": [sys.executable, "manage.py", "serve", "--host", host, "--port", str(port)],
        }
        for role in ROLES:
            self._processes[role] = self._service.start(f"{self.name} {role}", commands[role])
        until(self._is_ready, f"the {self.name} release to be ready", PATIENCE)

    def stop(self) -> None:
        """End its roles as a service manager would."""
        for role in ROLES:
            stop_process(self._processes.pop(role), signal.SIGTERM, timeout=STOP_TIMEOUT)

    def check(self) -> None:
        """Failed where a role ended by itself."""
        for role, process in self._processes.items():
            if process.poll() is not None:
                last = self._service.last_lines(f"{self.name} {role}")
                raise Failed(f"The {self.name} {role} ended by itself:\n{last}")

    def tracebacks(self) -> int:
        """How many errors its roles have logged with a traceback."""
        return sum(self._service.output(f"{self.name} {r}").count("Traceback (") for r in ROLES)

    def _is_ready(self) -> bool:
        self.check()
        return status_of(self.address, "/readyz") == 200


class Upgrade:
    """An old release that is replaced by a new one while clients post to both and read."""

    def __init__(self, old: Release, new: Release, made: dict[str, Any], seed: int) -> None:
        self.posted = Posted()
        self.reader = Reader(made["api_token"], made["workspace_id"])
        self.applied: list[str] = []
        self._old, self._new = old, new
        self._key = made["ingestion_key"]
        self._seed = seed
        self._clients = ExitStack()

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Clients post and read as long as the block runs, first the old release alone."""
        self.reader.addresses.append(self._old.address)
        with self.reader.reading(), self._clients:
            # They go on to the new release where their connections break.
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


# --- The two releases -------------------------------------------------------------------------


def before_last_migration() -> str:
    """The commit before the last one that changed the tables."""
    return git("log", "-1", "--format=%h^", "--", "*/migrations/0*.py").strip()


@contextmanager
def exported(commit: str) -> Iterator[Path]:
    """The project as it was at the commit, in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="eds-release-"))
    try:
        archive = folder / "release.tar"
        git("archive", "--output", str(archive), commit)
        shutil.unpack_archive(archive, folder, filter="data")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def git(*arguments: str) -> str:
    ended = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, text=True)
    if ended.returncode:
        raise Failed(f"git knows no older release to start from: {ended.stderr.strip()}")
    return ended.stdout


# --- The command ------------------------------------------------------------------------------


def measure(options: argparse.Namespace) -> dict[str, Any]:
    before = options.before or before_last_migration()
    with ExitStack() as stack:
        older = stack.enter_context(exported(before))
        newer = stack.enter_context(exported(options.after)) if options.after else PROJECT
        service = stack.enter_context(temporary_service(project=older))
        made = service.create_product()
        old, new = Release("old", service, older), Release("new", service, newer)
        progress(f"Starting {before}.")
        old.start()
        upgrade = Upgrade(old, new, made, options.seed)
        with upgrade.under_way():
            phases = [_pass(service, upgrade, *phase, options) for phase in PHASES]
        progress(f"{len(upgrade.posted.acknowledged):,} tracks answered with 202; settling.")
        settled_after = accounting.until_settled(service.connect)
        new.check()
        accounted = accounting.account_for(upgrade.posted, service.connect())
        tracebacks = old.tracebacks() + new.tracebacks()
    return {
        "before": before,
        "after": options.after or "the working tree",
        "migrations": upgrade.applied,
        "phases": phases,
        "run": {"broker": "upgrade", **accounted, "settled_after_s": settled_after},
        "posts": _by_status(upgrade.posted.statuses),
        "reads": _by_status(upgrade.reader.statuses),
        "tracebacks": tracebacks,
    }


def _pass(
    service: Service,
    upgrade: Upgrade,
    name: str,
    begin: Callable[[Upgrade], None],
    options: argparse.Namespace,
) -> dict[str, Any]:
    progress(f"{name}.")
    posted = upgrade.posted
    before, posted.longest = _answers(posted), 0.0
    begin(upgrade)
    time.sleep(options.seconds / len(PHASES))
    gained = {answer: number - before[answer] for answer, number in _answers(posted).items()}
    return {"phase": name, **gained, "longest_s": posted.longest}


def _answers(posted: Posted) -> dict[str, int]:
    with posted.lock:
        return {
            "202": posted.statuses[202],
            "503": posted.statuses[503],
            "unanswered": len(posted.unanswered),
        }


def _by_status(statuses: Counter[Any]) -> dict[str, int]:
    return {str(status): number for status, number in statuses.items()}


def show(figures: dict[str, Any]) -> None:
    print(f"From {figures['before']} to {figures['after']}, with the migrations:")
    print("\n".join(f"  {name}" for name in figures["migrations"] or ["none"]) + "\n")
    heads = ["while", "202", "503", "unanswered", "longest 202"]
    rows = [
        [
            phase["phase"],
            *(f"{phase[answer]:,}" for answer in ("202", "503", "unanswered")),
            f"{phase['longest_s']:.2f} s",
        ]
        for phase in figures["phases"]
    ]
    print(f"{table(heads, rows)}\n")
    run = figures["run"]
    rows = [
        *accounting.rows([run]),
        ["reads answered with 200", f"{figures['reads'].get('200', 0):,}"],
        ["tracebacks in the logs", f"{figures['tracebacks']:,}"],
        ["settled after, seconds", f"{run['settled_after_s']:.1f}"],
    ]
    print(table(["", "in the end"], rows))


def faults(figures: dict[str, Any]) -> list[str]:
    posts, reads = figures["posts"], figures["reads"]
    return [
        *accounting.faults(figures["run"]),
        *(f"{posts[s]:,} posts were answered with {s}." for s in posts if s not in ("202", "503")),
        *(f"{reads[s]:,} reads were answered with {s}." for s in reads if s != "200"),
        *(["A release logged errors."] if figures["tracebacks"] else []),
    ]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from",
        dest="before",
        metavar="COMMIT",
        help="the older release; by default the commit before the last migration",
    )
    parser.add_argument(
        "--to", dest="after", metavar="COMMIT", help="the new one; by default the working tree"
    )
    parser.add_argument("--seconds", type=float, default=40.0, help="how long to post and read")
    parser.add_argument("--seed", type=int, default=1, help="draws the messages")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure, show, faults)
