"""Each insight, with the numbers that lead to it."""

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
    made_of=[EventPoints("opened", 1, 100, 100, 98, 98)],
    traits={},
    top_user=TopUser(7, "ann", "Ann", 30),
    today=TODAY,
    lookback_days=7,
)


def facts(
    *,
    made_of: list[EventPoints] | None = None,
    traits: dict[str, Any] | None = None,
    **metrics: Any,
) -> AccountFacts:
    return replace(
        CALM,
        metrics=replace(CALM.metrics, **metrics),
        made_of=CALM.made_of if made_of is None else made_of,
        traits=traits or {},
    )


def event(name: str, before: int, now: int, weight: int = 1) -> EventPoints:
    return EventPoints(name, weight, now, now * weight, before, before * weight)


def only(found: list[Insight]) -> Insight:
    [insight] = found
    return insight


def test_a_calm_account_has_none() -> None:
    assert apply_rules(CALM) == []


@pytest.mark.parametrize(
    ("last_day", "says"),
    [
        (12, "for 12 days. The last scored event was on 2026-09-12."),
        (23, "for a day. The last scored event was on 2026-09-23."),
    ],
)
def test_activity_stopped(last_day: int, says: str) -> None:
    last_at = datetime(2026, 9, last_day, 23, 59, tzinfo=UTC)
    found = only(apply_rules(facts(raw_score=0, last_active_at=last_at)))
    assert (found.kind, found.severity) == ("activity_stopped", "warning")
    # Events that weigh nothing may go on.
    assert found.text == f"Nothing that is scored has happened {says}"
    assert found.numbers["days"] == 24 - last_day


@pytest.mark.parametrize(
    "last_at", [None, datetime(2026, 6, 26, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)]
)
def test_what_stopped_long_ago_or_never_began_is_no_news(last_at: datetime | None) -> None:
    assert apply_rules(facts(raw_score=0, last_active_at=last_at)) == []


def test_a_rising_score_names_what_moved_it_most() -> None:
    rising = facts(
        scores=Scores(80.8, 70.0, 57.4, 23.4, "rising"),
        made_of=[
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
        "The score rose by 23.4 to 80.8 within 7 days. What moved it most: "
        "“shared” (15 points before, 75 now), “opened” (50 points before, 57 now) and "
        "“logged in” (0 points before, 2 now)."
    )
    assert found.numbers["events"][0] == {
        "name": "shared",
        "count": 15,
        "last_period_count": 3,
        "points": 75,
        "last_period_points": 15,
        "points_change": 60,
    }


def test_a_falling_score_names_what_fell() -> None:
    falling = facts(
        scores=Scores(40.0, 45.0, 62.5, -22.5, "falling"),
        made_of=[event("opened", 90, 20), event("shared", 1, 2)],
    )
    found = only(apply_rules(falling))
    assert (found.kind, found.severity) == ("trend_down", "warning")
    assert found.text == (
        "The score fell by 22.5 to 40.0 within 7 days. What moved it most: "
        "“opened” (90 points before, 20 now)."
    )


def test_a_score_may_fall_because_others_rose() -> None:
    falling = facts(scores=Scores(40.0, 45.0, 62.5, -22.5, "falling"), made_of=[])
    assert only(apply_rules(falling)).text == "The score fell by 22.5 to 40.0 within 7 days."


def test_one_person_carries_the_account() -> None:
    carried = replace(CALM, top_user=TopUser(7, "ann", "Ann", 70))
    found = only(apply_rules(carried))
    assert found.text == (
        "One person carries the account: 70% of its points come from Ann, one of 12 users."
    )
    assert found.numbers == {
        "user": {"id": 7, "tracking_id": "ann", "name": "Ann"},
        "share": 0.7,
        "total_users": 12,
    }
    nameless = replace(CALM, top_user=TopUser(7, "u-7", None, 70))
    assert "come from u-7," in only(apply_rules(nameless)).text


def test_a_single_user_carries_nobody() -> None:
    alone = replace(facts(total_users=1), top_user=TopUser(7, "ann", "Ann", 100))
    assert apply_rules(alone) == []
    assert apply_rules(replace(CALM, top_user=TopUser(7, "ann", "Ann", 69))) == []


def test_breadth_narrows() -> None:
    names = [event(name, 5, 0) for name in ("a", "b", "c", "d")]
    found = only(apply_rules(facts(made_of=[event("e", 5, 5), event("f", 1, 1), *names])))
    assert found.text == (
        "Fewer features are used: 2 of 6 kinds of events are left. "
        "Gone are “a”, “b” and “c” and others."
    )
    assert found.numbers == {"event_names": 2, "event_names_last_period": 6}


@pytest.mark.parametrize(
    "made_of",
    [
        # Two of three are left; one of three, but three are few; three of five.
        [event("a", 1, 1), event("b", 1, 1), event("c", 1, 0)],
        [event("a", 1, 1), event("b", 1, 0), event("c", 1, 0)],
        [event(name, 1, now) for name, now in zip("abcde", (1, 1, 1, 0, 0), strict=True)],
    ],
)
def test_a_little_less_breadth_is_no_news(made_of: list[EventPoints]) -> None:
    assert apply_rules(facts(made_of=made_of)) == []


@pytest.mark.parametrize(
    ("seats", "active", "kind", "says"),
    [
        (50, 12, "seats_unused", "12 people are active, and it is for 50 (24%)."),
        (50, 1, "seats_unused", "1 person is active, and it is for 50 (2%)."),
        (50, 63, "seats_exceeded", "63 people are active on a license for 50."),
        (15000, 20, "seats_unused", "20 people are active, and it is for 15,000 (less than 1%)."),
        (
            2000000,
            20,
            "seats_unused",
            "20 people are active, and it is for 2,000,000 (less than 1%).",
        ),
        (2.5, 5, "seats_exceeded", "5 people are active on a license for 2.5."),
    ],
)
def test_licensed_seats(seats: float, active: int, kind: str, says: str) -> None:
    found = only(apply_rules(facts(traits={"am.tier.number": seats}, active_users=active)))
    assert found.kind == kind and found.text.endswith(says)
    assert found.numbers["license_utilization"] == active / seats


@pytest.mark.parametrize(("seats", "active"), [(50, 15), (50, 50), ("50", 1), (0, 1)])
def test_a_license_in_fair_use_is_no_news(seats: object, active: int) -> None:
    assert apply_rules(facts(traits={"am.tier.number": seats}, active_users=active)) == []


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ("2026-09-24", "The evaluation ends today, on 2026-09-24."),
        ("2026-09-25", "The evaluation ends tomorrow, on 2026-09-25."),
        ("2026-10-08", "The evaluation ends in 14 days, on 2026-10-08."),
        ("2026-10-09", None),
        ("2026-09-23", None),
        ("soon", None),
    ],
)
def test_an_evaluation_ends(ends: str, says: str | None) -> None:
    traits = {"am.licenseType": "EVALUATION", "am.evaluationEndDate": ends}
    assert [found.text for found in apply_rules(facts(traits=traits))] == ([says] if says else [])


