"""Each insight, its text, and the numbers that lead to it."""

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from engagement.scores.history import EventPoints
from engagement.scores.insights import AccountFacts, Insight, TopUser, apply_rules
from engagement.scores.metrics import AccountMetrics, Scores

TODAY = date(2026, 9, 24)
CALM = AccountFacts(
    metrics=AccountMetrics(
        scores=Scores(60.0, 60.0, 58.0, 2.0, "steady"),
        raw_score=100,
        percentile=50.0,
        frequency=5,
        adoption=0.5,
        adoption_all_time=0.5,
        recently_scored_events=100,
        overall_scored_events=900,
        last_active_at=datetime(2026, 9, 24, 8, tzinfo=UTC),
        active_users=10,
        total_users=12,
        active_share=10 / 12,
        license_utilization=None,
    ),
    event_points=[EventPoints("opened", 1, 100, 100, 98, 98)],
    traits={},
    top_user=TopUser(7, "ann", "Ann", 30),
    today=TODAY,
    lookback_days=7,
)


def facts(
    *,
    event_points: list[EventPoints] | None = None,
    traits: dict[str, Any] | None = None,
    **metrics: Any,
) -> AccountFacts:
    return replace(
        CALM,
        metrics=replace(CALM.metrics, **metrics),
        event_points=CALM.event_points if event_points is None else event_points,
        traits=traits or {},
    )


def event(name: str, before: int, now: int, weight: int = 1) -> EventPoints:
    return EventPoints(name, weight, now, now * weight, before, before * weight)


def only(found: list[Insight]) -> Insight:
    [insight] = found
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
    found = only(apply_rules(facts(raw_score=0, last_active_at=last_at)))
    assert (found.kind, found.severity) == ("activity_stopped", "warning")
    # Events with a weight of 0 may continue.
    assert found.text == text
    assert found.numbers["days"] == 24 - last_day


@pytest.mark.parametrize(
    "last_at", [None, datetime(2026, 6, 26, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)]
)
def test_an_account_that_stopped_long_ago_or_never_began_has_no_insight(
    last_at: datetime | None,
) -> None:
    assert apply_rules(facts(raw_score=0, last_active_at=last_at)) == []


def test_a_rising_score_names_the_events_behind_it() -> None:
    rising = facts(
        scores=Scores(80.8, 70.0, 57.4, 23.4, "rising"),
        event_points=[
            event("shared", 3, 15, weight=5),
            event("opened", 50, 57),
            event("paid", 0, 1),
            event("logged in", 0, 2),
            event("exported", 9, 1),
        ],
    )
    found = only(apply_rules(rising))
    assert (found.kind, found.severity) == ("trend_up", "good")
    assert found.text == (
        "The score rose by 23.4 to 80.8 in 7 days. Mainly because of “shared” (15 → 75 points), "
        "“opened” (50 → 57 points) and “logged in” (0 → 2 points)."
    )
    assert found.numbers["events"][0] == {
        "name": "shared",
        "count": 15,
        "last_period_count": 3,
        "points": 75,
        "last_period_points": 15,
        "points_change": 60,
    }


def test_a_falling_score_names_the_events_that_fell() -> None:
    falling = facts(
        scores=Scores(40.0, 45.0, 62.5, -22.5, "falling"),
        event_points=[event("opened", 90, 20), event("shared", 1, 2)],
    )
    found = only(apply_rules(falling))
    assert (found.kind, found.severity) == ("trend_down", "warning")
    assert found.text == (
        "The score fell by 22.5 to 40.0 in 7 days. Mainly because of “opened” (90 → 20 points)."
    )


def test_a_score_may_fall_because_others_rose() -> None:
    falling = facts(scores=Scores(40.0, 45.0, 62.5, -22.5, "falling"), event_points=[])
    assert only(apply_rules(falling)).text == "The score fell by 22.5 to 40.0 in 7 days."


def test_one_person_has_most_of_the_activity() -> None:
    account = replace(CALM, top_user=TopUser(7, "ann", "Ann", 70))
    found = only(apply_rules(account))
    assert found.text == "Ann accounts for 70% of this account’s activity (12 users in total)."
    assert found.numbers == {
        "user": {"id": 7, "tracking_id": "ann", "name": "Ann"},
        "share": 0.7,
        "total_users": 12,
    }
    nameless = replace(CALM, top_user=TopUser(7, "u-7", None, 70))
    assert only(apply_rules(nameless)).text.startswith("u-7 accounts for 70%")


