"""Nothing acknowledged is lost when the power goes: clients post to ``up`` on a disk that forgets
what nobody synced, and the power goes at random moments, of starts too.

The controls show that the proof sees losses: with PostgreSQL's ``synchronous_commit`` off, and on a
disk that only says that it syncs, messages must be missing. Needs root and FUSE.
"""

import argparse
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from harness import accounting
from harness.command import run_command
from harness.posting import Posted, add_posting_arguments, posting
from harness.power import Disk, disk
from harness.processes import Failed
from harness.report import Report, Result, progress
from harness.service import copy_migrated_cluster, temporary_folder
from harness.whole import Whole, starting

# Seconds: how long clients post before a cut, and how long after its beginning a start is cut.
POSTING, STARTING = (0.5, 6.0), (0.2, 8.0)
FIRST_START = (0.2, 30.0)
# One cut of so many hits a start.
STARTS = 3


def measure(options: argparse.Namespace) -> Report:
    chance = random.Random(options.seed)
    yield from cut_while_posting(options, chance)
    for number in range(options.first_starts):
        yield from cut_the_first_start(f"first start {number + 1}", chance)
    if options.controls:
        yield from control(options, "a disk that lies", chance, lies=True)


def cut_while_posting(options: argparse.Namespace, chance: random.Random) -> Report:
    """Cut the power of a service that runs or starts, as often as the options say, and account for
    all that it acknowledged."""
    posted = Posted()
    with disk() as data, logs() as log:
        folder = prepare(data)
        hits = {"while it ran": 0, "while it started": 0}
        for number in range(options.cuts):
            progress(f"Cut {number + 1} of {options.cuts}.")
            if chance.randrange(STARTS):
                post_until_a_cut(data, folder, log, posted, options.pause, chance)
                hits["while it ran"] += 1
            else:
                cut_a_start(data, folder, log, chance, STARTING)
                hits["while it started"] += 1
        for name, count in hits.items():
            yield Result(f"power cut {name}", count)
        with starting(folder, log) as service:
            service.wait_until_ready()
            with service.explained():
                yield from accounting.settle(posted, service.connect)


def cut_the_first_start(name: str, chance: random.Random) -> Report:
    """Cut the power of an empty folder's first start: the next start must come up by itself."""
    with disk() as data, logs() as log:
        folder = data.folder / "data"
        folder.mkdir()
        data.make_durable()
        seconds = cut_a_start(data, folder, log, chance, FIRST_START)
        progress(f"{name}: cut after {seconds:.1f} s.")
        posted = Posted()
        with starting(folder, log) as service:
            service.wait_until_ready()
            with posting([[service.address]], service.key, 1, posted):
                time.sleep(1)
            yield from accounting.settle(posted, service.connect, name)


def control(options: argparse.Namespace, name: str, chance: random.Random, *, lies: bool) -> Report:
    """The same with a disk that loses: a proof that sees no loss there would be no proof."""
    losses = 0
    for _ in range(options.controls):
        posted = Posted()
        with disk(lies=lies) as data, logs() as log:
            folder = prepare(data)
            post_until_a_cut(data, folder, log, posted, options.pause, chance)
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
    data: Disk, folder: Path, log: Path, posted: Posted, pause: float, chance: random.Random
) -> None:
    with starting(folder, log) as service:
        service.wait_until_ready()
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
    parser.add_argument("--controls", type=int, default=1, help="runs of each control")
    add_posting_arguments(parser, "the messages, the moments, and what is lost")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
