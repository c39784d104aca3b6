"""The scores of past days against what became of accounts."""

import random
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.database import sql
from engagement.models import Account, Product, Segment, Workspace
from engagement.rescoring.what_if import ScoringDefinition
from outcomes.backtests import backtest, texts
from outcomes.backtests.results import Backtest, Horizon, Verdict
from outcomes.kinds import Kind
from tests.cases import each, examples, leaves_no_rows
from tests.outcomes import plain
from tests.outcomes.worlds import (
    DAY,
    TODAY,
    Count,
    Fate,
    World,
    decide,
    definition,
    make_world,
    score_as,
)

pytestmark = pytest.mark.django_db

NAMES = [f"account {number}" for number in range(12)]
EVENTS = ("opened", "shared", "paid")
KINDS = (Kind.RENEWAL, Kind.MONTHLY_STAY, Kind.EVALUATION)


def random_world(product: Product, seed: int) -> World:
    """Accounts that begin and fade away, with outcomes that follow their activity at times."""
    chance = random.Random(seed)
    created = {name: TODAY - chance.randrange(30, 600) * DAY for name in NAMES}
    counts = {
        (name, user, event, ago): Count(name, user, event, ago, chance.randint(1, 20))
        for name in NAMES
        for _ in range(chance.randrange(40))
        for user, event in [(chance.randint(1, 3), chance.choice(EVENTS))]
        for ago in [chance.randrange((TODAY - created[name]).days)]
    }
    fates = [
        Fate(
            chance.choice(NAMES),
            chance.choice(KINDS),
            chance.randrange(-20, 300),
            chance.random() < 0.6,
            chance.choice([0, 0, 3, 30]),
            chance.choice([None, None, 0, 10, 30, 70]),
            chance.choice([14, 30, 60, 365]),
        )
        for _ in range(chance.randrange(150))
    ]
    world = make_world(product, counts.values(), created)
    decide(world, fates)
    return world


def run(world: World, kind: Kind, *arguments: Any, **options: Any) -> Backtest:
    workspace = Workspace.objects.select_related("scores").get(product=world.product)
    result = backtest.run(workspace, kind, TODAY, *arguments, **options)
    # It can be stored, and is what it was then: it has no NaN, and no numbers of numpy.
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(result)), Backtest) == result
    assert "null" not in str(result) and "nan" not in str(result)
    return result


@examples(12)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(KINDS),
    current=st.sampled_from([definition(7), definition(30, 0, opened=3), definition(30, 1, 60)]),
    own=st.sampled_from(
        [
            *(None, definition(30, 1, paid=10), definition(1), definition(7, 0, paid=1)),
            *(definition(30, 1, 20, paid=5), definition(30, 0, 180, opened=2)),
        ]
    ),
)
@leaves_no_rows
def test_a_backtest_agrees_with_a_plain_one(
    seed: int, kind: Kind, current: ScoringDefinition, own: ScoringDefinition | None
) -> None:
    world = random_world(Product.create_with_workspace("Acme"), seed)
    score_as(world.product, current)
    result = run(world, kind, own)
    fates = plain.counted_fates(world, kind, TODAY)
    assert (result.kind, result.revision, result.sampled_of, result.segment) == (
        kind,
        1,
        None,
        None,
    )
    assert result.first_day == min((fate.day for fate in fates), default=None)
    assert result.last_day == max((fate.day for fate in fates), default=None)
    all_of_kind = sum(fate.kind == kind for fate in world.fates)
    assert sum(result.excluded.values()) == all_of_kind - len(fates)
    assert [horizon.days for horizon in result.horizons] == [14, 30, 60, 90]
    for horizon in result.horizons:
        assert_equal(horizon, plain.split(world, own or current, kind, horizon.days, TODAY))


def assert_equal(horizon: Horizon, split: plain.Split) -> None:
    predictions = split.predictions
    assert horizon.already_answered == split.already_answered
    assert horizon.without_data == split.without_data
    assert horizon.outcomes == len(predictions)
    assert horizon.bad == sum(not own.is_good for own in predictions)
    for band in horizon.bands:
        own = [
            prediction
            for prediction in predictions
            if band.low <= prediction.score < band.high or prediction.score == band.high == 100
        ]
        bad = sum(not prediction.is_good for prediction in own)
        assert (band.outcomes, band.bad) == (len(own), bad)
        assert value_of(band.rate) == (pytest.approx(bad / len(own)) if own else None)
    for estimate, name in (
        (horizon.auc, "strength"),
        (horizon.auc_of_recency, "recency"),
        (horizon.auc_of_age, "age"),
    ):
        pairs = [(getattr(own, name), own.is_good) for own in predictions]
        has_auc = len({value for value, _ in pairs}) > 1 and plain.auc(pairs) is not None
        assert (estimate is not None) == (has_auc and len({own.account for own in predictions}) > 1)
        assert value_of(estimate) in (None, approx(plain.auc(pairs)))
    if better := horizon.better_than_recency:
        assert horizon.auc and horizon.auc_of_recency
        difference = horizon.auc.value - horizon.auc_of_recency.value
        assert better.value == pytest.approx(difference)
    assert value_of(horizon.lift) == approx(plain.lift(predictions))
    assert horizon.brier == approx(plain.brier(predictions))
    expected = [
        rate for own in predictions if (rate := plain.expected(predictions, own)) is not None
    ]
    points = horizon.reliability
    assert bool(points) == (len(expected) >= 20)
    assert sum(point.observed.outcomes for point in points) == (len(expected) if points else 0)
    if points:
        mean = sum(point.expected * point.observed.outcomes for point in points) / len(expected)
        assert mean == pytest.approx(sum(expected) / len(expected))


