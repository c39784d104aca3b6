"""Every promise about speed, one command after the other, and one table of what was measured."""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import (
    accept,
    batch,
    drain,
    fairness,
    license_sync,
    mixed,
    reading,
    rescoring,
    start,
    usual_way,
)
from harness import report
from harness.command import Figures
from harness.report import progress
from harness.service import PROJECT


@dataclass(frozen=True)
class Measured:
    """A figure and its bar: a least one or a most one, the other is None."""

    what: str
    figure: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def is_kept(self) -> bool:
        above = self.at_least is None or self.figure >= self.at_least
        return above and (self.at_most is None or self.figure <= self.at_most)

    @property
    def bar(self) -> str:
        if self.at_least is not None:
            return f"≥ {self.at_least:,g}"
        return f"≤ {self.at_most:,g}"

    @property
    def ratio(self) -> float | None:
        """How much better than its bar the figure is: kept from 1 upwards. None for no ratio."""
        if self.at_least is not None:
            return self.figure / self.at_least
        return self.at_most / self.figure if self.at_most and self.figure > 0 else None


@dataclass(frozen=True)
class Promise:
    """A row of the table of promises: the command that measures it, and what counts of it."""

    name: str
    command: str
    judge: Callable[[Figures], Iterator[Measured]]
    quick: tuple[str, ...] = ()


def judge_accept(figures: Figures) -> Iterator[Measured]:
    for name, share in figures["ratios"].items():
        yield Measured(f"share at {name}", share, at_least=accept.SHARE_OF_EMPTY)
    for one in figures["targets"]:
        if one["target"] == "durable track":
            what = f"p99 / p50 at {one['connections']} connections"
            yield Measured(what, one["p99_over_p50"], at_most=accept.UNEVENNESS)


def judge_usual_way(figures: Figures) -> Iterator[Measured]:
    times = figures["ratios"][usual_way.USUAL]
    yield Measured("times the usual way", times, at_least=usual_way.TIMES_THE_USUAL_WAY)


def judge_batch(figures: Figures) -> Iterator[Measured]:
    most = max(figures["targets"], key=lambda one: int(one["connections"]))["connections"]
    for one in figures["targets"]:
        if one["target"].startswith("batches") and one["connections"] == most:
            rate = one["requests_per_second"] * figures["size"]
            what = f"messages/s in {one['target']}, {most} connections"
            yield Measured(what, rate, at_least=batch.MESSAGES_PER_SECOND)


def judge_drain(figures: Figures) -> Iterator[Measured]:
    for side, what in (("alone", "one process alone"), ("worker", "a worker that also scores")):
        rate = figures[side]["per_second"]
        yield Measured(f"messages/s, {what}", rate, at_least=drain.MESSAGES_PER_SECOND)
    age = figures["worker"]["score_age_max_s"]
    yield Measured("oldest missing score, seconds", age, at_most=drain.OLDEST_SCORE)


def judge_fairness(figures: Figures) -> Iterator[Measured]:
    for one in figures["floods"]:
        what = f"seconds until recorded beside {one['beside']}"
        yield Measured(what, one["longest_s"], at_most=fairness.SECONDS)


def judge_mixed(figures: Figures) -> Iterator[Measured]:
    growth = figures["growth_seconds"]
    yield Measured("growth of the inbox, seconds", growth, at_most=mixed.GROWTH_SECONDS)


def judge_reading(figures: Figures) -> Iterator[Measured]:
    for page in figures["pages"]:
        if page["page"] in reading.COMPARED:
            times = page["large_ms"] / page["small_ms"]
            yield Measured(f"{page['page']}: large / small", times, at_most=reading.TIMES_THE_SMALL)


def judge_rescoring(figures: Figures) -> Iterator[Measured]:
    seconds = figures["seconds"]
    yield Measured("a changed weight, seconds", seconds, at_most=rescoring.SECONDS)


def judge_license_sync(figures: Figures) -> Iterator[Measured]:
    for name in ("first", "unchanged"):
        own, growth = figures[name]["own_ms_per_license"], figures[name]["memory_growth_mb"]
        most = license_sync.OWN_MS_PER_LICENSE
        yield Measured(f"own ms a license, {name} sync", own, at_most=most)
        most = license_sync.MEMORY_GROWTH_MB
        yield Measured(f"memory growth in MB, {name} sync", growth, at_most=most)


