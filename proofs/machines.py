"""Many machines: roles with an address each share one PostgreSQL and one broker. While clients
post, machines fail in turn or, in network namespaces, are cut off. Every message is accounted for.
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
from harness.posting import Posted, add_posting_arguments, posting
from harness.processes import Failed, until
from harness.report import Report, Table, progress

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
            until(lambda: machines.is_held_up(worker), f"{worker} to drain")
            cutting(machines).cut_off(worker)
            return recorded_up_to_now(machines)

    return begin


def rejoin(name: str, watch: Callable[[Machines], Watch]) -> Begin:
    def begin(machines: Machines) -> Watch:
        cutting(machines).rejoin(name)
        return watch(machines)

    return begin


def is_active(name: str) -> Callable[[Machines], Watch]:
    def watch(machines: Machines) -> Watch:
        now = time.time()
        return lambda: machines.is_active_since(name, now)

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
    ("worker 1 back", rejoin("worker 1", is_active("worker 1"))),
    ("broker cut off", cut_off("broker")),
    ("broker back", rejoin("broker", recorded_up_to_now)),
    ("web 1 cut off", cut_off("web 1")),
    ("web 1 back", rejoin("web 1", is_ready("web 1"))),
    ("PostgreSQL cut off", cut_off("postgres")),
    ("PostgreSQL back", rejoin("postgres", recorded_up_to_now)),
)


def measure(options: argparse.Namespace) -> Report:
    broker = BROKERS[options.broker]
    steps = CUTS if options.namespaces else FAILURES
    seconds = (options.seconds or (SECONDS_OF_CUTS if options.namespaces else SECONDS)) / len(steps)
    if options.citus and options.namespaces:
        raise Failed("Servers of a cluster cannot be cut off: choose --citus or --namespaces.")
    with ExitStack() as stack:
        network: Loopback = Loopback(NAMES)
        if options.namespaces:
            if reason := why_not():
                raise Failed(f"Machines cannot be cut off here: {reason}.")
            network = stack.enter_context(Namespaces(NAMES).created())
        progress(f"Starting {broker.name}, two web servers, two workers, and two beats.")
        machines = Machines(network, broker, stack, options.citus)
        key = machines.service.create_product()["ingestion_key"]
        machines.start_all()
        # Half of the clients prefer each web server.
        first, second = (machines.addresses[name] for name in WEBS)
        with posting(
            [(first, second), (second, first)], key, options.seed, pause=options.pause
        ) as posted:
            phases = [take(step, machines, posted, seconds) for step in steps]
        yield Table("phases", phases)
        yield from accounting.settle(posted, machines.service.connect, broker.name)
        if ended := machines.ended():
            raise Failed(f"{ended[0]} ended by itself:\n{machines.service.last_lines(ended[0])}")


def take(
    step: tuple[str, Begin], machines: Machines, posted: Posted, seconds: float
) -> dict[str, Any]:
    """Begin the step and let some seconds pass. Return what clients got meanwhile."""
    name, begin = step
    with posted.phase(name) as phase:
        watch = begin(machines)
        began = time.monotonic()
        # Nothing, or the seconds after which what is watched came true.
        phase["as before after, s"] = "never" if watch else None
        while (passed := time.monotonic() - began) < seconds:
            if phase["as before after, s"] == "never" and watch and watch():
                phase["as before after, s"] = passed
                progress(f"  … as before after {passed:.1f} s.")
            time.sleep(0.1)
        phase["in the inbox"] = machines.waiting()
    return phase


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, help="how long to post and fail")
    parser.add_argument("--broker", choices=[*BROKERS], default="redis")
    add_posting_arguments(parser)
    parser.add_argument("--citus", action="store_true", help="on a cluster of three servers")
    parser.add_argument(
        "--namespaces",
        action="store_true",
        help="cut machines off the network instead, which needs root and ip",
    )


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
