"""An alarm begins, keeps its baseline, and ends, at each level by itself."""

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest

from engagement.alarms.levels import (
    ALLOWED_RATES,
    REFERENCE_P,
    measured_kappas,
    measured_span,
    once_in_days,
    thresholds,
    usual_range,
)
from engagement.alarms.statistic import Accounts, Array
from engagement.alarms.transitions import (
    ALARM,
    OPEN,
    RECOVERED,
    SETTLED,
    Decision,
    Night,
    decide_night,
    is_near_usual,
)

NONE = np.zeros(0, ALARM)
# The day on which the account under test changes, and the number of other accounts.
CHANGE, OTHERS = 200, 60
LEVELS = len(ALLOWED_RATES) + 1


def product(account: Callable[[int], int], days: int) -> Array:
    """Active users by day of steady accounts, and of one more in the last row."""
    chance = np.random.default_rng(3)
    others = chance.binomial(8, 0.5, (OTHERS, days))
    return np.vstack([others, [account(day) for day in range(days)]]).astype(np.uint16)


def accounts_after(users: Array, day: int) -> Accounts:
    past = users[:, day + 1 - 168 : day + 1]
    weeks = past[:, ::-1].reshape(len(users), 24, 7).sum(axis=2)
    no_regions = np.zeros(len(users), int)
    return Accounts(weeks, np.full(len(users), 24), past.max(axis=1) <= 2, no_regions)


def nights(
    users: Array, first: int, last: int, kappa: float = 20.0
) -> Iterator[tuple[int, Night, tuple[Array, Array]]]:
    """Each day, what its night decides, and the alarms after it."""
    alarms, p_on = (NONE, NONE), thresholds([kappa] * LEVELS)
    for day in range(first, last):
        night = decide_night(day, accounts_after(users, day), alarms, (p_on, p_on), 2)
        alarms = (night.falls.next(day), night.rises.next(day))
        yield day, night, alarms


def history(users: Array, last: int, direction: int = 0, level: int = 2) -> list[tuple[Any, ...]]:
    """Since, end, and outcome of the alarms of the last account at the level."""
    row, begins = len(users) - 1, []
    ends: dict[Any, tuple[int, Any]] = {}
    for day, night, _ in nights(users, CHANGE - 10, last):
        decision = (night.falls, night.rises)[direction]
        begins += [a["since"] for a in own(decision.onsets, row, level)]
        ends |= {a["since"]: (day, a["outcome"]) for a in own(ended(decision), row, level)}
    return [(since, *ends.get(since, (None, OPEN))) for since in begins]


def ended(decision: Decision) -> Array:
    return np.asarray(decision.latest[decision.ended])


def own(alarms: Array, row: int, level: int) -> Array:
    return np.asarray(alarms[(alarms["row"] == row) & (alarms["level"] == level)])


def halved(day: int) -> int:
    return 4 if day < CHANGE else 2


def test_an_account_that_halves_begins_one_alarm_that_settles_after_13_weeks() -> None:
    [(since, end, outcome)] = history(product(halved, 340), 340)
    assert CHANGE + 7 <= since <= CHANGE + 42
    assert (end, outcome) == (since + 91, SETTLED)


def test_more_false_alarms_allowed_find_it_earlier() -> None:
    users = product(lambda day: 4 if day < CHANGE else 3 - day % 2, 300)
    first = [history(users, 300, level=level)[0][0] for level in range(1, LEVELS)]
    assert first == sorted(first, reverse=True)
    assert first[0] > first[-1]


def test_an_alarm_ends_when_the_account_is_back_to_usual() -> None:
    users = product(lambda day: 0 if CHANGE <= day < CHANGE + 30 else 4, 320)
    [(since, end, outcome)] = history(users, 320)
    assert CHANGE < since < CHANGE + 14
    assert CHANGE + 30 < end <= CHANGE + 30 + 56
    assert outcome == RECOVERED


def test_days_after_an_alarm_began_say_whether_it_is_over() -> None:
    """The days that began it are those that differed most. After two weeks, they no longer count;
    two weeks decide nothing about a small account."""
    days = np.array([13, 14, 27, 28])
    of_two, of_four = (0.29, 0.4), (0.4, 0.29)
    assert near(of_two, days, is_small=False) == [True, False, False, True]
    assert near(of_four, days, is_small=False) == [True, True, True, False]
    assert near(of_four, days, is_small=True) == [True, True, True, False]
    assert near((0.4, 0.07), days, is_small=False) == [False, True, True, False]


def near(p: tuple[float, float], days: Array, is_small: bool) -> list[bool]:
    """After each number of days, by the p of two and of four weeks."""
    recovery_p = np.array([p] * len(days))
    smallness = np.full(len(days), is_small)
    return [bool(each) for each in is_near_usual(recovery_p, days, smallness)]


