"""The change over complete days does not depend on the hour, and is never shown half computed."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engagement.models import (
    AccountEngagement,
    DailyBenchmark,
    Product,
    ScoreSet,
    UserEngagement,
    Workspace,
)
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from engagement.scores import past_benchmarks
from engagement.scores.metrics import Scores, compute_scores
from tests.cases import examples, leaves_no_rows
from tests.engagement.history import NOON, identify, tell, track

pytestmark = pytest.mark.django_db

TODAY = NOON.date()
DAY = timedelta(days=1)
MODELS = (UserEngagement, AccountEngagement)


def score(product: Product, lookback: int = 7) -> None:
    workspace = product.workspaces.get()
    Workspace.objects.filter(pk=workspace.pk).update(lookback_days=lookback)
    sets.request_score_set(workspace.pk)
    rescore(NOON)


def scores_of_accounts(product: Product) -> dict[str, Scores]:
    score_set = product.workspaces.get().scores
    assert score_set is not None
    rows = AccountEngagement.objects.filter(score_set=score_set).select_related("account")
    return {row.account.external_id: compute_scores(row, score_set) for row in rows}


def work(product: Product, name: str, hour: int, events: int, days: int) -> None:
    """The account does the same on each of the last days, and today if the hour has come."""
    tell(product, identify(name, -24 * 100, group=f"of {name}"))
    hours = [hour - 12 - 24 * ago for ago in range(days) if ago or hour <= 12]
    tell(product, *(track(name, hours=each) for each in hours for _ in range(events)))


@examples(4)
@given(
    lookback=st.sampled_from([1, 7]),
    accounts=st.lists(st.tuples(st.integers(0, 23), st.integers(1, 4)), min_size=1, max_size=4),
)
@leaves_no_rows
def test_the_same_activity_each_day_is_no_change_at_any_hour(
    lookback: int, accounts: list[tuple[int, int]]
) -> None:
    """It is noon: some accounts have done today what they do each day, and others have not yet."""
    acme = Product.create_with_workspace("Acme")
    for number, (hour, events) in enumerate(accounts):
        work(acme, f"user {number}", hour, events, days=2 * lookback + 3)
    score(acme, lookback)
    assert {each.complete_change for each in scores_of_accounts(acme).values()} == {0.0}


def test_an_account_that_is_active_in_the_evening_falls_each_morning_only_by_score_change(
    acme: Product,
) -> None:
    work(acme, "morning", 6, 9, days=20)
    work(acme, "evening", 20, 6, days=20)
    score(acme)
    scores = scores_of_accounts(acme)
    assert scores["of evening"].change < 0
    assert {each.complete_change for each in scores.values()} == {0.0}


def test_a_complete_day_counts_as_soon_as_it_is_over(acme: Product) -> None:
    work(acme, "steady", 6, 2, days=20)
    work(acme, "rising", 6, 1, days=20)
    tell(acme, *(track("rising", hours=-1) for _ in range(20)))
    score(acme)
    assert scores_of_accounts(acme)["of rising"].complete_change == 0.0
    assert scores_of_accounts(acme)["of rising"].change > 0
    rescore(NOON + DAY)
    changes = scores_of_accounts(acme)["of rising"].complete_change
    assert changes is not None and changes > 0


# --- Beside the release before --------------------------------------------------------------


def forget_new_column() -> None:
    """As if a worker of the release before had written all rows."""
    for model in MODELS:
        model.objects.update(raw_yesterday_last_period=None)


def test_sets_of_the_release_before_are_built_again(acme: Product) -> None:
    work(acme, "ann", 6, 2, days=20)
    score(acme)
    forget_new_column()
    ScoreSet.objects.update(formula_version=2, account_benchmark_yesterday_last_period=None)
    assert scores_of_accounts(acme)["of ann"].complete_change is None
    rescore(NOON)
    assert scores_of_accounts(acme)["of ann"].complete_change == 0.0


def test_the_next_day_completes_rows_that_the_release_before_wrote(acme: Product) -> None:
    """Also of subjects without an event that leaves or enters a window."""
    work(acme, "ann", 6, 2, days=20)
    tell(acme, identify("idle", -24 * 50, group="of idle"))
    score(acme)
    forget_new_column()
    rescore(NOON)
    assert scores_of_accounts(acme)["of idle"].complete_change is None
    rescore(NOON + DAY)
    for model in MODELS:
        assert not model.objects.filter(raw_yesterday_last_period=None).exists()
    assert scores_of_accounts(acme)["of idle"].complete_change == 0.0


def test_benchmarks_of_past_days_do_not_come_from_incomplete_rows(acme: Product) -> None:
    work(acme, "ann", 6, 2, days=20)
    work(acme, "bob", 6, 9, days=20)
    score(acme)
    days = DailyBenchmark.objects.filter(day=TODAY - 8 * DAY)
    expected = days.values_list("users", "accounts").get()
    assert None not in expected
    forget_new_column()
    days.delete()
    past_benchmarks.compute_past_benchmarks(ScoreSet.objects.get(state="current"), TODAY)
    assert days.values_list("users", "accounts").get() == pytest.approx(expected)
