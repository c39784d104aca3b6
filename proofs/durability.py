"""Nothing lost, nothing doubled: posts messages while processes are killed at random, and accounts
for every one that got 202.
"""

import argparse
import random
import signal
import time
from collections import Counter
from contextlib import ExitStack, suppress

import psutil

from harness import accounting, cluster, whole
from harness.brokers import BROKERS, Broker
from harness.command import run_command
from harness.posting import CLIENTS, add_posting_arguments, posting
from harness.processes import until
from harness.report import Report, Result, progress
from harness.service import database_url, secrets_of_a_run, temporary_folder
from harness.whole import Whole

# Seconds between two kills: drawn from this range.
PAUSE = (1.5, 5.0)


def measure(options: argparse.Namespace) -> Report:
    names = list(BROKERS) if options.broker == "all" else [options.broker]
    for name in names:
        yield from prove(BROKERS[name], options)


def prove(broker: Broker, options: argparse.Namespace) -> Report:
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        url = stack.enter_context(broker.started(folder))
        settings = {"CELERY_BROKER_URL": url} if url else {}
        servers = stack.enter_context(cluster.connected(folder)) if options.citus else None
        if servers:
            address = servers.coordinator.address
            settings |= {"DATABASE_URL": database_url(address), **secrets_of_a_run()}
        with whole.running(**settings) as service:
            service.cluster = servers
            seconds = options.minutes * 60
            progress(f"{broker.name}: {CLIENTS} clients post for {seconds:.0f} s.")
            with posting(
                [[service.address]], service.key, options.seed, pause=options.pause
            ) as posted:
                kills = kill_at_random(service, seconds, options.kills, random.Random(options.seed))
            for role, count in sorted(kills.items()):
                yield Result(f"{broker.name}: {role} killed", count)
            with service.explained():
                yield from accounting.settle(posted, service.connect, broker.name)
            if servers:
                until(lambda: servers.prepared() == 0, "prepared transactions to be finished")


def kill_at_random(
    service: Whole, seconds: float, at_least: int, chance: random.Random
) -> Counter[str]:
    """Kill a process of any role now and then, until the time is over."""
    kills: Counter[str] = Counter()
    deadline = time.monotonic() + seconds
    while (remaining := deadline - time.monotonic()) > 0 or kills.total() < at_least:
        time.sleep(max(0.1, min(remaining, chance.uniform(*PAUSE))))
        service.check()
        victims = service.processes()
        if not victims or (time.monotonic() >= deadline and kills.total() >= at_least):
            continue
        role = chance.choice(sorted(victims))
        with suppress(psutil.Error):
            chance.choice(victims[role]).send_signal(signal.SIGKILL)
            kills[role] += 1
    return kills


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to post and kill")
    parser.add_argument("--kills", type=int, default=1, help="how many processes to kill at least")
    parser.add_argument("--broker", choices=[*BROKERS, "all"], default="postgresql")
    parser.add_argument(
        "--citus", action="store_true", help="on a cluster, whose servers are killed, too"
    )
    add_posting_arguments(parser, "the messages and the kills")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
