"""Schedules that can be replayed: the service's own code, with one clock, and a seed that decides
at each statement who goes on, what fails, and who dies. After each schedule, every promise is
checked; a broken one is shrunk to few faults and messages.
"""

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from config.server.parent_death import exit_with_parent
from harness.command import run_command
from harness.processes import Failed
from harness.report import Report, Result, Table, progress
from harness.service import Service, temporary_service

# Nothing outlives the run, and nothing but the schedule decides when a statement ends: nobody else
# takes a lock. A session looks for circles of locks long after the scheduler has held it, because
# the server must not be stopped in the middle of that.
POSTGRES = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "deadlock_timeout": "1s",
    "autovacuum": "off",
    "max_parallel_workers_per_gather": "0",
}
# Sets of strings have the same order in each run.
ENVIRONMENT = {"PYTHONHASHSEED": "0"}
# Broken schedules that are shrunk and shown.
SHOWN = 3
MESSAGES = 5
TOLD_EVERY = 100


# What ``proofs.simulated.running`` prints of a schedule.
Outcome: TypeAlias = dict[str, Any]


class Schedule(NamedTuple):
    """A seed, with how many messages each client sends and which faults happen: None for all."""

    seed: int
    messages: int = MESSAGES
    only: tuple[int, ...] | None = None

    def arguments(self) -> list[str]:
        only = [] if self.only is None else ["--only", *map(str, self.only)]
        return ["--messages", str(self.messages), *only]

    def __str__(self) -> str:
        only = "" if self.only is None else f" --only {' '.join(map(str, self.only))}".rstrip()
        return f"--seed {self.seed} --messages {self.messages}{only}"


def measure(options: argparse.Namespace) -> Report:
    schedule = Schedule(options.seed, options.messages, options.only)
    if options.trace:
        with temporary_service(POSTGRES) as service:
            yield from _report([run_one(service, schedule, "--trace")], shrinks=False)
        return
    seeds = range(options.seed, options.seed + options.seeds)
    outcomes = _read(options.notes, seeds) if options.notes else {}
    if outcomes:
        yield Result("schedules of earlier runs", len(outcomes))
    began, before = time.monotonic(), len(outcomes)
    shares = [seeds[number :: options.processes] for number in range(options.processes)]
    outcomes |= _run([_after(share, outcomes) for share in shares], options)
    rate = 3600 * (len(outcomes) - before) / (time.monotonic() - began)
    yield Result("schedules an hour", rate)
    yield from _report([*outcomes.values()], shrinks=not options.until_broken)


def _read(notes: Path, seeds: range) -> dict[int, Outcome]:
    """What earlier runs noted of these seeds."""
    if not notes.exists():
        return {}
    outcomes = map(json.loads, notes.read_text().splitlines())
    return {outcome["seed"]: outcome for outcome in outcomes if outcome["seed"] in seeds}


def _after(share: range, outcomes: Container[int]) -> range:
    """What is left of a share. Its seeds run in their order."""
    return share[next((i for i, seed in enumerate(share) if seed not in outcomes), len(share)) :]


def _report(outcomes: Sequence[Outcome], shrinks: bool) -> Report:
    yield Result("schedules", len(outcomes))
    yield Result("points", sum(outcome["points"] for outcome in outcomes))
    incidents: Counter[str] = Counter()
    for outcome in outcomes:
        incidents.update(outcome["incidents"])
    for name, number in sorted(incidents.items()):
        yield Result(name, number)
    violated = [outcome for outcome in outcomes if outcome["violations"]]
    if violated and shrinks:
        with temporary_service(POSTGRES) as service:
            rows = [_shrink(service, Schedule(each["seed"]), each) for each in violated[:SHOWN]]
        yield Table("What broke, with the fewest messages and faults that still break it", rows)
    first = f"seed {violated[0]['seed']}: {violated[0]['violations'][-1]}" if violated else "none"
    yield Result("the first broken promise", first, must_be="none")
    yield Result("schedules that break a promise", len(violated), must_be=0)


