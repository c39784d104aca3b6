"""Nothing acknowledged is lost when the power goes: clients post to ``up`` on a disk that forgets
what nobody synced, and the power goes at random moments, of starts too.

The controls show that the proof sees losses: with PostgreSQL's ``synchronous_commit`` off, and on a
disk that only says that it syncs, messages must be missing. Needs root and FUSE.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, LiteralString

import psutil

from harness import accounting
from harness.command import run_command
from harness.database import number
from harness.http import Client, basic, bearer
from harness.marketplace.server import Simulator
from harness.posting import Posted, add_posting_arguments, posting
from harness.power import Disk, disk
from harness.processes import PROJECT, Failed, running
from harness.report import Report, Result, progress
from harness.service import copy_migrated_cluster, own_environment, temporary_folder
from harness.threads import repeating
from harness.whole import Whole, starting
from proofs.power_targets import (
    cut_a_backup,
    cut_a_cluster,
    cut_a_replica,
    cut_migrations,
    cut_the_database,
)

# Seconds: how long clients post before a cut, and how long after its beginning a start is cut.
POSTING, STARTING = (0.5, 6.0), (0.2, 8.0)
FIRST_START = (0.2, 30.0)
# One cut of so many hits a start.
STARTS = 3
# Seconds between two users that are forgotten; licenses in the marketplace.
FORGETTING, LICENSES = 0.3, 120


def measure(options: argparse.Namespace) -> Report:
    chance = random.Random(options.seed)
    if options.cuts:
        yield from cut_while_posting(options, chance)
    if options.first_starts:
        yield from cut_first_starts(options.first_starts, chance)
    for each in range(options.backups):
        with disk() as data, logs() as log:
            yield from cut_a_backup(f"backup {each + 1}", data, prepare(data), log, chance)
    for each in range(options.migrations):
        with disk() as data, logs() as log:
            yield from cut_migrations(f"upgrade {each + 1}", data, log, chance)
    if options.database:
        yield from cut_the_database(options.database, chance)
    if options.replica:
        yield from cut_a_replica(options.replica, chance)
    if options.cluster:
        yield from cut_a_cluster(options.cluster, chance)
    if options.controls:
        yield from control(options, "a disk that lies", chance, lies=True)


def cut_while_posting(options: argparse.Namespace, chance: random.Random) -> Report:
    """Cut the power of a service that runs or starts, as often as the options say, and account for
    all that it acknowledged."""
    posted = Posted()
    with disk() as data, logs() as log, People(data.folder / "exports") as people:
        Path(people.settings["EDS_EXPORT_FOLDER"]).mkdir()
        folder = prepare(data)
        with starting(folder, log, **people.settings) as service:
            service.wait_until_ready()
            people.begin(service)
        hits = {"while it ran": 0, "while it started": 0}
        for each in range(options.cuts):
            progress(f"Cut {each + 1} of {options.cuts}.")
            if chance.randrange(STARTS):
                with starting(folder, log, **people.settings) as service:
                    service.wait_until_ready()
                    with people.asking(service, chance):
                        post_until_a_cut(data, service, posted, options.pause, chance)
                hits["while it ran"] += 1
            else:
                cut_a_start(data, folder, log, chance, STARTING)
                hits["while it started"] += 1
        for name, count in hits.items():
            yield Result(f"power cut {name}", count)
        with starting(folder, log, **people.settings) as service:
            service.wait_until_ready()
            with service.explained():
                yield from accounting.settle(posted, service.connect)
                yield from people.check(service)


class People:
    """People who forget users, export, and change and sync licenses while the power goes."""

    def __init__(self, exports: Path) -> None:
        self.forgotten: set[str] = set()
        self._numbers = count(1)
        self._key = ""
        self._marketplace = Simulator.with_licenses(LICENSES, today=datetime.now(UTC).date())
        self.settings = {
            "MARKETPLACE_API_URL": self._marketplace.url,
            "EDS_EXPORT_FOLDER": str(exports),
        }

    def __enter__(self) -> "People":
        self._marketplace.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._marketplace.__exit__(*error)

    def _command(self, step: str) -> list[str]:
        return [sys.executable, "-m", "proofs.people", step]

    def _run(self, service: Whole, step: str) -> dict[str, Any]:
        environment = own_environment(service.folder, **self.settings)
        run = subprocess.run(
            self._command(step), cwd=PROJECT, env=environment, capture_output=True, text=True
        )
        if run.returncode:
            raise Failed(f"People could not {step}: {run.stderr[-2000:]}")
        result: dict[str, Any] = json.loads(run.stdout)
        return result

    def begin(self, service: Whole) -> None:
        self._key = self._run(service, "begin")["forget key"]

    @contextmanager
    def asking(self, service: Whole, chance: random.Random) -> Iterator[None]:
        """They do all of it until the block ends, and some licenses are other ones than before."""
        today = datetime.now(UTC).date()
        self._marketplace.feed.touch(20, today, tier=f"{chance.randrange(1, 900)} Users")
        environment = own_environment(service.folder, **self.settings)
        with (
            running(self._command("ask"), service.output, environment, grace=0),
            repeating(lambda: self._forget(service), pause=FORGETTING),
        ):
            yield

    def _forget(self, service: Whole) -> None:
        name = f"leaver-{next(self._numbers)}"
        body = json.dumps({"userId": name})
        with (
            closing(Client(service.address, headers=basic(service.key))) as client,
            closing(Client(service.address, headers=bearer(self._key))) as forgetter,
        ):
            response = client.request("POST", "/v2/identify", body)
            if response and response.status == 202:
                erased = forgetter.request("POST", "/v2/forget", body)
                if erased and erased.status == 200:
                    self.forgotten.add(name)

    def check(self, service: Whole) -> Report:
        for name, value in self._run(service, "check").items():
            is_count = name.endswith(("written", "succeeded", "licenses"))
            yield Result(name, value, must_be=None if is_count else 0)
        yield Result("users that were forgotten", len(self.forgotten))
        with service.connect() as database:
            count_known = number(database, _KNOWN, list(self.forgotten))
        yield Result("of these known again", count_known, must_be=0)


_KNOWN: LiteralString = "SELECT count(*) FROM engagement_user WHERE external_id = ANY(%s)"


def cut_first_starts(number: int, chance: random.Random) -> Report:
    """Cut the power of an empty folder's first start: the next start must come up by itself."""
    failures = 0
    for each in range(number):
        with disk() as data, logs() as log:
            folder = data.folder / "data"
            folder.mkdir()
            data.make_durable()
            seconds = cut_a_start(data, folder, log, chance, FIRST_START)
            progress(f"First start {each + 1}: cut after {seconds:.1f} s.")
            posted = Posted()
            with starting(folder, log) as service:
                try:
                    service.wait_until_ready()
                except Failed as failure:
                    progress(str(failure))
                    failures += 1
                    continue
                with posting([[service.address]], service.key, 1, posted):
                    time.sleep(1)
                yield from accounting.settle(posted, service.connect, f"first start {each + 1}")
    yield Result("first starts that were cut", number)
    yield Result("starts after these that failed", failures, must_be=0)