def test_an_evaluation_without_a_date_of_its_own_ends_with_its_maintenance() -> None:
    traits = {"am.licenseType": "evaluation", "am.maintenanceEndDate": "2026-09-30"}
    assert only(apply_rules(facts(traits=traits))).numbers["days"] == 6


FALLING = Scores(40.0, 45.0, 62.5, -22.5, "falling")


@pytest.mark.parametrize(("ends", "days"), [("2026-10-24", 30), ("2026-11-23", 60)])
def test_a_renewal_is_at_risk_where_use_falls(ends: str, days: int) -> None:
    traits = {"am.licenseType": "COMMERCIAL", "am.maintenanceEndDate": ends}
    found = {one.kind: one for one in apply_rules(facts(traits=traits, scores=FALLING))}
    assert set(found) == {"renewal_at_risk", "trend_down"}
    assert found["renewal_at_risk"].text == (
        f"The license is up for renewal in {days} days, on {ends}, "
        "and the score fell by 22.5 to 40.0."
    )


@pytest.mark.parametrize("ends", ["2026-11-24", "2026-09-23", None])
def test_no_renewal_near_is_no_risk(ends: str | None) -> None:
    kinds = {
        one.kind
        for one in apply_rules(facts(traits={"am.maintenanceEndDate": ends}, scores=FALLING))
    }
    assert kinds == {"trend_down"}


def test_warnings_come_first() -> None:
    found = apply_rules(
        replace(
            facts(
                scores=Scores(80.8, 70.0, 57.4, 23.4, "rising"),
                traits={"am.tier.number": 100},
                made_of=[event("opened", 1, 100)],
            ),
            top_user=TopUser(7, "ann", "Ann", 90),
        )
    )
    assert [one.severity for one in found] == ["warning", "notice", "good"]


@pytest.mark.parametrize(
    ("active", "licensed", "share"),
    [(39, 15_000, "less than 1%"), (0, 50, "0%"), (1, 100, "1%"), (4, 50, "8%")],
)
def test_a_share_above_zero_is_never_shown_as_zero(active: int, licensed: int, share: str) -> None:
    found = only(apply_rules(facts(active_users=active, traits={"am.tier.number": licensed})))
    assert found.text.endswith(f"it is for {licensed:,} ({share}).")


def test_nearly_all_points_are_not_all() -> None:
    carried = replace(facts(raw_score=1000), top_user=TopUser(7, "ann", "Ann", 999))
    assert "more than 99% of its points" in only(apply_rules(carried)).text


@pytest.mark.parametrize(
    "traits",
    [
        {"am.tier.number": 2},
        {"am.tier.number": 5000},
        {"am.licenseType": "EVALUATION", "am.maintenanceEndDate": "2026-09-30"},
        {"am.maintenanceEndDate": "2026-09-30"},
    ],
)
def test_a_license_says_nothing_about_an_audience(traits: dict[str, Any]) -> None:
    """It is for everybody in the account, and the numbers are of some."""
    known = facts(traits=traits, scores=Scores(40.0, 45.0, 62.5, -22.5, "falling"))
    kinds = {"seats_exceeded", "seats_unused", "evaluation_ending", "renewal_at_risk"}
    assert {one.kind for one in apply_rules(known)} & kinds
    assert not {one.kind for one in apply_rules(replace(known, of_audience=True))} & kinds
