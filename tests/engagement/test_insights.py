"""Each insight, its text, and the numbers that lead to it."""

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from engagement.insight_kinds import INSIGHTS
from engagement.models import AccountEngagement, Product, ScoreSet
from engagement.scores import history
from engagement.scores.history import AllTimeTotals, EventPoints
from engagement.scores.insights import (
    AccountFacts,
    Details,
    Insight,
    TopUser,
    account_insights,
    apply_rules,
)
from engagement.scores.metrics import Scores, compute_account_metrics
from tests.admin.rows import fill

TODAY = date(2026, 9, 24)
CALM = AccountFacts(
    scores=Scores(60.0, 60.0, 58.0, 2.0, "steady"),
    raw_score=100,
    last_active_at=datetime(2026, 9, 24, 8, tzinfo=UTC),
    active_users=10,
    active_users_last_period=10,
    total_users=12,
    top_user_points=30,
    event_names=1,
    event_names_last_period=1,
    traits={},
    first_seen_at=datetime(2026, 3, 1, tzinfo=UTC),
    created_at=None,
    today=TODAY,
    lookback_days=7,
)
RISING = Scores(80.8, 70.0, 57.4, 23.4, "rising")
FALLING = Scores(40.0, 45.0, 62.5, -22.5, "falling")


def facts(**values: Any) -> AccountFacts:
    return replace(CALM, **values)


def event(name: str, before: int, now: int, weight: int = 1) -> EventPoints:
    return EventPoints(name, weight, now, now * weight, before, before * weight)


def only(insights: list[Insight]) -> Insight:
    [insight] = insights
    return insight


def test_a_calm_account_has_no_insights() -> None:
    assert apply_rules(CALM) == []


@pytest.mark.parametrize(
    ("last_day", "text"),
    [
        (12, "No scored activity for 12 days (last: 12 Sep 2026)."),
        (23, "No scored activity for 1 day (last: 23 Sep 2026)."),
    ],
)
def test_activity_stopped(last_day: int, text: str) -> None:
    last_at = datetime(2026, 9, last_day, 23, 59, tzinfo=UTC)
    insight = only(apply_rules(facts(raw_score=0, last_active_at=last_at)))
    assert (insight.kind, insight.severity) == ("activity_stopped", "warning")
    # Events with a weight of 0 may continue.
    assert insight.text == text
    assert insight.numbers["days"] == 24 - last_day


@pytest.mark.parametrize(
    "last_at", [None, datetime(2026, 6, 26, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)]
)
def test_an_account_that_stopped_long_ago_or_never_began_has_no_insight(
    last_at: datetime | None,
) -> None:
    assert apply_rules(facts(raw_score=0, last_active_at=last_at)) == []


def test_a_rising_score_names_the_events_behind_it() -> None:
    details = Details(
        [
            event("shared", 3, 15, weight=5),
            event("opened", 50, 57),
            event("paid", 0, 1),
            event("logged in", 0, 2),
            event("exported", 9, 1),
        ]
    )
    insight = only(apply_rules(facts(scores=RISING), details))
    assert (insight.kind, insight.severity) == ("trend_up", "good")
    assert insight.text == (
        "The score rose by 23.4 to 80.8 in 7 days. Mainly because of “shared” (15 → 75 points), "
        "“opened” (50 → 57 points) and “logged in” (0 → 2 points)."
    )
    assert insight.numbers["events"][0] == {
        "name": "shared",
        "count": 15,
        "last_period_count": 3,
        "points": 75,
        "last_period_points": 15,
        "points_change": 60,
    }


def test_a_falling_score_names_the_events_that_fell() -> None:
    details = Details([event("opened", 90, 20), event("shared", 1, 2)])
    insight = only(apply_rules(facts(scores=FALLING), details))
    assert (insight.kind, insight.severity) == ("trend_down", "warning")
    assert insight.text == (
        "The score fell by 22.5 to 40.0 in 7 days. Mainly because of “opened” (90 → 20 points)."
    )


