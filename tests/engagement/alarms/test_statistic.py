"""What a night learns and what it says of each account is what plain formulas say."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from engagement.alarms import statistic
from engagement.alarms.negative_binomial import lower_tail, no_activity, upper_tail
from engagement.alarms.statistic import (
    DECIDABLE,
    TOO_NEW,
    TOO_QUIET,
    WINDOWS,
    Accounts,
    Array,
    account_activity,
    judge,
    learn,
)
from tests.cases import each
from tests.engagement.alarms import plain


def random_accounts(number: int, seed: int = 1) -> Accounts:
    """Accounts of all sizes; some are bursty, some young, and some changed."""
    chance = np.random.default_rng(seed)
    rates = np.exp(chance.normal(1.5, 1.5, number))[:, None]
    bursts = np.where(chance.random(number)[:, None] < 0.3, chance.gamma(1, 1, (number, 24)), 1)
    weeks = chance.poisson(rates * bursts).astype(np.uint16)
    changed = chance.random(number) < 0.1
    weeks[changed, :4] //= 3
    ages = np.where(chance.random(number) < 0.2, chance.integers(0, 24, number), 24)
    weeks[np.arange(24) >= ages[:, None]] = 0
    regions = chance.integers(0, 3, number)
    return Accounts(weeks, ages.astype(np.uint8), chance.random(number) < 0.2, regions)


def steady_accounts(number: int, weekly: int = 10) -> Accounts:
    weeks = np.full((number, 24), weekly - 2, np.uint16)
    # Not all alike: chance would be nothing at all.
    weeks += ((np.arange(24) * 7 + np.arange(number)[:, None] * 3) % 5).astype(np.uint16)
    return Accounts(weeks, np.full(number, 24), np.zeros(number, bool), np.zeros(number, int))


def with_account(accounts: Accounts, weeks: list[int], region: int = 0) -> Accounts:
    """The accounts and, as the last, one with these weeks."""
    return Accounts(
        np.vstack([accounts.weeks, np.array([weeks], np.uint16)]),
        np.append(accounts.ages, 24),
        np.append(accounts.is_small, False),
        np.append(accounts.regions, region),
    )


def smallest(accounts: Accounts, name: str = "p_fall") -> Array:
    return np.asarray(judge(accounts, learn(accounts))[name].min(axis=0))


def test_tails_equal_those_of_scipy() -> None:
    chance = np.random.default_rng(1)
    mean = np.exp(chance.uniform(np.log(0.3), np.log(20_000), 20_000))
    dispersion = np.maximum(1 + np.exp(chance.uniform(np.log(0.02), np.log(20), 20_000)), 1.02)
    low = np.floor(mean * chance.uniform(0, 0.8, 20_000))
    high = np.maximum(np.ceil(mean * chance.uniform(1.3, 4, 20_000)), 5)
    r = mean / (dispersion - 1)
    for own, theirs in (
        (lower_tail(low, mean, dispersion), stats.nbinom.cdf(low, r, 1 / dispersion)),
        (upper_tail(high, mean, dispersion), stats.nbinom.sf(high - 1, r, 1 / dispersion)),
        (no_activity(mean, dispersion), stats.nbinom.pmf(0, r, 1 / dispersion)),
    ):
        decides = theirs > 1e-12
        assert decides.sum() > 1_000
        np.testing.assert_allclose(own[decides], theirs[decides], rtol=1e-5)
        assert (own[~decides] < 1.001e-12).all()


def test_decisions_about_100_000_accounts_equal_those_by_scipy() -> None:
    accounts = random_accounts(100_000)
    figures = judge(accounts, learn(accounts))
    r, share = figures["expected"] / (figures["dispersion"] - 1), 1 / figures["dispersion"]
    falls = stats.nbinom.cdf(figures["observed"], r, share)
    matters = figures["is_usable"] & (figures["observed"] <= 0.8 * figures["expected"])
    falls = np.where(matters, falls, 1)
    r = (figures["expected"] + 0.5) / (figures["dispersion"] - 1)
    rises = stats.nbinom.sf(figures["observed"] - 1, r, share)
    matters = figures["observed"] >= np.maximum(1.3 * figures["expected"], 5)
    rises = np.where(figures["is_usable"] & matters, rises, 1)
    for p_on in (0.00125, 0.0025, 0.005, 0.01):
        assert (falls.min(axis=0) < p_on).sum() > 500
        assert ((figures["p_fall"] < p_on) == (falls < p_on)).all()
        assert ((figures["p_rise"] < p_on) == (rises < p_on)).all()


@each("seed", [1, 2])
def test_arrays_say_what_plain_formulas_say(seed: int) -> None:
    accounts = random_accounts(400, seed)
    parameters = learn(accounts)
    figures = judge(accounts, parameters)
    weeks, ages, regions = (c.tolist() for c in (accounts.weeks, accounts.ages, accounts.regions))
    rows = list(zip(weeks, ages, regions, strict=True))
    for index, window in enumerate(WINDOWS):
        movement = [plain.movement_of(rows, window, region) for region in range(3)]
        assert parameters["movement"][index] == pytest.approx(movement, rel=1e-5)
        errors: dict[int, list[float]] = {size: [] for size in range(6)}
        spreads: dict[int, list[float]] = {size: [] for size in range(6)}
        for row, (own, age, region) in enumerate(rows):
            is_usable = age >= 8 + window and not (window == 2 and accounts.is_small[row])
            assert figures["is_usable"][index, row] == is_usable
            if age < 8 + window:
                continue
            expected, dispersion, burstiness = plain.expectation(
                own, age, region, parameters, index
            )
            observed = sum(own[:window])
            n = min(16, age - window)
            if expected >= 0.5:
                baseline = plain.baseline_of(own, age, window)
                spread = plain.spread_of(baseline, parameters["weekly"][index])
                spreads[plain.size_of(expected)].append(min(spread, 6))
                if is_usable:
                    variance = expected * (1 + window / n) * burstiness
                    variance *= plain.growth_within_size(expected)
                    error = (observed - expected) ** 2 / variance
                    errors[plain.size_of(expected)].append(error)
            if not is_usable:
                continue
            own_figures = figures[index, row]
            assert own_figures["expected"] == pytest.approx(expected)
            assert own_figures["dispersion"] == pytest.approx(dispersion)
            assert own_figures["observed"] == observed
            falls = rises = 1.0
            if expected > 0 and observed <= 0.8 * expected:
                falls = plain.tail(expected, dispersion, range(observed + 1))
            if observed >= max(1.3 * expected, 5):
                rises = 1 - plain.tail(expected + 0.5, dispersion, range(observed))
            assert own_figures["p_fall"] == pytest.approx(falls, rel=1e-5)
            assert own_figures["p_rise"] == pytest.approx(rises, rel=1e-4, abs=1e-9)
        for size in range(6):
            assert parameters["accounts"][index][size] == len(errors[size])
            if errors[size]:
                learnt = float(np.quantile(errors[size], 0.75)) / 1.1503**2
                assert parameters["error"][index][size] == pytest.approx(learnt, rel=1e-4)
            if any(spreads[size]):
                usual = float(np.mean(spreads[size]))
                assert parameters["spread"][index][size] == pytest.approx(usual, rel=1e-4)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = random_accounts(500)
    at_once = learn(accounts)
    monkeypatch.setattr(statistic, "CHUNK", 7)
    assert learn(accounts) == at_once


def test_an_account_that_leaves_does_not_lower_what_is_expected_of_others() -> None:
    accounts = steady_accounts(50)
    large = with_account(accounts, [0] * 4 + [60_000] * 20)
    assert judge(large, learn(large))["expected"][1, 0] == pytest.approx(
        judge(accounts, learn(accounts))["expected"][1, 0], rel=0.02
    )
    assert smallest(large)[-1] < 1e-6


def test_a_holiday_of_a_region_is_no_fall_of_its_accounts() -> None:
    accounts = steady_accounts(300, weekly=30)
    regions = np.minimum(np.arange(300) % 5, 1)
    weeks = accounts.weeks.copy()
    weeks[regions == 0, :2] //= 4
    by_region = smallest(replace(accounts, weeks=weeks, regions=regions))
    together = smallest(replace(accounts, weeks=weeks))
    assert (by_region[regions == 0] > 0.01).all()
    assert (together[regions == 0] < 0.0025).all()


def test_when_all_fall_alike_nobody_falls() -> None:
    accounts = steady_accounts(100)
    weeks = accounts.weeks.copy()
    weeks[:, :2] //= 2
    assert (smallest(replace(accounts, weeks=weeks)) > 0.05).all()
    few = replace(accounts, weeks=weeks).part(slice(0, 4))
    assert learn(few)["movement"] == [[1.0] * 3] * 3


def test_small_changes_of_large_accounts_do_not_matter() -> None:
    accounts = steady_accounts(60, weekly=2_000)
    for share, matters in ((0.85, False), (0.7, True)):
        own = with_account(accounts, [int(2_000 * share)] * 4 + [2_000] * 20)
        assert bool(smallest(own)[-1] < 0.001) is matters
    for share, matters in ((1.25, False), (1.5, True)):
        own = with_account(accounts, [int(2_000 * share)] * 4 + [2_000] * 20)
        assert bool(smallest(own, "p_rise")[-1] < 0.001) is matters


def test_a_bursty_account_is_given_more_room() -> None:
    accounts = random_accounts(500)
    steady = with_account(accounts, [2, 2, 2, 2] + [12] * 20)
    bursty = with_account(accounts, [2, 2, 2, 2] + [0, 24] * 10)
    assert smallest(bursty)[-1] > 10 * smallest(steady)[-1]


def test_activity_of_an_account_cannot_be_told() -> None:
    accounts = steady_accounts(40)
    quiet = with_account(accounts, [0, 0, 1] * 8)
    ages = np.array([9, 10, *[24] * 39])
    is_small = np.arange(41) == 1
    accounts = replace(quiet, ages=ages, is_small=is_small)
    states = account_activity(judge(accounts, learn(accounts)), 0.0025)
    # Nine weeks are too few for any window, and ten are for the shortest, which this one lacks.
    assert states.tolist() == [TOO_NEW, TOO_NEW, *[DECIDABLE] * 38, TOO_QUIET]


def test_a_product_without_accounts_has_a_night() -> None:
    nobody = random_accounts(10).part(slice(0, 0))
    assert judge(nobody, learn(nobody)).shape == (3, 0)


@pytest.mark.slow
def test_a_million_accounts_take_less_than_300_mb() -> None:
    """The process has the arrays of its night, and nothing of the service.

    ``ru_maxrss`` would have the memory of the tests' own process, which began it.
    """
    script = """
import numpy as np
from engagement.alarms.statistic import Accounts
from engagement.alarms.transitions import ALARM, decide_night
n, chance = 1_000_000, np.random.default_rng(1)
weeks = np.empty((n, 24), np.uint16)
rates = np.exp(chance.normal(1, 1, n).astype(np.float32))
for start in range(0, n, 10_000):
    own = rates[start : start + 10_000, None]
    weeks[start : start + 10_000] = chance.poisson(own, (len(own), 24))
accounts = Accounts(weeks, np.full(n, 24, np.uint8), np.zeros(n, bool), np.zeros(n, np.uint8))
none = np.zeros(0, ALARM)
p_on = (0.0025, 0.0013, 0.0025, 0.005, 0.01)
night = decide_night(1, accounts, (none, none), (p_on, p_on), 2)
assert night.decidable == n and len(night.falls.onsets) > 1_000
alarms = night.falls.next(1), night.rises.next(1)
night = decide_night(2, accounts, alarms, (p_on, p_on), 2)
lines = open("/proc/self/status").read().splitlines()
print(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(run.stdout) / 1024 < 300
