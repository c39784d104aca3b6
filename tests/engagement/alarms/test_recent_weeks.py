"""What the page of an account shows of its last weeks is what the nights decided by."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from engagement.activity.recent_weeks import SHOWN_WEEKS, expect, recent_weeks
from engagement.alarms import statistic
from engagement.alarms.levels import usual_range
from engagement.models import Account, ActiveDay, Alarm, AlarmNight, Product, ScoreSet, Workspace
from tests.cases import each
from tests.engagement.alarms import plain

LAST = date(2026, 9, 23)


def a_world(seed: int) -> statistic.Accounts:
    chance = np.random.default_rng(seed)
    rates = chance.lognormal(1, 1.5, 400)
    weeks = chance.poisson(rates[:, None] * chance.lognormal(0, 0.4, (400, 24)))
    ages = chance.integers(0, 25, 400)
    weeks[np.arange(24) >= ages[:, None]] = 0
    return statistic.Accounts(weeks, ages, np.zeros(400, bool), chance.integers(0, 3, 400))


@each("window", [2, 4, 8])
def test_what_is_expected_of_one_account_is_what_the_statistic_expects(window: int) -> None:
    accounts = a_world(window)
    parameters = statistic.learn(accounts)
    index = statistic.WINDOWS.index(window)
    judgement = statistic.judge(accounts, parameters)
    number = 0
    for row in range(len(accounts)):
        movement = parameters["movement"][index][accounts.regions[row]]
        weeks = accounts.weeks[row].tolist()
        expectation = expect(weeks, int(accounts.ages[row]), window, movement, parameters)
        if expectation is None:
            assert accounts.ages[row] - window < 8
            continue
        number += 1
        figures = judgement[index, row]
        assert expectation == pytest.approx((figures["expected"], figures["dispersion"]))
    assert number > 100


def parameters(movement: float = 1.0) -> dict[str, Any]:
    """What a night of a calm product learnt."""
    return {
        "movement": [[movement] * 3] * 3,
        "weekly": [[1.0] * 16] * 3,
        "spread": [[1.0] * 6] * 3,
        "error": [[1.0] * 6] * 3,
        "accounts": [[100] * 6] * 3,
    }


def nights(workspace: Workspace, number: int = 7 * SHOWN_WEEKS, movement: float = 1.0) -> None:
    AlarmNight.objects.bulk_create(
        AlarmNight(
            workspace=workspace,
            day=LAST - timedelta(days=ago),
            user_days=100,
            accounts=20,
            parameters=parameters(movement),
            decided_at=datetime(2026, 9, 24, 1, tzinfo=UTC),
        )
        for ago in range(number)
    )


def active_days(scores: ScoreSet, account: Account, users: int, first: int, last: int = 0) -> None:
    """*users* active users on each day from *first* days ago to *last* days ago."""
    ActiveDay.objects.bulk_create(
        ActiveDay(
            product_id=scores.product_id,
            score_set_id=scores.pk,
            account_id=account.pk,
            day=LAST - timedelta(days=ago),
            users=users,
            hour=10,
        )
        for ago in range(last, first + 1)
    )


def an_alarm(scores: ScoreSet, account: Account, since: int, **fields: Any) -> Alarm:
    """An alarm that began *since* days ago, of the level that people see."""
    values = {
        "signal": Alarm.Signal.FALL,
        "level": scores.workspace.alarm_level,
        "window_days": 14,
        "observed": 4,
        "expected": 28.0,
        "dispersion": 1.3,
        "p": 0.0001,
        "weekly_rate": 14.0,
    }
    return Alarm.objects.create(
        product_id=scores.product_id,
        workspace_id=scores.workspace_id,
        account_id=account.pk,
        since=LAST - timedelta(days=since),
        **{**values, **fields},
    )


@pytest.fixture
def initech(acme: Product) -> Account:
    at = datetime(2025, 1, 1, tzinfo=UTC)
    return Account.objects.create(
        product=acme, external_id="initech", is_identified=True, first_seen_at=at, last_seen_at=at
    )


@pytest.mark.django_db
def test_there_is_nothing_to_show_before_the_first_night(
    scores: ScoreSet, initech: Account
) -> None:
    active_days(scores, initech, users=2, first=300)
    assert recent_weeks(scores, initech.pk) is None


@pytest.mark.django_db
def test_each_point_is_a_sum_of_four_weeks_with_the_range_that_its_night_expected(
    scores: ScoreSet, initech: Account
) -> None:
    active_days(scores, initech, users=2, first=7 * 40)
    nights(scores.workspace)
    weeks = recent_weeks(scores, initech.pk)
    assert weeks is not None and weeks.window == 4 and len(weeks.points) == SHOWN_WEEKS
    assert [point.day for point in weeks.points[-2:]] == [LAST - timedelta(days=7), LAST]
    assert {point.user_days for point in weeks.points} == {2 * 28}
    low, high = weeks.points[-1].usual or (0, 0)
    assert low < 56 < high
    # An account that is not ten weeks old has no usual range, and neither has a missing night.
    AlarmNight.objects.filter(day=LAST).delete()
    newer = recent_weeks(scores, initech.pk)
    assert newer is not None and newer.points[-1].day == LAST - timedelta(days=1)
    assert newer.points[-1].usual is not None
    assert [point.usual for point in weeks.points[:4]].count(None) == 0


@pytest.mark.django_db
def test_a_new_account_has_no_usual_range(scores: ScoreSet, initech: Account) -> None:
    active_days(scores, initech, users=2, first=7 * 12)
    nights(scores.workspace)
    weeks = recent_weeks(scores, initech.pk)
    assert weeks is not None
    has_range = [point.usual is not None for point in weeks.points]
    assert has_range == [False] * (SHOWN_WEEKS - 1) + [True]


@pytest.mark.django_db
def test_while_an_alarm_is_on_usual_is_what_was_usual_before_it(
    scores: ScoreSet, initech: Account
) -> None:
    active_days(scores, initech, users=2, first=7 * 40, last=60)
    nights(scores.workspace)
    before = recent_weeks(scores, initech.pk)
    alarm = an_alarm(scores, initech, since=50)
    an_alarm(scores, initech, since=40, level=1 + scores.workspace.alarm_level)
    weeks = recent_weeks(scores, initech.pk)
    assert before is not None and weeks is not None and weeks.alarms == [alarm]
    # Its window is that of the sentence.
    assert weeks.window == 2
    last = weeks.points[-1]
    assert last.user_days == 0 and last.usual == usual_range(28.0, dispersion(28.0, 2))
    assert before.window == 4 and before.points[-1].usual != last.usual


@pytest.mark.django_db
def test_the_range_follows_how_comparable_accounts_move(scores: ScoreSet, initech: Account) -> None:
    active_days(scores, initech, users=2, first=7 * 40)
    an_alarm(scores, initech, since=50)
    nights(scores.workspace, movement=0.5)
    weeks = recent_weeks(scores, initech.pk)
    assert weeks is not None and weeks.points[-1].usual == usual_range(14.0, dispersion(14.0, 2))


@pytest.mark.django_db
@pytest.mark.parametrize("weeks", [2, 4, 8])
def test_the_range_of_an_alarm_is_as_wide_as_that_of_the_test_in_its_window(
    scores: ScoreSet, initech: Account, weeks: int
) -> None:
    nights(scores.workspace)
    days = {"baseline_from": LAST - timedelta(days=150), "baseline_to": LAST - timedelta(days=81)}
    latest = {"window_days": 7 * weeks}
    an_alarm(scores, initech, since=60, burstiness=1.5, latest=latest, **days)
    recent = recent_weeks(scores, initech.pk)
    assert recent is not None and recent.window == weeks
    wide = dispersion(14.0 * weeks, weeks, baseline=10, burstiness=1.5)
    assert recent.points[-1].usual == usual_range(14.0 * weeks, wide)


def dispersion(expected: float, window: int, baseline: int = 16, burstiness: float = 1.0) -> float:
    """What a calm product's night says of an account with 100 others of its size."""
    of_middle = 1.5 + 0.01 * (1.5, 6, 20, 60, 200, 600)[plain.size_of(expected)]
    factor = (100 + 10 * of_middle) / 110 * plain.growth_within_size(expected)
    return factor * burstiness * (1 + window / baseline)
