"""A fall of all accounts together, and a sender that sends nothing."""

import random
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta

import pytest

from engagement.activity import product as product_alarms
from engagement.activity.product import ProductActivity, State, is_silent, judge
from engagement.activity.prometheus import collect_metrics
from engagement.models import Product, Workspace
from tests.cases import each
from tests.engagement.history import NOON
from tests.engagement.planted_nights import SILENT, a_fall, add_nights

# A Sunday, so that the weekdays of days follow from their places.
FIRST = date(2024, 1, 7)
# The place of 23 December 2024 in the series.
CHRISTMAS = (date(2024, 12, 23) - FIRST).days
Change = Callable[[int], float]


def series(days: int, seed: int = 1, change: Change = lambda day: 1.0) -> list[int]:
    """The user-days of a product: weekends, growth, chance, and three quiet weeks around each
    Christmas; *change* is a factor by the day's place."""
    chance = random.Random(seed)

    def user_days(place: int) -> int:
        day = FIRST + timedelta(days=place)
        usual = 1_000 * (1 + place / 2_000) * (0.2 if day.weekday() >= 5 else 1.0)
        if (day.month, day.day) >= (12, 20) or (day.month, day.day) <= (1, 7):
            usual *= 0.3
        return round(usual * chance.gauss(1, 0.06) * change(place))

    return [user_days(place) for place in range(days)]


def looks(days: Sequence[int], first: int) -> Iterator[tuple[int, ProductActivity | None]]:
    """What each day from the place of the first on says, until the end of the series."""
    for place in range(first, len(days)):
        yield place, judge(days[: place + 1], FIRST + timedelta(days=place))


def falls_in(days: Sequence[int], first: int) -> list[int]:
    return [
        place
        for place, activity in looks(days, first)
        if activity is not None and activity.state is State.FALLING
    ]


# --- The whole product ------------------------------------------------------------------------


@each("seed", [1, 2, 3])
def test_a_product_without_a_change_never_falls(seed: int) -> None:
    """Two Christmases are in it, and slow growth."""
    days = series(800, seed)
    assert falls_in(days, 530) == []
    assert all(activity and activity.has_year for _, activity in looks(days, 530))


@each("seed", [1, 2, 3])
def test_a_fall_of_30_percent_is_found_within_two_weeks(seed: int) -> None:
    change = 620
    days = series(700, seed, lambda place: 0.7 if place >= change else 1.0)
    first, *_ = falls_in(days, 560)
    assert change + 7 <= first <= change + 13
    activity = judge(days[: first + 1], FIRST)
    assert activity and activity.change < -0.1 and activity.p < 0.001


def test_christmas_is_no_fall_with_a_year_and_lower_than_usual_without() -> None:
    young = series(CHRISTMAS + 10)
    activity = judge(young, FIRST)
    assert activity and (activity.state, activity.has_year) == (State.LOWER, False)
    assert "there is no year to compare with" in activity.sentence
    old = series(CHRISTMAS + 10 + 365)
    activity = judge(old, FIRST)
    assert activity and (activity.state, activity.has_year) == (State.STEADY, True)


def test_days_of_a_silent_sender_are_no_fall_of_the_product() -> None:
    silent = {620, 621, 622}
    days = series(1_020, change=lambda place: 0.0 if place in silent else 1.0)
    # Nor a year later, when the silent days are what others are compared with.
    assert falls_in(days, 560) == []


def test_nobody_can_tell_of_a_young_or_an_empty_product() -> None:
    assert judge(series(160), FIRST) is None
    assert judge([0] * 600, FIRST) is None
    assert judge([], FIRST) is None


# --- The sender -------------------------------------------------------------------------------


@each("seed", [1, 2, 3])
def test_two_dead_days_are_silent_and_christmas_is_not(seed: int) -> None:
    dead = {500, 501}
    days = series(800, seed, lambda place: 0.0 if place in dead else 1.0)
    silent = {
        place
        for place in range(56, len(days))
        if is_silent(days[place], days[place - 56 : place : 7])
    }
    assert silent == dead


def test_small_and_young_products_are_never_silent() -> None:
    assert not is_silent(0, [19] * 8)
    assert is_silent(0, [20] * 8)
    assert not is_silent(0, [500] * 7)


# --- From the nights of a workspace -----------------------------------------------------------


YESTERDAY = NOON.date() - timedelta(days=1)


@pytest.mark.django_db
def test_the_last_complete_day_of_each_product_decides(acme: Product, globex: Product) -> None:
    add_nights(acme.workspaces.get(), SILENT, YESTERDAY)
    add_nights(globex.workspaces.get(), [400] * 61, YESTERDAY)
    # Other workspaces have audiences of their own, who may be away.
    second = Workspace.objects.create(product=globex, name="Second")
    add_nights(second, SILENT, YESTERDAY)
    (silent,) = product_alarms.silent_senders(NOON)
    assert (silent.product, silent.observed, silent.usual) == (acme, 3, 400)
    assert silent.sentence == (
        "The sender may be silent: 3 active user-days on 2026-09-23. On a Wednesday, 400 are usual."
    )
    assert product_alarms.silent_senders(NOON, [globex.pk]) == []


@pytest.mark.django_db
def test_monitors_learn_which_sender_is_silent(acme: Product) -> None:
    def samples() -> list[tuple[dict[str, str], float]]:
        (metric,) = collect_metrics(NOON)
        return [(sample.labels, sample.value) for sample in metric.samples]

    assert samples() == []
    add_nights(acme.workspaces.get(), SILENT, YESTERDAY)
    assert samples() == [({"product": "Acme"}, 1)]


@pytest.mark.django_db
def test_the_day_before_decides_until_the_last_night_is_over(acme: Product) -> None:
    add_nights(acme.workspaces.get(), SILENT, YESTERDAY)
    assert product_alarms.silent_senders(NOON + timedelta(days=1))
    assert not product_alarms.silent_senders(NOON + timedelta(days=2))


@pytest.mark.django_db
def test_old_nights_say_nothing_about_now(acme: Product) -> None:
    workspace = acme.workspaces.get()
    add_nights(workspace, a_fall(20), YESTERDAY)
    activity = product_alarms.activities([workspace.pk], NOON)[workspace.pk]
    assert (activity.state, activity.day) == (State.FALLING, YESTERDAY)
    later = NOON + timedelta(days=5)
    assert product_alarms.activities([workspace.pk], later) == {}