def test_an_alarm_keeps_the_baseline_that_it_began_with() -> None:
    users = product(halved, 300)
    rates = {}
    for day, _, (falls, _) in nights(users, CHANGE - 1, 290):
        for alarm in own(falls, OTHERS, 2):
            rates[day] = (alarm["rate"], alarm["expected"], alarm["since"])
    assert len({rate for rate, _, _ in rates.values()}) == 1
    assert len({since for *_, since in rates.values()}) == 1
    # The moving baseline has sunk by then: without the frozen one this would be usual.
    rate, expected, _ = rates[max(rates)]
    assert rate > 25 and expected > 0.9 * rate * 2


def test_an_account_that_settled_is_compared_with_its_new_level() -> None:
    """Stopping later is a new alarm at once, and staying at the new level is none."""

    def stops(day: int) -> int:
        return halved(day) if day < CHANGE + 140 else 0

    first, second = history(product(stops, 380), 380)
    assert first[2] == SETTLED
    assert CHANGE + 140 + 7 <= second[0] <= CHANGE + 140 + 28


def test_a_large_account_that_settled_does_not_begin_the_same_alarm_again() -> None:
    users = product(lambda day: 200 if day < CHANGE else 100, 420)
    [(_, _, outcome)] = history(users, 420)
    assert outcome == SETTLED


def test_a_rise_is_an_alarm_of_its_own() -> None:
    users = product(lambda day: 3 if day < CHANGE else 7, 290)
    [(since, end, outcome)] = history(users, 290, direction=1)
    assert CHANGE < since <= CHANGE + 28
    assert (end, outcome) == (None, OPEN)
    assert history(users, 290) == []


def test_no_activity_for_14_days_is_a_stop() -> None:
    users = product(lambda day: 6 if day < CHANGE else 0, 240)
    stops = {
        day: bool(alarm["is_stopped"])
        for day, night, _ in nights(users, CHANGE, 240)
        for alarm in own(np.concatenate([night.falls.latest, night.falls.onsets]), OTHERS, 2)
    }
    assert min(stops) < CHANGE + 13
    assert [day for day in stops if not stops[day]] == list(range(min(stops), CHANGE + 13))


def test_an_account_of_two_users_has_stopped_after_28_days() -> None:
    users = product(lambda day: 2 if day < CHANGE else 0, 250)
    stops = {
        day: bool(alarm["is_stopped"])
        for day, night, _ in nights(users, CHANGE, 250)
        for alarm in own(np.concatenate([night.falls.latest, night.falls.onsets]), OTHERS, 4)
    }
    # Two weeks decide nothing about it: a vacation takes as long.
    assert CHANGE + 13 <= min(stops) < CHANGE + 27
    assert [day for day in stops if not stops[day]] == list(range(min(stops), CHANGE + 27))


def test_a_night_is_the_same_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    users = product(halved, 240)
    users[5, CHANGE:] = 0

    def falls() -> Array:
        return np.concatenate([alarms[0] for *_, alarms in nights(users, CHANGE, 240, 8.0)])

    at_once = falls()
    assert len(at_once) > 100
    monkeypatch.setattr("engagement.alarms.statistic.CHUNK", 7)
    in_chunks = falls()
    for name in ALARM.names or ():
        np.testing.assert_allclose(in_chunks[name], at_once[name], rtol=1e-6)


def test_kappa_is_measured_by_alarms_that_came_to_nothing() -> None:
    assert measured_kappas({}, []) == [20.0] * LEVELS
    # 91,000 account-days are 1,000 account-quarters, of which p would let 2.5 or 10 begin.
    nights = [(61_000, [0.0025, 0, 0, 0.005, 0.01]), (30_000, [0.0025, 0, 0, 0.005, 0.01])]
    rare = 45 / 2.75
    assert measured_kappas({0: 40, 3: 75, 4: 120}, nights) == pytest.approx(
        [rare, rare, rare, 80 / 5.25, 125 / 10.25]
    )
    assert measured_kappas({}, nights * 100) == [5.0] * LEVELS
    assert measured_kappas({0: 1_000, 3: 1_000, 4: 1_000}, nights) == [50.0] * LEVELS


def test_the_measured_half_year_ended_two_months_ago() -> None:
    first, last = measured_span(date(2026, 9, 30))
    assert last == date(2026, 7, 31)
    assert last - first == timedelta(days=181)


def test_a_threshold_allows_its_rate() -> None:
    assert thresholds([20, 20, 20, 10, 5]) == [REFERENCE_P, 0.00125, 0.0025, 0.01, 0.04]


def test_the_usual_range_and_how_often_chance_does_it() -> None:
    assert usual_range(18, 1.6) == (11, 26)
    assert usual_range(0.2, 1.5) == (0, 2)
    assert once_in_days(0.0025, 20) == pytest.approx(365.25 * 5)
    assert once_in_days(0.05, 20) == pytest.approx(365.25 / 4)
    assert once_in_days(1e-9, 20) == once_in_days(0, 20) == 3652.5
