"""Dormancy against a plain model over random active days, and even samples of many accounts."""

from datetime import date, timedelta
from random import Random

import pytest

from engagement.models import (
    Account,
    AccountEngagement,
    ActiveDay,
    DailyCount,
    EventName,
    Product,
    ScoredEvent,
    ScoreSet,
    User,
    Workspace,
)
from outcomes.kinds import Kind, OutcomeSet
from outcomes.reading import read_outcomes
from outcomes.sources import units as sampling
from tests.engagement.history import NOON

pytestmark = pytest.mark.django_db

TODAY = NOON.date()
DAY = timedelta(days=1)
Days = dict[int, set[date]]


@pytest.fixture
def score_set(acme: Product) -> ScoreSet:
    workspace = acme.workspaces.get()
    current = ScoreSet.objects.create(
        product=acme,
        workspace=workspace,
        state="current",
        lookback_days=7,
        default_weight=1,
        active_days_until=TODAY,
    )
    Workspace.objects.filter(pk=workspace.pk).update(scores=current)
    return current


def create_accounts(score_set: ScoreSet, number: int) -> list[int]:
    product = score_set.product
    accounts = Account.objects.bulk_create(
        Account(
            product=product, external_id=f"a{place}", first_seen_at=NOON, last_seen_at=NOON
        )
        for place in range(number)
    )  # fmt: skip
    AccountEngagement.objects.bulk_create(
        AccountEngagement(
            product=product, score_set=score_set, account=account, raw=0, event_count=0,
            active_days=0, active_users=0,
        )
        for account in accounts
    )  # fmt: skip
    return [account.pk for account in accounts]


def random_days(random: Random, accounts: list[int], last: int = 440) -> Days:
    """Stretches of activity, some of which end, and lonely days."""
    days: Days = {}
    for account in accounts:
        start, length = random.randrange(last), random.choice([3, 40, 150, last])
        own = range(start, max(0, start - length), -random.choice([1, 6, 29, 31, 45]))
        days[account] = {TODAY - (1 + place) * DAY for place in own}
    return days


def store(score_set: ScoreSet, days: Days) -> None:
    ActiveDay.objects.bulk_create(
        ActiveDay(
            product_id=score_set.product_id, score_set=score_set, account_id=account, day=day,
            users=1, hour=9,
        )
        for account, own in days.items()
        for day in own
    )  # fmt: skip


def expected(days: Days, kept_from: date) -> set[tuple[int, date, bool]]:
    """The same in plain Python: each first of a month, by looking at each single day."""
    units = set()
    firsts = [TODAY - n * DAY for n in range(450) if (TODAY - n * DAY).day == 1]
    complete = [day for day in firsts if day + 30 * DAY <= TODAY and day - 30 * DAY >= kept_from]
    for day in complete[:13]:
        for account, own in days.items():
            if any(day - n * DAY in own for n in range(1, 31)):
                units.add((account, day, any(day + n * DAY in own for n in range(30))))
    return units


def read(score_set: ScoreSet, limit: int = 5_000) -> OutcomeSet:
    workspace = Workspace.objects.get(pk=score_set.workspace_id)
    return read_outcomes(workspace, Kind.DORMANCY, TODAY, limit=limit)


def units(outcomes: OutcomeSet) -> set[tuple[int, date, bool]]:
    return {(each.account_id, each.day, each.is_good) for each in outcomes.outcomes}


@pytest.mark.parametrize("seed", range(3))
def test_dormancy_is_that_of_each_single_day(score_set: ScoreSet, seed: int) -> None:
    days = random_days(Random(seed), create_accounts(score_set, 40))
    store(score_set, days)
    outcomes = read(score_set)
    assert units(outcomes) == expected(days, TODAY - 371 * DAY)
    assert 0.1 < sum(each.is_good for each in outcomes.outcomes) / len(outcomes.outcomes) < 0.9
    assert (outcomes.sampled_of, outcomes.revision, outcomes.excluded) == (None, None, {})
    first = outcomes.outcomes[0]
    assert (first.known_on, first.began_on, first.answered_on) == (
        first.day + 30 * DAY, first.day, None,
    )  # fmt: skip


def test_months_that_are_not_counted_yet_are_no_outcomes(score_set: ScoreSet) -> None:
    days = random_days(Random(7), create_accounts(score_set, 20))
    store(score_set, days)
    score_set.active_days_until = date(2026, 7, 30)
    score_set.save()
    assert {each.day for each in read(score_set).outcomes} <= {
        day for _, day, _ in expected(days, TODAY - 371 * DAY)
    }
    assert max(each.day for each in read(score_set).outcomes) == date(2026, 6, 1)


def test_before_the_first_night_daily_counts_say_the_same(score_set: ScoreSet) -> None:
    """And only those that count: of identified users, with a weight."""
    days = random_days(Random(8), create_accounts(score_set, 25))
    ScoreSet.objects.filter(pk=score_set.pk).update(active_days_until=None)
    product = score_set.product
    user, unknown = (
        User.objects.create(
            product=product, external_id=name, is_identified=name == "user",
            first_seen_at=NOON, last_seen_at=NOON,
        )
        for name in ("user", "unknown")
    )  # fmt: skip
    opened, ignored = (
        EventName.objects.create(product=product, name=name) for name in ("opened", "ignored")
    )
    ScoredEvent.objects.create(score_set=score_set, event_name=ignored, weight=0)
    for account, own in days.items():
        every = [TODAY - n * DAY for n in range(450)]
        for day in every:
            events = [(user, opened)] if day in own else [(unknown, opened), (user, ignored)]
            DailyCount.objects.bulk_create(
                DailyCount(
                    product=product, user=who, event_name=event, account_id=account, day=day,
                    count=1, last_at=NOON,
                )
                for who, event in events
            )  # fmt: skip
    assert units(read(score_set)) == expected(days, date.min)


def test_a_sample_is_even_and_the_same_each_time(
    score_set: ScoreSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if few of the accounts are active, and if each account gives more than one unit."""
    monkeypatch.setattr(sampling, "MAX_CANDIDATES", 8_000)
    accounts = create_accounts(score_set, 1_500)
    every = range(1, 440)
    days = {
        account: {TODAY - n * DAY for n in every[:: 9 if place % 3 else 500]}
        for place, account in enumerate(accounts)
    }
    store(score_set, days)
    all_units = expected(days, TODAY - 371 * DAY)
    for limit in (200, 3_000):
        sample = read(score_set, limit)
        assert len(sample.outcomes) == limit
        assert units(sample) < all_units
        assert sample == read(score_set, limit)
        assert sample.sampled_of == pytest.approx(len(all_units), rel=0.25)
        by_month = [
            sum(each.day == day for each in sample.outcomes)
            for day in {day for _, day, _ in all_units}
        ]
        mean = limit / len(by_month)
        assert all(abs(number - mean) < 5 * mean**0.5 for number in by_month)


def test_without_scores_there_are_no_outcomes(acme: Product) -> None:
    assert read_outcomes(acme.workspaces.get(), Kind.DORMANCY, TODAY).outcomes == []