def test_a_score_may_fall_because_others_rose() -> None:
    assert only(apply_rules(facts(scores=FALLING))).text == (
        "The score fell by 22.5 to 40.0 in 7 days."
    )


def test_one_person_has_most_of_the_activity() -> None:
    account = facts(top_user_points=70)
    ann = Details(top_user=TopUser(7, "ann", "Ann"))
    insight = only(apply_rules(account, ann))
    assert insight.text == "Ann accounts for 70% of this account’s activity (12 users in total)."
    assert insight.numbers == {
        "user": {"id": 7, "tracking_id": "ann", "name": "Ann"},
        "share": 0.7,
        "total_users": 12,
    }
    nameless = Details(top_user=TopUser(7, "u-7", None))
    assert only(apply_rules(account, nameless)).text.startswith("u-7 accounts for 70%")
    assert only(apply_rules(account)).text.startswith("One user accounts for 70%")


def test_an_account_with_one_user_does_not_depend_on_one_person() -> None:
    assert apply_rules(facts(total_users=1, top_user_points=100)) == []
    assert apply_rules(facts(top_user_points=69)) == []


@pytest.mark.django_db
def test_nobody_looks_for_the_top_user_of_an_account_that_depends_on_none(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = fill(acme)
    [row] = AccountEngagement.objects.select_related("account")
    assert rows.workspace.scores is not None
    metrics = compute_account_metrics(row, rows.workspace.scores, AllTimeTotals(0, 0), {})
    looked_up: list[int] = []

    def note(score_set: ScoreSet, account_id: int, limit: int) -> list[history.UserPoints]:
        looked_up.append(account_id)
        return []

    monkeypatch.setattr(history, "points_by_user", note)
    account_insights(rows.workspace.scores, row, metrics, [])
    assert looked_up == []
    row.top_user_points, row.total_users = row.raw, 2
    account_insights(rows.workspace.scores, row, metrics, [])
    assert looked_up == [row.account_id]


def test_breadth_narrows() -> None:
    names = [event(name, 5, 0) for name in ("a", "b", "c", "d")]
    details = Details([event("e", 5, 5), event("f", 1, 1), *names])
    account = facts(event_names=2, event_names_last_period=6)
    insight = only(apply_rules(account, details))
    assert insight.text == (
        "Only 2 of 6 events are still in use. No longer used: “a”, “b”, “c” and 1 more."
    )
    assert insight.numbers == {"event_names": 2, "event_names_last_period": 6}
    assert only(apply_rules(account)).text == "Only 2 of 6 events are still in use."


@pytest.mark.parametrize(("now", "before"), [(2, 3), (1, 3), (3, 5), (0, 6)])
def test_a_little_less_breadth_has_no_insight(now: int, before: int) -> None:
    assert apply_rules(facts(event_names=now, event_names_last_period=before)) == []


@pytest.mark.parametrize(
    ("seats", "active", "kind", "text"),
    [
        (50, 12, "seats_unused", "Only 12 of 50 licensed seats are active (24%)."),
        (50, 1, "seats_unused", "Only 1 of 50 licensed seats is active (2%)."),
        (15000, 20, "seats_unused", "Only 20 of 15,000 licensed seats are active (less than 1%)."),
        (2.5, 5, "seats_exceeded", "More users are active (5) than seats are licensed (2.5)."),
        (50, 63, "seats_exceeded", "More users are active (63) than seats are licensed (50)."),
    ],
)
def test_licensed_seats(seats: float, active: int, kind: str, text: str) -> None:
    account = facts(
        traits={"am.tier.number": seats}, active_users=active, active_users_last_period=50
    )
    insight = only(apply_rules(account))
    assert (insight.kind, insight.text) == (kind, text)
    assert insight.numbers["license_utilization"] == active / seats


def test_an_insight_about_what_is_at_stake_says_what_the_account_pays() -> None:
    traits = {"am.tier.number": 5, "mrr": 123400}
    paying = facts(scores=FALLING, traits=traits)
    falling, exceeded = apply_rules(paying)
    assert (falling.kind, exceeded.kind) == ("trend_down", "seats_exceeded")
    for insight in (falling, exceeded):
        assert insight.text.endswith(". MRR: 1,234.00.")
        assert insight.numbers["mrr"] == 123400
    rising = apply_rules(replace(paying, scores=RISING, active_users=5))
    assert [(insight.kind, "mrr" in insight.numbers) for insight in rising] == [("trend_up", False)]
    unclear = facts(scores=FALLING, traits={"mrr": "a lot"})
    assert "MRR" not in only(apply_rules(unclear)).text


@pytest.mark.parametrize(("seats", "active"), [(50, 15), (50, 50), ("50", 1), (0, 1)])
def test_a_license_in_ordinary_use_has_no_insight(seats: object, active: int) -> None:
    account = facts(
        traits={"am.tier.number": seats}, active_users=active, active_users_last_period=50
    )
    assert apply_rules(account) == []


@pytest.mark.parametrize(
    ("active", "before", "traits", "is_news"),
    [
        (9, 12, {}, True),
        (10, 12, {}, False),
        (0, 0, {}, False),
        (12, 12, {"am.maintenanceEndDate": "2026-11-23"}, True),
        (12, 12, {"am.maintenanceEndDate": "2026-11-24"}, False),
        # Evaluations are not renewed.
        (12, 12, {"am.licenseType": "Evaluation", "am.maintenanceEndDate": "2026-11-23"}, False),
    ],
)
def test_unused_seats_are_news_where_use_fell_or_the_renewal_is_near(
    active: int, before: int, traits: dict[str, Any], is_news: bool
) -> None:
    account = facts(
        traits={"am.tier.number": 500, **traits},
        active_users=active,
        active_users_last_period=before,
    )
    assert [insight.kind for insight in apply_rules(account)] == ["seats_unused"] * is_news


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ("2026-09-24", "The evaluation ends today (24 Sep 2026)."),
        ("2026-09-25", "The evaluation ends tomorrow (25 Sep 2026)."),
        ("2026-10-08", "The evaluation ends in 14 days (8 Oct 2026)."),
        ("2026-10-09", None),
        ("2026-09-23", None),
        ("soon", None),
    ],
)
def test_an_evaluation_ends(ends: str, text: str | None) -> None:
    traits = {"am.licenseType": "EVALUATION", "am.evaluationEndDate": ends}
    texts = [insight.text for insight in apply_rules(facts(traits=traits))]
    assert texts == ([text] if text else [])