def judge_start(figures: Figures) -> Iterator[Measured]:
    seconds = median(figures["again_s"])
    yield Measured("seconds to the first 202", seconds, at_most=start.SECONDS)


SHORT = ("--rounds=1", "--seconds=2")
SMALL = ("--accounts=10000", "--users=30000", "--days=7")
PROMISES = (
    Promise("accept", "accept", judge_accept, SHORT),
    Promise("against the usual way", "usual_way", judge_usual_way, SHORT),
    Promise("batch door", "batch", judge_batch, SHORT),
    Promise("drain", "drain", judge_drain, ("--messages=60000",)),
    Promise("fairness", "fairness", judge_fairness, ("--messages=20000", "--seconds=3")),
    Promise("mixed, end to end", "mixed", judge_mixed, ("--seconds=10",)),
    Promise("reading", "reading", judge_reading, (*SMALL, "--depth=50", "--rounds=10")),
    Promise(
        "rescoring",
        "rescoring",
        judge_rescoring,
        ("--users=5000", "--counts=100000", "--rounds=1"),
    ),
    Promise("license sync", "license_sync", judge_license_sync, ("--licenses=2000",)),
    Promise("start", "start", judge_start, ("--rounds=1",)),
)


def kept(promise: Promise, options: argparse.Namespace) -> tuple[str, ...]:
    """Where the large side of the reading benchmark is or will be, if a folder is named for it."""
    return (f"--keep={options.keep}",) if options.keep and promise.command == "reading" else ()


def run(promise: Promise, options: argparse.Namespace) -> dict[str, Any]:
    """Run the promise's command in a process of its own: what it does wrong ends only itself."""
    progress(f"{promise.name}: python -m benchmarks.{promise.command}")
    arguments = promise.quick if options.quick else kept(promise, options)
    with tempfile.TemporaryDirectory(prefix="eds-figures-") as folder:
        file = Path(folder) / "figures.json"
        command = [sys.executable, "-m", f"benchmarks.{promise.command}", *arguments]
        ended = subprocess.run([*command, "--json", str(file)], cwd=PROJECT, check=False)
        figures = json.loads(file.read_text()) if file.exists() else None
    return {
        "promise": promise.name,
        "command": " ".join((f"python -m benchmarks.{promise.command}", *arguments)),
        "failed": ended.returncode != 0,
        "measured": [] if figures is None else list(promise.judge(figures)),
        "figures": figures,
    }


def table(done: Sequence[dict[str, Any]]) -> str:
    rows = []
    for one in done:
        for measured in one["measured"]:
            kept = "kept" if measured.is_kept else "MISSED"
            figure = report.rounded(measured.figure)
            ratio = "" if measured.ratio is None else report.rounded(measured.ratio)
            rows.append([f"{one['promise']}: {measured.what}", measured.bar, figure, ratio, kept])
        if one["failed"]:
            rows.append([one["promise"], "", "", "", "FAILED, see above"])
    return report.table(["", "bar", "measured", "times the bar", ""], rows)


def as_json(one: dict[str, Any]) -> dict[str, Any]:
    measured = [
        {
            "what": found.what,
            "bar": found.bar,
            "measured": found.figure,
            "times_the_bar": found.ratio,
            "kept": found.is_kept,
        }
        for found in one["measured"]
    ]
    return {**one, "measured": measured}


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    commands = [promise.command for promise in PROMISES]
    parser.add_argument("--only", nargs="+", choices=commands, default=commands, metavar="COMMAND")
    parser.add_argument(
        "--quick", action="store_true", help="a small form: shows that all runs, not how fast"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="have what the reading benchmark generates there, for the next time",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    options = parser.parse_args()
    try:
        done = [run(promise, options) for promise in PROMISES if promise.command in options.only]
    except KeyboardInterrupt:
        sys.exit(130)
    print(f"\n{table(done)}")
    report.save(options.json, "all", {"promises": [as_json(one) for one in done]})
    sys.exit(any(one["failed"] for one in done))


if __name__ == "__main__":
    main()
