"""The checker of what readers saw accepts what is in order, and names each contradiction."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import settings

from proofs.histories import Read, find_contradictions
from proofs.reads import READERS
from tests.database import own_server
from tests.start.folders import environment_of_benchmarks

SENT = {"ada": [1.0, 2.0, 3.0], "bob": [1.5, 2.5]}


def read(reader: str, began: float, ada: int, bob: int, *, is_copy: bool = False) -> Read:
    counts = {"ada": ada, "bob": bob}
    return Read(reader, "primary", began, began + 0.1, counts, is_copy)


IN_ORDER = [
    read("a list", 1.2, 1, 0),
    read("another list", 1.25, 1, 0),
    read("a copy", 1.9, 1, 1, is_copy=True),
    read("a list", 2.6, 1, 1),
    read("a copy", 3.1, 3, 2, is_copy=True),
    read("another list", 3.3, 3, 2),
]


def promises_broken_by(*reads: Read) -> set[str]:
    return {each.promise for each in find_contradictions([*IN_ORDER, *reads], SENT)}


def test_what_is_in_order_is_accepted() -> None:
    assert promises_broken_by() == set()
    # Two reads at the same time may see the states in any order.
    assert promises_broken_by(read("a third", 2.65, 2, 1), read("a fourth", 2.6, 1, 1)) == set()


@pytest.mark.parametrize(
    ("promise", "later"),
    [
        ("monotonic", read("another list", 3.5, 2, 2)),
        ("real", read("a third", 2.0, 3, 1)),
        ("one order", read("a third", 2.65, 0, 2)),
        ("fresh", read("a third", 2.8, 1, 0)),
        ("a prefix", read("another copy", 3.5, 1, 1, is_copy=True)),
    ],
)
def test_a_contradiction_is_named(promise: str, later: Read) -> None:
    assert promise in promises_broken_by(later)


def test_a_list_that_lacks_what_a_copy_had_is_a_contradiction() -> None:
    assert promises_broken_by(read("a third", 3.25, 1, 1)) == {"a prefix"}


def test_databases_are_compared_with_themselves_alone() -> None:
    older = replace(read("a third", 3.5, 1, 0), database="replica")
    assert promises_broken_by(older) == set()


@pytest.mark.slow
@own_server
def test_readers_see_no_contradiction_through_kills(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    options = ("--seconds", "8", "--pause", "0.05", "--json", str(results))
    run = subprocess.run(
        [sys.executable, "-m", "proofs.reads", *options],
        cwd=settings.BASE_DIR,
        env=environment_of_benchmarks(),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    content = json.loads(results.read_text())
    assert content["results"]["contradictions"] == 0
    assert len(content["tables"]["Reads"]) == READERS