def test_an_evaluation_without_an_end_date_ends_with_its_maintenance() -> None:
    traits = {"am.licenseType": "evaluation", "am.maintenanceEndDate": "2026-09-30"}
    assert only(apply_rules(facts(traits=traits))).numbers["days"] == 6


@pytest.mark.parametrize(
    ("ends", "when"),
    [("2026-10-24", "in 30 days (24 Oct 2026)"), ("2026-11-23", "in 60 days (23 Nov 2026)")],
)
def test_a_renewal_is_at_risk_when_the_score_falls(ends: str, when: str) -> None:
    traits = {"am.licenseType": "COMMERCIAL", "am.maintenanceEndDate": ends}
    by_kind = {
        insight.kind: insight for insight in apply_rules(facts(traits=traits, scores=FALLING))
    }
    assert set(by_kind) == {"renewal_at_risk", "trend_down"}
    assert by_kind["renewal_at_risk"].text == (
        f"The license is up for renewal {when}, and the score fell by 22.5 to 40.0."
    )


@pytest.mark.parametrize("ends", ["2026-11-24", "2026-09-23", None])
def test_a_distant_renewal_is_no_risk(ends: str | None) -> None:
    kinds = {
        insight.kind
        for insight in apply_rules(facts(traits={"am.maintenanceEndDate": ends}, scores=FALLING))
    }
    assert kinds == {"trend_down"}


