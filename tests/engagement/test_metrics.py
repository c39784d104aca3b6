"""Each metric of a user and an account, with numbers computed by hand."""

from dataclasses import asdict
from typing import Any

import pytest

from engagement.models import AccountEngagement, ScoreSet, UserEngagement
from engagement.scores import metrics
from engagement.scores.formula import classify_trend, percentile_rank, round_to_tenth, score_change
from engagement.scores.history import AllTimeTotals

# Under a benchmark of 200, raw scores of 100 and 200 score 68.4 and 90.
SCORE_SET = ScoreSet(
    lookback_days=7,
    user_benchmark=200.0,
    user_benchmark_yesterday=200.0,
    user_benchmark_last_period=100.0,
    user_benchmark_yesterday_last_period=200.0,
    user_quantiles=[10, 20, 30, 40],
    account_benchmark=200.0,
    account_benchmark_yesterday=None,
    account_benchmark_last_period=200.0,
    account_quantiles=[100, 100, 200, 300],
    scored_event_name_count=8,
)
NUMBERS: dict[str, Any] = {
    "raw": 100,
    "raw_yesterday": 200,
    "raw_last_period": 200,
    "raw_yesterday_last_period": 100,
    "event_count": 25,
    "active_days": 4,
    "name_count": 2,
}


def user(**changes: Any) -> metrics.Metrics:
    return metrics.compute_user_metrics(
        UserEngagement(**NUMBERS | changes), SCORE_SET, AllTimeTotals(90, 6)
    )


def account(traits: dict[str, Any] | None = None, **changes: Any) -> metrics.AccountMetrics:
    row = AccountEngagement(**NUMBERS | {"active_users": 3, "total_users": 12} | changes)
    return metrics.compute_account_metrics(row, SCORE_SET, AllTimeTotals(90, 6), traits or {})


def test_every_metric_of_a_user() -> None:
    assert asdict(user()) == {
        "scores": {
            # 100 · (1 - 10^(-100/200)), 10^(-200/200), and last period's 10^(-200/100).
            "now": 68.4,
            "yesterday": 90.0,
            "last_period": 99.0,
            "change": -30.6,
            "trend": "falling",
            # 100 · (1 - 10^(-100/200)), and from there to 90.
            "yesterday_last_period": 68.4,
            "complete_change": 21.6,
            "raw_score": 100,
        },
        "raw_score": 100,
        # All four quantiles are below 100.
        "percentile": 100.0,
        "frequency": 4,
        "adoption": 2 / 8,
        "adoption_all_time": 6 / 8,
        "recently_scored_events": 25,
        "overall_scored_events": 90,
        "last_active_at": None,
    }


def test_every_metric_that_an_account_adds() -> None:
    computed = account({"am.tier.number": 50})
    assert computed.scores.now == 68.4
    # There was no benchmark yesterday, so nobody scored.
    assert computed.scores.yesterday == 0.0
    assert computed.scores.last_period == 90.0
    assert computed.percentile == 0.0
    assert (computed.active_users, computed.total_users, computed.active_share) == (3, 12, 0.25)
    assert computed.license_utilization == 3 / 50


def test_a_change_over_complete_days_is_none_until_the_row_and_the_benchmark_are_there() -> None:
    assert user(raw_yesterday_last_period=None).scores.complete_change is None
    # The account's set has no benchmark of that day. Without points none is needed.
    assert account().scores.complete_change is None
    assert account(raw_yesterday_last_period=0).scores.complete_change == 0.0


@pytest.mark.parametrize(
    ("seats", "utilization"),
    [(2, 1.5), (3.0, 1.0), (0, None), (-5, None), ("50", None), (True, None), (None, None)],
)
def test_license_utilization_needs_a_number_of_seats(
    seats: object, utilization: float | None
) -> None:
    assert account({"am.tier.number": seats}).license_utilization == utilization
    assert account().license_utilization is None


def test_an_audience_has_no_license_utilization(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SCORE_SET, "audience", {"match": "all", "conditions": [{"kind": "active"}]})
    assert account({"am.tier.number": 2}).license_utilization is None


def test_ratios_without_a_denominator_are_none() -> None:
    assert account(active_users=0, total_users=0).active_share is None
    nothing_scored = ScoreSet(lookback_days=7)
    row = UserEngagement(**NUMBERS | {"raw": 0})
    computed = metrics.compute_user_metrics(row, nothing_scored, AllTimeTotals(0, 0))
    assert (computed.adoption, computed.adoption_all_time, computed.percentile) == (None, None, 0.0)


@pytest.mark.parametrize(
    ("now", "before", "change", "direction"),
    [
        (50.0, 40.0, 10.0, "rising"),
        (49.9, 40.0, 9.9, "steady"),
        # The difference of these two floats is a little below 10.
        (75.1, 65.1, 10.0, "rising"),
        (40.0, 50.0, -10.0, "falling"),
        (40.1, 50.0, -9.9, "steady"),
        (0.0, 0.0, 0.0, "steady"),
    ],
)
def test_a_trend_is_a_change_by_ten(
    now: float, before: float, change: float, direction: str
) -> None:
    assert score_change(now, before) == change
    assert classify_trend(change) == direction


@pytest.mark.parametrize(
    ("raw", "share"), [(1, 0.0), (10, 0.0), (11, 25.0), (20, 25.0), (30, 50.0), (41, 100.0)]
)
def test_a_percentile_is_the_share_with_a_lower_raw_score(raw: int, share: float) -> None:
    assert percentile_rank(raw, [10, 20, 30, 40]) == share


@pytest.mark.parametrize(
    ("number", "rounded"), [(0.05, 0.1), (0.04, 0.0), (99.96, 100.0), (-0.05, 0.0), (-9.96, -10.0)]
)
def test_numbers_are_rounded_to_tenths_halves_up(number: float, rounded: float) -> None:
    assert round_to_tenth(number) == rounded
