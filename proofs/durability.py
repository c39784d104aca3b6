"""Nothing lost, nothing doubled: posts messages while processes are killed at random, and accounts
for every one that was answered with 202.
"""

import argparse
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil

from harness import accounting
from harness.brokers import BROKERS, Broker
from harness.command import run_command
from harness.posting import CLIENTS, posting
from harness.report import progress, table
from harness.service import HOST, Failed
from harness.whole import Whole, starting, temporary_folder

# Seconds between two kills: drawn from this range.
PAUSE = (1.5, 5.0)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    brokers = list(BROKERS) if options.broker == "all" else [options.broker]
    return {"runs": [_prove(BROKERS[name], options.minutes * 60, options.seed) for name in brokers]}


def _prove(broker: Broker, seconds: float, seed: int) -> dict[str, Any]:
    with running(broker) as service:
        progress(f"{broker.name}: {CLIENTS} clients post for {seconds:.0f} s.")
        addresses = [(HOST, service.port)]
        with posting([addresses], service.key, seed) as posted:
            kills = _kill_at_random(service, time.monotonic() + seconds, random.Random(seed))
        progress(f"{broker.name}: {len(posted.acknowledged):,} answered with 202; settling.")
        try:
            settled_after = accounting.until_settled(service.connect)
        except Failed as failed:
            raise Failed(f"{failed} The service said:\n{service.log()}") from None
        with service.connect() as database:
            accounted = accounting.account_for(posted, database)
        return {"broker": broker.name, "kills": dict(kills), **accounted} | {
            "settled_after_s": settled_after
        }


# --- The service under test -----------------------------------------------------------------


@contextmanager
def running(broker: Broker) -> Iterator[Whole]:
    """The service with the broker; both stopped by their process ids in the end."""
    with temporary_folder() as folder, broker.started(folder) as address:
        settings = {"CELERY_BROKER_URL": address} if address else {}
        with starting(folder, Whole, **settings) as service:
            service.wait_until_ready()
            yield service


# --- Killing --------------------------------------------------------------------------------


def _kill_at_random(service: Whole, until_time: float, chance: random.Random) -> Counter[str]:
    kills: Counter[str] = Counter()
    while (left := until_time - time.monotonic()) > 0:
        time.sleep(min(left, chance.uniform(*PAUSE)))
        if service.process.poll() is not None:
            raise Failed(f"`up` ended by itself:\n{service.log()}")
        victims = service.processes()
        if not victims or time.monotonic() >= until_time:
            continue
        role = chance.choice(sorted(victims))
        with suppress(psutil.Error):
            chance.choice(victims[role]).send_signal(signal.SIGKILL)
            kills[role] += 1
    return kills


# --- The command ----------------------------------------------------------------------------


def show(figures: dict[str, Any]) -> None:
    runs = figures["runs"]
    heads = ["", *(run["broker"] for run in runs)]
    rows = accounting.rows(runs)
    killed = sorted({role for run in runs for role in run["kills"]})
    rows += [
        [f"{role} killed", *(f"{run['kills'].get(role, 0):,}" for run in runs)] for role in killed
    ]
    rows.append(["settled after, seconds", *(f"{run['settled_after_s']:.1f}" for run in runs)])
    print(table(heads, rows))


def faults(figures: dict[str, Any]) -> list[str]:
    return [fault for run in figures["runs"] for fault in accounting.faults(run)]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to post and kill")
    parser.add_argument("--broker", choices=[*BROKERS, "all"], default="postgresql")
    parser.add_argument("--seed", type=int, default=1, help="draws the messages and the kills")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure, show, faults)
