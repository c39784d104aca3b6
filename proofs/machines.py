"""Many machines: roles with an address each share one PostgreSQL and one broker. While clients
post, machines fail in turns or, in network namespaces, are cut off; every message is accounted for.
"""

import argparse
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from harness import accounting
from harness.brokers import BROKERS
from harness.command import run_command
from harness.fleet import NAMES, WEBS, Machines, Watch, held_up, recorded_up_to_now
from harness.networks import Loopback, Namespaces, why_not
from harness.posting import Posted, posting
from harness.report import progress, table
from harness.service import PATIENCE, Failed, until

# What happens in a step. What it returns, if anything, is watched until it comes true.
Begin = Callable[[Machines], Watch | None]

SECONDS = 80.0
FAILURES: tuple[tuple[str, Begin], ...] = (
    ("all run", lambda machines: None),
    ("worker 1 killed", lambda machines: machines.kill("worker 1")),
    ("worker 2 hangs too", lambda machines: machines.signal("worker 2", signal.SIGSTOP)),
    ("worker 2 goes on", lambda machines: machines.signal("worker 2", signal.SIGCONT)),
    ("broker stopped", lambda machines: machines.stop_broker()),
    ("broker back and empty", lambda machines: machines.start_broker()),
    ("worker 1 back", lambda machines: machines.start("worker 1")),
    ("web 1 killed", lambda machines: machines.kill("web 1")),
)


def cut_off(name: str) -> Begin:
    def begin(machines: Machines) -> None:
        cutting(machines).cut_off(name)

    return begin


def cut_off_in_the_middle(worker: str) -> Begin:
    """Cut the worker off while it holds messages that it claimed; watch until all that were in the
    inbox then are recorded, by others."""

    def begin(machines: Machines) -> Watch:
        with held_up(machines):
            until(lambda: machines.is_held_up(worker), f"{worker} to drain", PATIENCE)
            cutting(machines).cut_off(worker)
            return recorded_up_to_now(machines)

    return begin


def rejoin(name: str, watch: Callable[[Machines], Watch]) -> Begin:
    def begin(machines: Machines) -> Watch:
        cutting(machines).rejoin(name)
        return watch(machines)

    return begin


def asks_the_database(name: str) -> Callable[[Machines], Watch]:
    def watch(machines: Machines) -> Watch:
        now = time.time()
        return lambda: machines.has_asked_since(name, now)

    return watch


def is_ready(web: str) -> Callable[[Machines], Watch]:
    return lambda machines: lambda: machines.is_ready(web)


def cutting(machines: Machines) -> Namespaces:
    assert isinstance(machines.network, Namespaces)
    return machines.network


SECONDS_OF_CUTS = 270.0
CUTS: tuple[tuple[str, Begin], ...] = (
    ("all run", lambda machines: None),
    ("worker 1 cut off while it drains", cut_off_in_the_middle("worker 1")),
    ("worker 1 back", rejoin("worker 1", asks_the_database("worker 1"))),
    ("broker cut off", cut_off("broker")),
    ("broker back", rejoin("broker", recorded_up_to_now)),
    ("web 1 cut off", cut_off("web 1")),
    ("web 1 back", rejoin("web 1", is_ready("web 1"))),
    ("PostgreSQL cut off", cut_off("postgres")),
    ("PostgreSQL back", rejoin("postgres", recorded_up_to_now)),
)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    broker = BROKERS[options.broker]
    steps = CUTS if options.namespaces else FAILURES
    seconds = (options.seconds or (SECONDS_OF_CUTS if options.namespaces else SECONDS)) / len(steps)
    with ExitStack() as stack:
        network: Loopback = Loopback(NAMES)
        if options.namespaces:
            if reason := why_not():
                raise Failed(f"Machines cannot be cut off here: {reason}.")
            network = stack.enter_context(Namespaces(NAMES).made())
        progress(f"Starting {broker.name}, two web servers, two workers and two beats.")
        machines = Machines(network, broker, stack)
        key = machines.service.create_product()["ingestion_key"]
        machines.start_all()
        # Half of the clients prefer each web server.
        one, other = (machines.addresses[name] for name in WEBS)
        with posting([(one, other), (other, one)], key, options.seed) as posted:
            phases = [_pass(machines, posted, *step, seconds) for step in steps]
        progress(f"{len(posted.acknowledged):,} tracks answered with 202; settling.")
        settled_after = accounting.until_settled(machines.service.connect)
        if ended := machines.ended():
            raise Failed(f"{ended[0]} ended by itself:\n{machines.service.last_lines(ended[0])}")
        accounted = accounting.account_for(posted, machines.service.connect())
    run = {"broker": broker.name, **accounted, "settled_after_s": settled_after}
    return {"phases": phases, "run": run}


def _pass(
    machines: Machines, posted: Posted, name: str, begin: Begin, seconds: float
) -> dict[str, Any]:
    progress(f"{name}.")
    before = _answers(posted)
    posted.longest_answer = 0.0
    watch = begin(machines)
    came_true_after = _watch(watch, seconds)
    after = _answers(posted)
    gained = {answer: after[answer] - before[answer] for answer in after}
    return {
        "phase": name,
        **gained,
        "in_the_inbox": machines.waiting(),
        "longest_answer_s": posted.longest_answer,
        "watched": watch is not None,
        "came_true_after_s": came_true_after,
    }


def _watch(watch: Watch | None, seconds: float) -> float | None:
    """Pass so many seconds; after how many of them what is watched came true, if it did."""
    began = time.monotonic()
    came_true_after: float | None = None
    while (passed := time.monotonic() - began) < seconds:
        if watch and came_true_after is None and watch():
            came_true_after = passed
            progress(f"  … as before after {passed:.1f} s.")
        time.sleep(0.1)
    return came_true_after


def _answers(posted: Posted) -> dict[str, int]:
    """How many tracks were answered in which way until now."""
    with posted.lock:
        return {
            "acknowledged": len(posted.acknowledged),
            "refused": len(posted.refused),
            "unanswered": len(posted.unanswered),
        }


def show(figures: dict[str, Any]) -> None:
    names = ("acknowledged", "refused", "unanswered", "in_the_inbox")
    heads = ["tracks, while", *(name.replace("_", " ") for name in names)]
    heads += ["longest answer, s", "as before after, s"]
    rows = [
        [
            phase["phase"],
            *(f"{phase[name]:,}" for name in names),
            f"{phase['longest_answer_s']:.1f}",
            _came_true(phase),
        ]
        for phase in figures["phases"]
    ]
    print(f"{table(heads, rows)}\n")
    run = figures["run"]
    settled = ["settled after, seconds", f"{run['settled_after_s']:.1f}"]
    print(table(["", run["broker"]], [*accounting.rows([run]), settled]))


def _came_true(phase: dict[str, Any]) -> str:
    if not phase["watched"]:
        return ""
    after = phase["came_true_after_s"]
    return "never" if after is None else f"{after:.1f}"


def faults(figures: dict[str, Any]) -> list[str]:
    return accounting.faults(figures["run"])


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, help="how long to post and fail")
    parser.add_argument("--broker", choices=[*BROKERS], default="redis")
    parser.add_argument("--seed", type=int, default=1, help="draws the messages")
    parser.add_argument(
        "--namespaces",
        action="store_true",
        help="cut machines off the network instead, which needs root and ip",
    )


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure, show, faults)