def value_of(estimate: Any) -> float | None:
    if estimate is None:
        return None
    assert estimate.low <= estimate.value <= estimate.high and estimate.outcomes > 0
    return float(estimate.value)


def approx(value: float | None) -> Any:
    return None if value is None else pytest.approx(value)


# --- What there is to judge by ----------------------------------------------------------------


def lively(product: Product, number: int, fates: Sequence[Fate]) -> World:
    """Accounts that are active each week, each more than those before it."""
    names = [f"account {place}" for place in range(number)]
    counts = [
        Count(name, 1, "opened", ago, place + 1)
        for place, name in enumerate(names)
        for ago in range(0, 200, 7)
    ]
    world = make_world(product, counts, dict.fromkeys(names, TODAY - 300 * DAY))
    decide(world, fates)
    score_as(product, definition(7))
    return world


def renewals(number: int, *churned: int) -> list[Fate]:
    return [
        Fate(f"account {place}", Kind.RENEWAL, 10 + place % 3, place not in churned)
        for place in range(number)
    ]


def test_a_score_that_tells_who_renews_is_better_than_both(acme: Product) -> None:
    world = lively(acme, 40, renewals(40, *range(10)))
    result = run(world, Kind.RENEWAL)
    (horizon, *_) = result.horizons
    assert (horizon.outcomes, horizon.bad, horizon.verdict) == (40, 10, Verdict.BETTER_THAN_BOTH)
    assert horizon.auc and horizon.auc.value == 1.0 and horizon.auc.low > 0.8
    assert horizon.auc_of_recency and horizon.auc_of_recency.low < 0.5
    assert horizon.better_than_recency and horizon.better_than_recency.low > 0
    assert horizon.lift and horizon.lift.value == 4.0


@each(
    ("fates", "outcomes", "verdict"),
    [
        ([], 0, Verdict.TOO_FEW),
        (renewals(12), 12, Verdict.TOO_FEW),
        # One class, however many outcomes it has.
        (renewals(40), 40, Verdict.TOO_FEW),
        # One account, again and again.
        ([Fate("account 0", Kind.RENEWAL, n, n % 2 == 0) for n in range(40)], 40, None),
        # In the future.
        ([Fate("account 1", Kind.RENEWAL, -n, True) for n in range(1, 9)], 0, Verdict.TOO_FEW),
        # All at one time, and known the day before the prediction.
        ([Fate(f"account {n}", Kind.RENEWAL, 10, n % 2 == 0, -14) for n in range(9)], 0, None),
        # Of accounts that nobody knows, and of one that has no data by then.
        ([Fate("nobody", Kind.RENEWAL, 10, True)], 0, Verdict.TOO_FEW),
        ([Fate("account 2", Kind.RENEWAL, 195, False)], 0, Verdict.TOO_FEW),
    ],
)
@leaves_no_rows
def test_odd_outcomes_have_a_verdict(
    fates: list[Fate], outcomes: int, verdict: Verdict | None
) -> None:
    world = lively(Product.create_with_workspace("Acme"), 40, fates)
    result = run(world, Kind.RENEWAL)
    (horizon, *_) = result.horizons
    assert horizon.outcomes == outcomes
    assert verdict in (None, horizon.verdict)
    for each_horizon in result.horizons:
        assert_said(each_horizon)
    assert sum(result.excluded.values()) + horizon.outcomes + horizon.already_answered + (
        horizon.without_data
    ) == len(fates)


def assert_said(horizon: Horizon) -> None:
    """There are sentences, without anything that is no number."""
    text = texts.summary(Kind.RENEWAL, horizon)
    assert text.startswith(("Too few outcomes", "The score predicts renewals")), text
    assert text.endswith(".") and not re.search(r"\b(nan|inf|None)\b", text), text


