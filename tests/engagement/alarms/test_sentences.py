"""What alarms say: usual ranges, how rare they are by chance, and sentences."""

from datetime import timedelta
from math import exp, lgamma, log

import pytest

from engagement.activity import sentences
from engagement.alarms.levels import once_in_days, usual_range
from tests.engagement.alarms.rows import SINCE, figures


@pytest.mark.parametrize("expected", [1, 3, 8, 18, 60, 250, 2000])
@pytest.mark.parametrize("dispersion", [1.05, 1.6, 3, 5])
def test_four_of_five_unchanged_windows_are_in_the_usual_range(
    expected: float, dispersion: float
) -> None:
    low, high = usual_range(expected, dispersion)
    assert sum(chance(count, expected, dispersion) for count in range(low, high + 1)) >= 0.8


def chance(count: int, mean: float, dispersion: float) -> float:
    """Of a negative binomial distribution with the variance mean times dispersion."""
    shape = mean / (dispersion - 1)
    ways = lgamma(count + shape) - lgamma(shape) - lgamma(count + 1)
    return exp(ways - shape * log(dispersion) + count * log(1 - 1 / dispersion))


@pytest.mark.parametrize(
    ("p", "kappa", "text"),
    [
        (0.0, 20, "less than once in 10 years"),
        (0.00125, 20, "less than once in 10 years"),
        (0.0025, 20, "once in 5 years"),
        (0.0125, 20, "once a year"),
        (0.0025, 50, "once in 2 years"),
        (0.02, 20, "once in 8 months"),
        (0.15, 20, "once a month"),
        (1, 50, "more than once a month"),
    ],
)
def test_how_often_chance_alone_does_so(p: float, kappa: float, text: str) -> None:
    assert sentences.rarity(once_in_days(p, kappa)) == text


def test_a_fall_says_what_was_usual_how_rare_it_is_and_how_others_moved() -> None:
    assert sentences.describe_change(figures()) == (
        "Usually 11–26 active user-days in two weeks, now 4. By chance this account would do so "
        "less than once in 10 years. Since 4 September."
    )
    now = {"window_days": 28, "observed": 22, "expected": 36.6, "p": 0.005, "kappa": 25}
    later = figures(latest=now | {"common": 1.02})
    assert sentences.describe_change(later) == (
        "Usually 27–48 active user-days in four weeks, now 22. By chance this account would do so "
        "once in 2 years. Since 4 September. Comparable accounts: +2%."
    )
    assert sentences.describe_change(figures(latest={"common": 0.7})).endswith(
        " accounts: \N{MINUS SIGN}30%."
    )


def test_silence_says_what_was_expected_in_that_time() -> None:
    assert sentences.describe_stop(figures(observed=0), 14) == (
        "No activity for 14 days; expected 11–26 user-days in that time."
    )
    assert sentences.describe_stop(figures(expected=7.5, observed=0), 24) == (
        "No activity for 24 days; expected 7–20 user-days in that time."
    )


def test_a_longer_silence_is_expected_with_no_narrower_range() -> None:
    """Twice the time has at least twice the variance, and the baseline's own error grows."""
    alarm = figures(observed=0)
    doubled = usual_range(2 * alarm.expected, alarm.dispersion)
    low, high = (int(part) for part in sentences.describe_stop(alarm, 28).split()[6].split("–"))
    assert low <= doubled[0]
    assert high >= doubled[1]


def test_a_new_level_is_told_with_the_old_one() -> None:
    assert sentences.describe_new_level(figures(latest={"observed": 9})) == (
        "Settled at a lower level since 4 September: 9 active user-days in two weeks, usually "
        "11–26 before."
    )
    assert "a higher level" in sentences.describe_new_level(figures("rise"))


def test_what_cannot_be_told_says_why() -> None:
    assert sentences.describe_unknown("too_quiet", 3.2) == (
        "Cannot tell yet: with 3 active user-days a month, eight silent weeks would be nothing "
        "unusual."
    )
    assert "1 active user-day a month" in sentences.describe_unknown("too_quiet", 1.2)
    assert "no activity in most months" in sentences.describe_unknown("too_quiet", 0.25)
    assert "ten weeks" in sentences.describe_unknown("too_new", 5)
    assert "after the end of each day" in sentences.describe_unknown("not_decided", 5)


def test_programs_get_the_numbers_behind_a_sentence() -> None:
    numbers = sentences.alarm_numbers(figures(latest={"observed": 5, "common": 1.0234}))
    assert numbers == {
        "window_days": 14,
        "observed": 5,
        "expected": 18.0,
        "expected_low": 11,
        "expected_high": 26,
        "common_change": 0.023,
        "once_in_days": 3652,
        "p": 0.0004,
        "since": "2026-09-04",
        "baseline": {
            "from": str(SINCE - timedelta(days=126)),
            "to": str(SINCE - timedelta(days=15)),
            "weeks": 16,
        },
    }
