"""A set of scores whose rows the tests write."""

import pytest

from core.jobs import kinds
from engagement.models import Product, ScoreSet, Seats
from engagement.nights.jobs import CHANGED_HABITS, DECIDE_ALARMS
from tests.engagement.rows import TODAY


@pytest.fixture
def scores(acme: Product) -> ScoreSet:
    """Acme's scores: of seven days, under benchmarks of 100 now and 200 a period ago, and for
    accounts the same a day before."""
    score_set = ScoreSet.objects.create(
        product=acme,
        workspace=acme.workspaces.get(),
        state=ScoreSet.State.CURRENT,
        lookback_days=7,
        default_weight=1,
        seats=Seats.APP,
        scored_day=TODAY,
        user_benchmark=100.0,
        user_benchmark_yesterday=50.0,
        user_benchmark_last_period=200.0,
        user_benchmark_yesterday_last_period=100.0,
        user_quantiles=[10, 20, 30, 40],
        account_benchmark=100.0,
        account_benchmark_yesterday=100.0,
        account_benchmark_last_period=200.0,
        account_benchmark_yesterday_last_period=200.0,
        account_quantiles=[10, 20, 30, 40],
        scored_event_name_count=4,
    )
    acme.workspaces.update(scores=score_set)
    return score_set


@pytest.fixture
def no_nights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is decided after the end of a day: for scores of days that are far apart, because
    each day between them has a night."""
    own = dict(kinds._kinds)
    for name in (DECIDE_ALARMS, CHANGED_HABITS):
        del own[name]
    monkeypatch.setattr(kinds, "_kinds", own)
