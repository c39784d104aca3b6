"""Workers of a sync that are killed in the middle: another one goes on at once, and nothing is lost
or counted twice."""

import os
import random
import signal
import time

import pytest

from engagement.models import Product
from harness.marketplace.server import Simulator
from marketplace.models import Connection
from marketplace.runs import scheduling
from tests.cases import FACTOR
from tests.forks import fork
from tests.marketplace.connections import (
    NOON,
    RunState,
    accounts,
    counters,
    latest,
    licenses,
    work,
)
from tests.start.running import until

pytestmark = pytest.mark.django_db(transaction=True)

LICENSES = 1_500
# Seconds in which the database notices that a killed worker's connection has ended.
LOCK_SECONDS = 5.0


def until_pages(connection: Connection, pages: int) -> None:
    until(lambda: (run := latest(connection)).pages >= pages or run.is_over, f"{pages} pages")


def until_free(connection: Connection) -> float:
    """The seconds until another worker may go on."""
    started = time.monotonic()
    until(
        lambda: latest(connection).is_over or scheduling.due_connection_ids(NOON) != [],
        "the end of the lock",
    )
    return time.monotonic() - started


@pytest.mark.parametrize("seed", range(max(1, round(FACTOR))))
def test_a_sync_whose_workers_are_killed_counts_as_one_that_is_not(
    seed: int, acme: Product, simulator: Simulator, connection: Connection
) -> None:
    chance = random.Random(seed)
    simulator.feed.add(*licenses(simulator, LICENSES))
    rounds = kills = 0
    while not latest(connection).is_over:
        rounds += 1
        pages = latest(connection).pages
        children = [fork(lambda: work(connection)) for _ in range(2)]
        until_pages(connection, pages + 4)
        time.sleep(chance.random() * 0.05)
        kills += latest(connection).state == RunState.RUNNING
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        assert until_free(connection) < LOCK_SECONDS
    run = latest(connection)
    # Of two workers, only one had the run each time.
    assert (run.state, run.attempt) == (RunState.SUCCEEDED, rounds)
    assert kills >= 3
    assert counters(run) == dict.fromkeys(("seen", "imported", "accounts_created"), LICENSES)
    assert len(accounts(acme)) == LICENSES