def test_equal_scores_are_no_better_than_chance(acme: Product) -> None:
    names = [f"account {place}" for place in range(40)]
    counts = [Count(name, 1, "opened", ago) for name in names for ago in range(0, 200, 7)]
    world = make_world(acme, counts, dict.fromkeys(names, TODAY - 300 * DAY))
    decide(world, renewals(40, *range(10)))
    score_as(acme, definition(7))
    for horizon in run(world, Kind.RENEWAL).horizons:
        assert_said(horizon)
        assert (horizon.auc, horizon.lift, horizon.better_than_recency) == (None, None, None)
        assert horizon.verdict is Verdict.NO_BETTER_THAN_CHANCE


def test_a_workspace_without_scores_predicts_nothing(acme: Product) -> None:
    world = lively(acme, 10, renewals(10, 1, 2))
    acme.workspaces.update(scores=None)
    (horizon, *_) = run(world, Kind.RENEWAL).horizons
    assert (horizon.outcomes, horizon.without_data) == (0, 10)
    assert horizon.verdict is Verdict.TOO_FEW


def test_who_answered_before_is_told_apart(acme: Product) -> None:
    fates = [
        Fate("account 0", Kind.RENEWAL, 10, False, 0, 14),
        Fate("account 1", Kind.RENEWAL, 10, False, 0, 13),
        Fate("account 2", Kind.RENEWAL, 10, True, 0, 60),
        Fate("account 3", Kind.RENEWAL, 10, True),
    ]
    world = lively(acme, 4, fates)
    early = [horizon.already_answered for horizon in run(world, Kind.RENEWAL).horizons]
    assert early == [2, 1, 1, 0]


def test_a_prediction_of_an_evaluation_lies_in_it(acme: Product) -> None:
    fates = [Fate(f"account {n}", Kind.EVALUATION, 10, n > 3, 0, None, 30) for n in range(8)]
    horizons = run(lively(acme, 8, fates), Kind.EVALUATION).horizons
    assert [(each.outcomes, each.without_data) for each in horizons] == [
        (8, 0),
        (8, 0),
        (0, 8),
        (0, 8),
    ]


def test_monthly_stays_are_predicted_before_their_quarter(acme: Product) -> None:
    """Who stays is decided on the last day, and the others before: from these days, the scores of
    two weeks before would say who stayed by the calendar."""
    stayed = Fate("account 0", Kind.MONTHLY_STAY, 10, True, began_before=90)
    churned = Fate("account 1", Kind.MONTHLY_STAY, 70, False, began_before=30)
    world = lively(acme, 2, [stayed, churned])
    for days in (14, 30, 60, 90):
        split = plain.split(world, definition(7), Kind.MONTHLY_STAY, days, TODAY)
        assert {own.predicted_on for own in split.predictions} == {TODAY - (100 + days) * DAY}
    horizons = run(world, Kind.MONTHLY_STAY).horizons
    assert [(each.outcomes, each.bad) for each in horizons] == [(2, 1)] * 4


def test_the_accounts_of_a_segment_count_alone(acme: Product) -> None:
    world = lively(acme, 40, renewals(40, *range(10)))
    Account.objects.filter(external_id__in=["account 1", "account 20", "account 21"]).update(
        traits={"plan": "pro"}
    )
    condition = {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"}
    segment = Segment.objects.create(
        workspace=acme.workspaces.get(),
        name="Pro",
        scope="account",
        match="all",
        conditions=[condition],
    )
    result = run(world, Kind.RENEWAL, segment=segment)
    assert result.segment == segment.pk and result.excluded == {}
    assert [(each.outcomes, each.bad) for each in result.horizons] == [(3, 1)] * 4


def test_many_outcomes_of_a_segment_are_sampled_evenly(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = lively(acme, 40, renewals(40, *range(10)))
    condition = {"kind": "trait", "trait": "plan", "operator": "is_not", "value": "pro"}
    segment = Segment.objects.create(
        workspace=acme.workspaces.get(), name="Not pro", scope="account", conditions=[condition]
    )
    monkeypatch.setattr(backtest, "LIMIT", 20)
    result = run(world, Kind.RENEWAL, segment=segment)
    assert (result.horizons[0].outcomes, result.sampled_of) == (20, 40)
    monkeypatch.setattr(backtest, "LIMIT_BEFORE_SEGMENT", 30)
    result = run(world, Kind.RENEWAL, segment=segment)
    assert (result.horizons[0].outcomes, result.sampled_of) == (15, 40)


def test_it_ends_when_time_is_out(acme: Product) -> None:
    world = lively(acme, 4, renewals(4, 1))
    with pytest.raises(sql.StatementTimeout):
        run(world, Kind.RENEWAL, out_of_time=lambda: True)
