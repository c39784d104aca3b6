"""Simulated schedules hold all promises, a seed is one schedule, and planted bugs are found."""

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings

from harness.processes import until
from harness.service import Service, temporary_service
from proofs import schedules
from proofs.schedules import Schedule
from proofs.simulated.database import Database, follow, follow_schedule
from proofs.simulated.faults import Faults
from proofs.simulated.scheduler import Process, Scheduler, current
from tests.database import own_server

pytestmark = [pytest.mark.slow, own_server]

SEEDS = range(1, 5)
# A job is due shortly after the beginning: when it is due once depended on how long the server's
# preparation took.
CLOSE = (708, 709)


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with temporary_service(schedules.POSTGRES) as service:
        yield service


def run(service: Service, *seeds: int) -> list[dict[str, Any]]:
    return [schedules.run_one(service, Schedule(seed)) for seed in seeds]


def test_schedules_break_no_promise(service: Service) -> None:
    outcomes = run(service, *SEEDS)
    assert [outcome["violations"] for outcome in outcomes] == [[]] * len(SEEDS)
    # They are different schedules, in which much goes wrong.
    assert len({outcome["digest"] for outcome in outcomes}) == len(SEEDS)
    incidents = {name for outcome in outcomes for name in outcome["incidents"]}
    assert incidents >= {"lock", "lost wake-up", "doubled wake-up"}


@pytest.mark.skipif(
    os.environ.get("PROOFS") != "all", reason="takes half an hour; PROOFS=all runs it, too"
)
def test_a_thousand_schedules_break_no_promise() -> None:
    command = [sys.executable, "-m", "proofs.schedules", "--seeds", "1000"]
    run = subprocess.run(command, cwd=settings.BASE_DIR, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_seed_is_a_schedule(service: Service) -> None:
    first, second = run(service, *CLOSE)
    # Whatever ran before it, and wherever.
    with temporary_service(schedules.POSTGRES) as another:
        again = run(another, *reversed(CLOSE))
    assert [second["digest"], first["digest"]] == [each["digest"] for each in again]


def test_of_two_that_wait_for_a_transaction_the_first_goes_on_first(service: Service) -> None:
    database = service.connect()
    database.execute("CREATE TABLE waited_for (id integer PRIMARY KEY)")
    for seed in range(10):
        scheduler = Scheduler(seed, datetime.now(UTC), Database(database), Faults(seed, only=()))
        assert who_inserts(service, scheduler) == who_tries_first(scheduler)
        database.execute("DELETE FROM waited_for")


def who_inserts(service: Service, scheduler: Scheduler) -> str:
    """Which of two can insert the row of a transaction that is rolled back while they wait."""
    winners: list[str] = []
    holder = service.connect()
    threads = [
        scheduler.start(Process(name), name, partial(insert, service, winners))
        for name in ("one", "another")
    ]
    with follow_schedule(scheduler):
        holder.execute("BEGIN; INSERT INTO waited_for VALUES (1)")
        scheduler.run(lambda: all(thread.is_locked for thread in threads), max_points=20)
        holder.execute("ROLLBACK")
        scheduler.run(lambda: not any(thread.is_alive for thread in threads), max_points=20)
    [winner] = winners
    return winner


def who_tries_first(scheduler: Scheduler) -> str:
    return next(point.partition(":")[0] for point in scheduler.trace if "INSERT" in point)


def insert(service: Service, winners: list[str]) -> None:
    """Insert the row, after a wait for the transaction that has it. Who can is a winner."""
    connection = connect(service)
    with suppress(psycopg.errors.UniqueViolation):
        connection.execute("INSERT INTO waited_for VALUES (1)")
        winners.append(threading.current_thread().name)


def test_a_circle_of_locks_fails_one_statement(service: Service) -> None:
    database = service.connect()
    database.execute("CREATE TABLE in_a_circle AS SELECT generate_series(1, 2) AS id")
    failures = Counter(len(locked_in_both_orders(service, database, seed)) for seed in range(10))
    # Some seeds have the one end before the other begins.
    assert failures.keys() == {0, 1}


def locked_in_both_orders(
    service: Service, database: "psycopg.Connection[Any]", seed: int
) -> list[psycopg.Error]:
    """What fails when two transactions lock the same rows."""
    scheduler = Scheduler(seed, datetime.now(UTC), Database(database), Faults(seed, only=()))
    failures: list[psycopg.Error] = []
    threads = [
        scheduler.start(Process(str(ids)), str(ids), partial(lock, service, ids, failures))
        for ids in ((1, 2), (2, 1))
    ]
    with follow_schedule(scheduler):
        scheduler.run(lambda: not any(thread.is_alive for thread in threads), max_points=50)
    assert scheduler.incidents["real deadlock"] == len(failures)
    return failures


def lock(service: Service, ids: tuple[int, int], failures: list[psycopg.Error]) -> None:
    connection = connect(service)
    try:
        with connection.transaction():
            for number in ids:
                connection.execute("SELECT FROM in_a_circle WHERE id = %s FOR UPDATE", [number])
    except psycopg.errors.DeadlockDetected as error:
        failures.append(error)


def connect(service: Service) -> "psycopg.Connection[Any]":
    """A connection of the simulated thread that asks."""
    thread = current()
    assert thread is not None
    connection = service.connect()
    follow(connection, thread)
    return connection


def test_without_faults_nothing_is_killed(service: Service) -> None:
    outcome = schedules.run_one(service, Schedule(SEEDS[0], messages=2, only=()))
    assert outcome["violations"] == []
    assert not {"kill", "hang", "lost"} & outcome["incidents"].keys()


def test_a_run_goes_on_where_it_was_ended(tmp_path: Path) -> None:
    notes, results = tmp_path / "notes.jsonl", tmp_path / "results.json"
    command = [sys.executable, "-m", "proofs.schedules", "--notes", str(notes), "--processes", "1"]
    run = subprocess.Popen([*command, "--seeds", "1000"], cwd=settings.BASE_DIR)
    until(lambda: notes.exists() and notes.read_text().count("\n") > 0, "a schedule to end")
    run.terminate()
    run.wait(timeout=60)
    before = seeds_in(notes)
    number = len(before)
    subprocess.run(
        [*command, "--seeds", str(number + 1), "--json", str(results)],
        cwd=settings.BASE_DIR,
        check=True,
    )
    assert seeds_in(notes) == [*before, number + 1] == [*range(1, number + 2)]
    figures = json.loads(results.read_text())["results"]
    assert (figures["schedules of earlier runs"], figures["schedules"]) == (number, number + 1)


def seeds_in(notes: Path) -> list[int]:
    return [json.loads(line)["seed"] for line in notes.read_text().splitlines()]


def test_a_planted_bug_is_found(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    options = ("--proof", "schedules", "--bug", "scored_in_another_transaction")
    subprocess.run(
        [sys.executable, "-m", "proofs.planted_bugs", *options, "--json", str(results)],
        cwd=settings.BASE_DIR,
        check=True,
    )
    assert json.loads(results.read_text())["results"] == {
        "planted": 1,
        "not found": 0,
        "found without a bug": 0,
    }