def _run(shares: Sequence[range], options: argparse.Namespace) -> dict[int, Outcome]:
    """Run the schedules of each share in a process of its own; return what became of them."""
    until = time.time() + options.minutes * 60
    with ThreadPoolExecutor(len(shares)) as executor, ExitStack() as stack:
        processes, cores = [], os.sched_getaffinity(0)
        stack.callback(os.sched_setaffinity, 0, cores)
        for share, core in zip(shares, itertools.cycle(cores), strict=False):
            # On one core, a process and its PostgreSQL hand over to each other sooner.
            os.sched_setaffinity(0, {core})
            service = stack.enter_context(temporary_service(POSTGRES))
            process = stack.enter_context(_started(service, share, "--until", str(until)))
            # Threads wait for what it prints.
            stack.callback(process.kill)
            processes.append(process)
        limits = (options.until_broken, options.notes)
        parts = executor.map(lambda own, share: [*_follow(own, share, *limits)], processes, shares)
        return {outcome["seed"]: outcome for part in parts for outcome in part}


def _follow(
    process: "subprocess.Popen[str]", seeds: range, until_broken: bool, notes: Path | None
) -> Iterator[Outcome]:
    """What becomes of the schedules of a process, one after the other. It is noted, too."""
    assert process.stdout is not None
    with open(notes or os.devnull, "a") as file:
        for number, line in enumerate(process.stdout, 1):
            outcome: Outcome = json.loads(line)
            print(line, end="", file=file, flush=True)
            yield outcome
            if outcome["violations"]:
                progress(f"Seed {outcome['seed']}: {' '.join(outcome['violations'])[:300]}")
                if until_broken:
                    process.terminate()
                    return
            if number % TOLD_EVERY == 0:
                progress(f"{number} of {len(seeds)} schedules of a process.")
    if status := process.wait():
        raise Failed(f"A process that runs schedules ended with {status}.")


def _started(service: Service, seeds: range, *words: str) -> "subprocess.Popen[str]":
    numbers = map(str, (seeds.start, seeds.stop, seeds.step))
    command = [sys.executable, "-m", "proofs.simulated.running", "--seeds", *numbers, *words]
    environment = {**service.environment, **ENVIRONMENT}
    return subprocess.Popen(
        command,
        cwd=service.project,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=exit_with_parent(signal.SIGKILL),
    )


def run_one(service: Service, schedule: Schedule, *words: str) -> Outcome:
    seeds = range(schedule.seed, schedule.seed + 1)
    with _started(service, seeds, *schedule.arguments(), *words) as process:
        output, _ = process.communicate()
    if process.returncode or not output:
        raise Failed(f"The schedule {schedule} did not end.")
    outcome: Outcome = json.loads(output)
    return outcome


def _shrink(service: Service, schedule: Schedule, outcome: Outcome) -> dict[str, Any]:
    """Leave out faults and messages as long as a promise breaks."""
    progress(f"Shrinking the schedule of seed {schedule.seed}.")
    smallest = schedule._replace(only=tuple(range(outcome["faults"])))

    def breaks(smaller: Schedule) -> bool:
        nonlocal smallest, outcome
        tried = run_one(service, smaller)
        if tried["violations"]:
            smallest, outcome = smaller, tried
        return bool(tried["violations"])

    if not breaks(smallest._replace(only=())):
        for fault in range(outcome["faults"]):
            breaks(
                smallest._replace(only=tuple(each for each in smallest.only or () if each != fault))
            )
    while smallest.messages > 1 and breaks(smallest._replace(messages=smallest.messages - 1)):
        pass
    return {
        "replay": f"python -m proofs.schedules --trace {smallest}",
        "what": " ".join(outcome["violations"])[:300],
        "points": outcome["points"],
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long at most")
    parser.add_argument(
        "--notes",
        type=Path,
        help="a file with a line for each schedule: a run that was ended goes on after them, "
        "as long as the code is the same",
    )
    parser.add_argument(
        "--until-broken",
        action="store_true",
        help="end with the first that breaks a promise, and do not shrink it",
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--trace", action="store_true", help="print each point of the first seed")
    parser.add_argument(
        "--messages", type=int, default=MESSAGES, help="that each client sends, for --trace"
    )
    parser.add_argument("--only", type=int, nargs="*", help="the faults that happen, for --trace")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
