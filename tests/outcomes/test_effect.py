"""What a change of weights would have predicted."""

import pytest

from core.database import sql
from engagement.models import Product
from outcomes.backtests import jobs
from outcomes.backtests.effect import would_have_predicted
from outcomes.kinds import Kind
from outcomes.reading import QUEUE
from tests.engagement.history import NOON
from tests.jobs import run_due_jobs
from tests.outcomes import plain
from tests.outcomes.test_backtests import renewals
from tests.outcomes.worlds import (
    DAY,
    TODAY,
    Count,
    World,
    current_set,
    decide,
    definition,
    make_world,
    score_as,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world(acme: Product) -> World:
    """Accounts that share much renew, whatever else they do."""
    names = [f"account {place}" for place in range(40)]
    counts = [
        Count(name, 1, event, ago, times)
        for place, name in enumerate(names)
        for ago in range(0, 200, 7)
        for event, times in (("opened", 1 + place * 7 % 40), ("shared", 1 + place))
    ]
    world = make_world(acme, counts, dict.fromkeys(names, TODAY - 300 * DAY))
    decide(world, renewals(40, *range(10)))
    score_as(acme, definition(7, opened=5, shared=0))
    return world


def test_it_is_said_with_an_interval_and_paired(world: World) -> None:
    jobs.request_due(NOON)
    run_due_jobs(QUEUE, NOON)
    own, changed = definition(7, opened=5, shared=0), definition(30, opened=0, shared=3)
    effect = would_have_predicted(current_set(world), changed, TODAY)
    assert effect and (effect.kind, effect.days) == (Kind.RENEWAL, 60)
    for estimate, scored in ((effect.now, own), (effect.with_change, changed)):
        split = plain.split(world, scored, Kind.RENEWAL, 60, TODAY)
        pairs = [(each.strength, each.is_good) for each in split.predictions]
        assert estimate.value == pytest.approx(plain.auc(pairs))
        assert estimate.outcomes == 40
    assert effect.with_change.value == 1.0
    assert effect.difference.value == pytest.approx(1.0 - effect.now.value)
    assert effect.difference.low > 0
    with pytest.raises(sql.StatementTimeout):
        would_have_predicted(current_set(world), changed, TODAY, lambda: True)


def test_nothing_is_said_without_a_backtest_or_a_change(world: World) -> None:
    changed = definition(30, opened=0, shared=3)
    assert would_have_predicted(current_set(world), changed, TODAY) is None
    jobs.request_due(NOON)
    run_due_jobs(QUEUE, NOON)
    scores = current_set(world)
    same = definition(7, shared=0, opened=5)._replace(audience={"match": "all", "conditions": []})
    assert would_have_predicted(scores, same, TODAY) is None
    equal = definition(7, default_weight=0, opened=0, shared=0)
    assert would_have_predicted(scores, equal, TODAY) is None, "all scores are equal"
