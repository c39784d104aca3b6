"""The demo's stories: evaluations that are bought where people work, and a quarter that was missed
because customers left over the price."""

from collections import Counter
from datetime import UTC, date, datetime, time, timedelta

import pytest

from engagement.models import Product
from harness.demo import rewinding, stories, vocabulary
from harness.demo.products import _site, look_back
from harness.demo.stories import last_quarter
from harness.marketplace.lives import add_months
from marketplace.models import Ledger
from outcomes.forecasts import storage as forecasts
from outcomes.forecasts.results import month_after
from outcomes.kinds import Kind
from outcomes.models import LicenseOutcome, StoredForecast
from outcomes.sources import licenses
from tests.engagement.history import NOON
from tests.outcomes.worlds import TODAY as SCORED
from tests.outcomes.worlds import Count, Fate, decide, definition, make_world, score_as

TODAY = date(2026, 11, 24)
NOW = datetime.combine(TODAY, time(12), UTC)


@pytest.mark.parametrize(
    ("today", "first_day"),
    [
        (TODAY, date(2026, 7, 1)),
        (date(2026, 10, 1), date(2026, 7, 1)),
        (date(2027, 3, 31), date(2026, 10, 1)),
    ],
)
def test_the_last_quarter_is_over(today: date, first_day: date) -> None:
    assert last_quarter(today) == first_day


def test_evaluations_with_many_people_are_bought_more_often() -> None:
    own = list(stories.trials(1, TODAY, 96))
    assert own == list(stories.trials(1, TODAY, 96))
    past = [trial for trial in own if trial.is_bought is not None]
    for is_used in (True, False):
        bought = [trial.is_bought for trial in past if trial.is_used is is_used]
        assert len(bought) > 30 and abs(sum(map(bool, bought)) / len(bought) - 0.5) > 0.25
    assert sum(trial.is_bought is True for trial in past) >= 20 <= len(past) - 20
    customers = stories.customers_of_trials(own, vocabulary.BOARDS.features, NOW, _site, 1_100, 7)
    for trial, customer in zip(own, customers, strict=True):
        days = {use.last_at.date() for person in customer.people for use in person.event_uses}
        assert min(days) == trial.began_on and max(days) < TODAY
        if not trial.is_bought:
            assert max(days) < trial.began_on + timedelta(days=stories.EVALUATION_DAYS)


def test_most_customers_left_in_the_last_quarter_and_said_why() -> None:
    lives = list(stories.lives_with_a_higher_price(1, TODAY))
    ends = {life.number: add_months(life.lines[0].start, 24) for life in lives}
    quarters = {number: last_quarter(add_months(end, 3)) for number, end in ends.items()}
    leavers = Counter(quarters[life.number] for life in lives if life.answers)
    assert leavers == {date(2026, 1, 1): 1, date(2026, 4, 1): 1, last_quarter(TODAY): 10}
    assert {answer.reason for life in lives for answer in life.answers} == {"cost"}
    for life in lives:
        # Nothing was said before the month began.
        assert all(answer.on.month == ends[life.number].month for answer in life.answers)


@pytest.mark.django_db(transaction=True)
def test_forecasts_of_past_months_know_nothing_of_later_days(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewinding, "MONTHS_BACK", 3)
    names = [f"site {number}" for number in range(40)]
    counts = [Count(name, 1, "opened", ago) for name in names for ago in (3, 60, 200, 300)]
    world = make_world(acme, counts, dict.fromkeys(names, SCORED - timedelta(days=310)))
    fates = [
        Fate(name, Kind.RENEWAL, 5 + 4 * number, number % 3 > 0, answered_before=number % 2 or None)
        for number, name in enumerate(names)
    ]
    decide(world, fates, revision=7)
    Ledger.objects.create(product=acme, revision=7)
    score_as(acme, definition(7))
    before = list(LicenseOutcome.objects.order_by("license").values())

    rewinding.forecast_past_months(acme, NOON, lambda: False)
    assert list(LicenseOutcome.objects.order_by("license").values()) == before
    assert licenses.revision_of(acme.pk) == 7
    own = StoredForecast.objects.filter(kind=Kind.RENEWAL, stays=True).order_by("made_on")
    first_days = [month_after(SCORED, -back) for back in (3, 2, 1, 0)]
    assert [row.made_on for row in own] == first_days
    for row in own:
        terms = dict(zip(row.licenses, zip(row.days, row.chances, strict=True), strict=True))
        due = [day for day in (fate.day for fate in fates) if day >= row.made_on]
        assert sorted(day for day, _ in terms.values()) == sorted(due)
        for day, chance in terms.values():
            assert 0 < chance < 1 or day - row.made_on <= timedelta(days=1)
    (latest,) = StoredForecast.objects.filter(kind=Kind.RENEWAL, stays=False)
    assert latest.made_on == SCORED and len(forecasts.decode(latest).past) == 3

    look_back(acme, lambda: NOON + timedelta(days=40))
    assert own.count() == 4, "a later start changes nothing"
