"""How much processor time a message takes to record, and to score, here and in another working tree
of this project: the median of rounds that alternate between both.

Each tree has a service of its own. One process drains a filled inbox, and then one scores. What
counts is the time of that process and of PostgreSQL's for it, which other work on the machine
hardly changes.
"""

import argparse
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from harness.command import run_command
from harness.processes import PROJECT, Failed
from harness.report import Report, Result, progress
from harness.service import Service, temporary_service

# Of the other tree's time.
TIMES_THE_OTHER = 1.03
PATIENCE = 900.0


class Side:
    """A service of one tree, and what each of its rounds took, in microseconds a message."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._key: str = service.create_product()["ingestion_key"]
        self.recording: list[float] = []
        self.scoring: list[float] = []

    def run_round(self, messages: int) -> None:
        """Record other messages than each round before, and score what they changed."""
        messages += len(self.recording)
        self._within("fill", str(messages), self._key)
        self.recording.append(self._cost("drain", messages))
        self.scoring.append(self._cost("score_all", messages))

    def _cost(self, command: str, messages: int) -> float:
        took = self._within(command)
        return (took["processor_seconds"] + took["database_seconds"]) * 1e6 / messages

    def _within(self, *arguments: str) -> dict[str, float]:
        return self._service.run_json("-m", "benchmarks.within", *arguments, timeout=PATIENCE)


def measure(options: argparse.Namespace) -> Report:
    if options.before is None:
        raise Failed("Name the folder of the other working tree: --before FOLDER.")
    trees = {"the other tree": options.before.resolve(), "this tree": PROJECT}
    with ExitStack() as stack:
        sides = {
            name: Side(stack.enter_context(temporary_service(project=tree)))
            for name, tree in trees.items()
        }
        for number in range(options.rounds + 1):
            progress(f"Round {number} of {options.rounds}.")
            for name in sorted(sides, reverse=bool(number % 2)):
                sides[name].run_round(options.messages)
    for step, at_most in (("recording", TIMES_THE_OTHER), ("scoring", None)):
        # The first round creates users, accounts, and plans.
        rounds = {name: getattr(side, step)[1:] for name, side in sides.items()}
        for name, costs in rounds.items():
            yield Result(f"{step}, {name}, microseconds a message", median(costs))
            yield Result(f"{step}, {name}, the rounds", " ".join(f"{cost:.1f}" for cost in costs))
        before, now = map(median, rounds.values())
        yield Result(f"{step}, this tree / the other", now / before, at_most=at_most)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--before", type=Path, help="the folder of the other working tree")
    parser.add_argument("--messages", type=int, default=40_000, help="messages a round")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each tree")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