@pytest.mark.parametrize(
    ("ends", "kinds"),
    [
        ("2026-10-24", {"renewal_at_risk", "activity_stopped"}),
        ("2027-10-24", {"activity_stopped"}),
    ],
)
def test_a_renewal_is_at_risk_after_activity_stopped(ends: str, kinds: set[str]) -> None:
    account = facts(
        raw_score=0,
        scores=Scores(0.0, 0.0, 0.0, 0.0, "steady"),
        last_active_at=datetime(2026, 8, 15, 8, tzinfo=UTC),
        traits={"am.maintenanceEndDate": ends},
    )
    text_by_kind = {insight.kind: insight.text for insight in apply_rules(account)}
    assert set(text_by_kind) == kinds
    if "renewal_at_risk" in text_by_kind:
        assert text_by_kind["renewal_at_risk"] == (
            "The license is up for renewal in 30 days (24 Oct 2026), and there has been no scored "
            "activity for 40 days."
        )


@pytest.mark.parametrize(
    ("times", "text"),
    [
        ({"first_seen_at": datetime(2026, 9, 11, tzinfo=UTC)}, "first seen 13 days ago"),
        ({"created_at": datetime(2026, 9, 23, 23, tzinfo=UTC)}, "created yesterday"),
        ({"created_at": datetime(2026, 9, 30, tzinfo=UTC)}, "created today"),
    ],
)
def test_an_account_younger_than_two_periods_is_new_and_compared_with_nothing(
    times: dict[str, datetime], text: str
) -> None:
    for scores in (RISING, FALLING):
        account = facts(
            scores=scores,
            event_names=1,
            event_names_last_period=9,
            active_users_last_period=90,
            traits={"am.tier.number": 500},
            **times,
        )
        insight = only(apply_rules(account))
        assert (insight.kind, insight.severity) == ("new_account", "notice")
        assert insight.text == f"New: {text}. The score is {scores.now}."


def test_an_account_two_periods_old_is_compared() -> None:
    old = facts(scores=RISING, first_seen_at=datetime(2026, 9, 10, 23, tzinfo=UTC))
    assert only(apply_rules(old)).kind == "trend_up"


def test_insights_come_in_the_order_of_what_they_cost() -> None:
    account = facts(
        scores=RISING,
        traits={"am.tier.number": 5},
        top_user_points=90,
        event_names_last_period=4,
    )
    insights = apply_rules(account)
    assert [insight.kind for insight in insights] == [
        "seats_exceeded",
        "one_person",
        "breadth_narrowing",
        "trend_up",
    ]
    severities = [info.severity for info in INSIGHTS.values()]
    assert severities == sorted(severities, key=["warning", "notice", "good"].index)


@pytest.mark.parametrize(
    ("active", "licensed", "share"),
    [(39, 15_000, "less than 1%"), (0, 50, "0%"), (1, 100, "1%"), (4, 50, "8%")],
)
def test_a_share_above_zero_is_never_0_percent(active: int, licensed: int, share: str) -> None:
    account = facts(
        active_users=active,
        active_users_last_period=100,
        traits={"am.tier.number": licensed},
    )
    insight = only(apply_rules(account))
    assert insight.text.startswith(f"Only {active} of {licensed:,} licensed seats ")
    assert insight.text.endswith(f" active ({share}).")


def test_nearly_all_points_are_not_100_percent() -> None:
    account = facts(raw_score=1000, top_user_points=999)
    assert "more than 99% of this account’s activity" in only(apply_rules(account)).text


@pytest.mark.parametrize(
    "traits",
    [
        {"am.tier.number": 2},
        {"am.tier.number": 5000},
        {"am.licenseType": "EVALUATION", "am.maintenanceEndDate": "2026-09-30"},
        {"am.maintenanceEndDate": "2026-09-30"},
    ],
)
def test_an_audience_has_no_insights_about_the_license(traits: dict[str, Any]) -> None:
    """The license covers all users of the account, the numbers only some."""
    account = facts(traits=traits, scores=FALLING, active_users_last_period=20)
    kinds = {"seats_exceeded", "seats_unused", "evaluation_ending", "renewal_at_risk"}
    assert {insight.kind for insight in apply_rules(account)} & kinds
    assert (
        not {insight.kind for insight in apply_rules(replace(account, has_audience=True))} & kinds
    )
