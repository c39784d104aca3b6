"""Simulated schedules hold all promises, a seed is one schedule, and planted bugs are found."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from harness.processes import until
from harness.service import Service, temporary_service
from proofs import schedules
from proofs.schedules import Schedule
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