def test_an_account_with_one_user_does_not_depend_on_one_person() -> None:
    alone = replace(facts(total_users=1), top_user=TopUser(7, "ann", "Ann", 100))
    assert apply_rules(alone) == []
    assert apply_rules(replace(CALM, top_user=TopUser(7, "ann", "Ann", 69))) == []


def test_breadth_narrows() -> None:
    names = [event(name, 5, 0) for name in ("a", "b", "c", "d")]
    found = only(apply_rules(facts(event_points=[event("e", 5, 5), event("f", 1, 1), *names])))
    assert found.text == (
        "Only 2 of 6 events are still in use. No longer used: “a”, “b”, “c” and 1 more."
    )
    assert found.numbers == {"event_names": 2, "event_names_last_period": 6}


@pytest.mark.parametrize(
    "event_points",
    [
        # Two of three are left; one of three, but three are few; three of five.
        [event("a", 1, 1), event("b", 1, 1), event("c", 1, 0)],
        [event("a", 1, 1), event("b", 1, 0), event("c", 1, 0)],
        [event(name, 1, now) for name, now in zip("abcde", (1, 1, 1, 0, 0), strict=True)],
    ],
)
def test_a_little_less_breadth_has_no_insight(event_points: list[EventPoints]) -> None:
    assert apply_rules(facts(event_points=event_points)) == []


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
    found = only(apply_rules(facts(traits={"am.tier.number": seats}, active_users=active)))
    assert (found.kind, found.text) == (kind, text)
    assert found.numbers["license_utilization"] == active / seats


@pytest.mark.parametrize(("seats", "active"), [(50, 15), (50, 50), ("50", 1), (0, 1)])
def test_a_license_in_ordinary_use_has_no_insight(seats: object, active: int) -> None:
    assert apply_rules(facts(traits={"am.tier.number": seats}, active_users=active)) == []


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


FALLING = Scores(40.0, 45.0, 62.5, -22.5, "falling")


@pytest.mark.parametrize(
    ("ends", "when"),
    [("2026-10-24", "in 30 days (24 Oct 2026)"), ("2026-11-23", "in 60 days (23 Nov 2026)")],
)
def test_a_renewal_is_at_risk_when_the_score_falls(ends: str, when: str) -> None:
    traits = {"am.licenseType": "COMMERCIAL", "am.maintenanceEndDate": ends}
    found = {insight.kind: insight for insight in apply_rules(facts(traits=traits, scores=FALLING))}
    assert set(found) == {"renewal_at_risk", "trend_down"}
    assert found["renewal_at_risk"].text == (
        f"The license is up for renewal {when}, and the score fell by 22.5 to 40.0."
    )


@pytest.mark.parametrize("ends", ["2026-11-24", "2026-09-23", None])
def test_a_distant_renewal_is_no_risk(ends: str | None) -> None:
    kinds = {
        insight.kind
        for insight in apply_rules(facts(traits={"am.maintenanceEndDate": ends}, scores=FALLING))
    }
    assert kinds == {"trend_down"}


def test_warnings_come_first() -> None:
    found = apply_rules(
        replace(
            facts(
                scores=Scores(80.8, 70.0, 57.4, 23.4, "rising"),
                traits={"am.tier.number": 100},
                event_points=[event("opened", 1, 100)],
            ),
            top_user=TopUser(7, "ann", "Ann", 90),
        )
    )
    assert [insight.severity for insight in found] == ["warning", "notice", "good"]


@pytest.mark.parametrize(
    ("active", "licensed", "share"),
    [(39, 15_000, "less than 1%"), (0, 50, "0%"), (1, 100, "1%"), (4, 50, "8%")],
)
def test_a_share_above_zero_is_never_0_percent(active: int, licensed: int, share: str) -> None:
    found = only(apply_rules(facts(active_users=active, traits={"am.tier.number": licensed})))
    assert found.text.startswith(f"Only {active} of {licensed:,} licensed seats ")
    assert found.text.endswith(f" active ({share}).")


def test_nearly_all_points_are_not_100_percent() -> None:
    account = replace(facts(raw_score=1000), top_user=TopUser(7, "ann", "Ann", 999))
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
    account = facts(traits=traits, scores=Scores(40.0, 45.0, 62.5, -22.5, "falling"))
    kinds = {"seats_exceeded", "seats_unused", "evaluation_ending", "renewal_at_risk"}
    assert {insight.kind for insight in apply_rules(account)} & kinds
    assert (
        not {insight.kind for insight in apply_rules(replace(account, has_audience=True))} & kinds
    )