def control(options: argparse.Namespace, name: str, chance: random.Random, *, lies: bool) -> Report:
    """The same with a disk that loses: a proof that sees no loss there would be no proof."""
    losses = 0
    for _ in range(options.controls):
        posted = Posted()
        with disk(lies=lies) as data, logs() as log:
            folder = prepare(data)
            with starting(folder, log) as service:
                service.wait_until_ready()
                post_until_a_cut(data, service, posted, options.pause, chance)
            losses += not survives(folder, log, posted)
    yield Result(f"control, {name}: runs with a loss", losses, must_be=options.controls)


def survives(folder: Path, log: Path, posted: Posted) -> bool:
    """Whether the service starts and has all that it acknowledged."""
    try:
        with starting(folder, log) as service:
            service.wait_until_ready()
            results = list(accounting.settle(posted, service.connect))
    except Failed:
        return False
    return not any(isinstance(part, Result) and part.is_wrong for part in results)


def post_until_a_cut(
    data: Disk, service: Whole, posted: Posted, pause: float, chance: random.Random
) -> None:
    doors = [[service.address]]
    with posting(doors, service.key, chance.randrange(10**6), posted, pause):
        time.sleep(chance.uniform(*POSTING))
        cut(data, service, chance)


def cut_a_start(
    data: Disk, folder: Path, log: Path, chance: random.Random, within: tuple[float, float]
) -> float:
    """Cut the power some seconds after the service began to start; how many."""
    seconds = chance.uniform(*within)
    with starting(folder, log) as service:
        time.sleep(seconds)
        cut(data, service, chance)
    return seconds


def cut(data: Disk, service: Whole, chance: random.Random) -> None:
    data.cut(str(chance.random()), psutil.Process(service.process.pid))


def prepare(data: Disk) -> Path:
    """A data folder with the files of a migrated PostgreSQL, if there are any, all durable."""
    folder = data.folder / "data"
    folder.mkdir(mode=0o711)
    copy_migrated_cluster(folder)
    data.make_durable()
    return folder


@contextmanager
def logs() -> Iterator[Path]:
    """Where the service's output goes: not to the disk whose power goes."""
    with temporary_folder() as folder:
        yield folder / "up.log"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cuts", type=int, default=30, help="how often the power goes")
    parser.add_argument("--first-starts", type=int, default=5, help="how many of an empty folder")
    parser.add_argument("--backups", type=int, default=3, help="how many, each with its restore")
    parser.add_argument("--migrations", type=int, default=3, help="how many upgrades")
    parser.add_argument("--database", type=int, default=20, help="how often its machine's goes")
    parser.add_argument("--replica", type=int, default=10, help="how often a replica's power goes")
    parser.add_argument("--cluster", type=int, default=0, help="how often that of a cluster goes")
    parser.add_argument("--controls", type=int, default=1, help="runs of each control")
    add_posting_arguments(parser, "the messages, the moments, and what is lost")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
