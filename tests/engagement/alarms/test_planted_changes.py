"""The proof of alarms in its short form: few accounts, and bars that chance cannot miss."""

from dataclasses import replace

import numpy as np
import pytest

from proofs.alarm_worlds import CHANGES, build
from proofs.alarms import FALL, RISE, SOME, Counts, History, bars, count, live


@pytest.fixture(scope="module")
def history() -> History:
    changes = ("halved", "stopped", "doubled")
    kind = replace(SOME, accounts=450, changing=0.3, changes=changes, judged_days=130)
    return live(build(kind, 1))


@pytest.fixture(scope="module")
def counts(history: History) -> Counts:
    return count(history)


def share(counts: Counts, key: str) -> float:
    part, total = counts[key]
    assert total > 10, "too few to judge"
    return part / total


def test_unchanged_accounts_have_few_alarms(counts: Counts) -> None:
    assert share(counts, "F = 0.05, falls: false, all") <= 0.15
    assert share(counts, "F = 0.05, rises: false, all") <= 0.15
    assert share(counts, "F = 0.05, falls: flagged on a day") <= 0.06


def test_accounts_that_changed_are_found(counts: Counts) -> None:
    assert share(counts, "F = 0.05, falls: stopped, 5+ users, found in 56 d") >= 0.8
    assert share(counts, "F = 0.10, falls: halved, 5+ users, found in 56 d") >= 0.2
    assert share(counts, "F = 0.10, rises: doubled, 5+ users, found in 56 d") >= 0.2


def test_a_level_that_allows_more_has_more_alarms(history: History) -> None:
    for direction in (FALL, RISE):
        alarms = np.bincount(history.spans[direction]["level"], minlength=5)[1:]
        assert (np.diff(alarms) > 0).all()


def test_every_bar_is_about_something_that_is_counted(counts: Counts) -> None:
    assert {bar.key for bar in bars()} <= counts.keys()
    assert all(any(name in key for key in counts) for name in CHANGES)
