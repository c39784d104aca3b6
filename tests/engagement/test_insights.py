"""Each insight, its text, and the numbers that lead to it."""

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from engagement.activity.reading import NO_ALARMS, AccountAlarms
from engagement.insight_kinds import INSIGHTS
from engagement.models import AccountEngagement, Product, ScoreSet, User
from engagement.scores import history
from engagement.scores.history import AllTimeTotals
from engagement.scores.insights import (
    AccountFacts,
    Insight,
    People,
    TopUser,
    account_insights,
    apply_rules,
)
from engagement.scores.metrics import Scores, compute_account_metrics
from tests.admin.rows import fill
from tests.engagement.alarms.rows import figures
from tests.engagement.history import identify, tell

TODAY = date(2026, 9, 24)
CALM = AccountFacts(
    scores=Scores(60.0, 60.0, 58.0, 2.0, "steady"),
    points=100,
    last_active_at=datetime(2026, 9, 24, 8, tzinfo=UTC),
    active_users=10,
    total_users=12,
    top_user_points=30,
    traits={},
    first_seen_at=datetime(2026, 3, 1, tzinfo=UTC),
    created_at=None,
    today=TODAY,
    lookback_days=7,
)


def alarmed(*signals: str, **values: Any) -> AccountAlarms:
    return AccountAlarms.of(figures(signal, **values) for signal in signals)


def facts(**values: Any) -> AccountFacts:
    return replace(CALM, **values)


def only(insights: list[Insight]) -> Insight:
    [insight] = insights
    return insight


def test_a_calm_account_has_no_insights() -> None:
    assert apply_rules(CALM) == []


def test_activity_stopped() -> None:
    last_at = datetime(2026, 9, 10, 23, 59, tzinfo=UTC)
    alarms = alarmed("fall", is_stopped=True, observed=0)
    insight = only(apply_rules(facts(last_active_at=last_at, alarms=alarms)))
    assert (insight.kind, insight.severity) == ("activity_stopped", "warning")
    assert insight.text == "No activity for 14 days; expected 11–26 user-days in that time."
    assert insight.numbers["days"] == 14
    assert insight.numbers["last_active_on"] == "2026-09-10"
    assert insight.numbers["observed"] == 0


def test_a_user_who_came_today_ends_the_silence_before_the_night_does() -> None:
    insight = only(apply_rules(facts(alarms=alarmed("fall", is_stopped=True, observed=0))))
    assert insight.kind == "activity_stopped"
    assert insight.text.startswith("Usually 11–26 active user-days in two weeks, now 0.")


def test_activity_falls() -> None:
    insight = only(apply_rules(facts(alarms=alarmed("fall"))))
    assert (insight.kind, insight.severity) == ("trend_down", "warning")
    assert insight.text == (
        "Usually 11–26 active user-days in two weeks, now 4. By chance this account would do so "
        "less than once in 10 years. Since 4 September."
    )
    assert insight.numbers["since"] == "2026-09-04"
    assert insight.numbers["users"] == 12
    assert insight.numbers["score_change"] == 2.0


def test_activity_rises() -> None:
    insight = only(apply_rules(facts(alarms=alarmed("rise", observed=40))))
    assert (insight.kind, insight.severity) == ("trend_up", "good")
    assert "now 40." in insight.text


def test_an_account_that_falls_does_not_rise_as_well() -> None:
    assert only(apply_rules(facts(alarms=alarmed("rise", "fall")))).kind == "trend_down"


def test_a_score_that_changes_is_no_insight() -> None:
    for scores in (Scores(80.8, 70, 57.4, 23.4, "rising"), Scores(40, 45, 62.5, -22.5, "falling")):
        assert apply_rules(facts(scores=scores)) == []


def test_an_alarm_that_settled_is_no_insight() -> None:
    assert apply_rules(facts(alarms=alarmed("fall", outcome="settled", ended_on=TODAY))) == []


def test_one_person_has_most_of_the_activity() -> None:
    account = facts(top_user_points=70)
    ann = People(top_user=TopUser(7, "ann", "Ann"))
    insight = only(apply_rules(account, ann))
    assert insight.text == "Ann accounts for 70% of this account’s activity (12 users in total)."
    assert insight.numbers == {
        "user": {"id": 7, "tracking_id": "ann", "name": "Ann"},
        "share": 0.7,
        "total_users": 12,
    }
    nameless = People(top_user=TopUser(7, "u-7", None))
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
    account_insights(rows.workspace.scores, row, metrics, NO_ALARMS)
    assert looked_up == []
    row.top_user_points, row.total_users = row.raw, 2
    account_insights(rows.workspace.scores, row, metrics, NO_ALARMS)
    assert looked_up == [row.account_id]


def test_events_that_are_no_longer_used_are_named() -> None:
    insight = only(apply_rules(facts(alarms=alarmed("feature"))))
    assert (insight.kind, insight.severity) == ("breadth_narrowing", "notice")
    assert insight.text == (
        "No longer used: “shared”. Of 412 habits comparable to the first, 2 ended like this."
    )
    events = [{"name": name, "comparable": 9, "ended": 1} for name in "abcde"]
    insight = only(apply_rules(facts(alarms=alarmed("feature", details={"events": events}))))
    assert insight.text.startswith("No longer used: “a”, “b”, “c” and 2 more. Of 9 habits")
    assert [event["name"] for event in insight.numbers["events"]] == list("abcde")


def test_users_leave() -> None:
    insight = only(apply_rules(facts(alarms=alarmed("leaving", window_days=28))))
    assert (insight.kind, insight.severity) == ("users_leaving", "warning")
    assert insight.text == (
        "2 of 5 regular users have not been seen for 28 days. Of comparable users, 14% have not."
    )
    # A token that reads accounts only must not learn of users.
    assert insight.numbers == {
        "quiet": 2,
        "regular": 5,
        "usual_share": 0.14,
        "p": 0.0004,
        "since": "2026-09-04",
    }


def test_the_most_active_user_is_quiet() -> None:
    account = facts(alarms=alarmed("key_user"))
    ann = TopUser(7, "ann", "Ann")
    insight = only(apply_rules(account, People(key_user=ann)))
    assert (insight.kind, insight.severity) == ("key_user_quiet", "notice")
    assert insight.text == (
        "Ann has not been seen for 30 days. Before, 60% of this account’s active user-days were "
        "theirs."
    )
    assert insight.numbers["user"] == {"id": 7, "tracking_id": "ann", "name": "Ann"}
    nobody = only(apply_rules(account))
    assert nobody.text.startswith("The most active user has not been seen for 30 days.")
    assert nobody.numbers["user"] is None


@pytest.mark.django_db
def test_the_quiet_user_is_found_by_the_alarm(acme: Product) -> None:
    rows = fill(acme)
    tell(acme, identify("zoe", name="Zoe"))
    zoe = User.objects.get(external_id="zoe")
    [row] = AccountEngagement.objects.select_related("account")
    assert rows.workspace.scores is not None
    metrics = compute_account_metrics(row, rows.workspace.scores, AllTimeTotals(0, 0), {})
    details = {"users": [zoe.pk], "share": 0.5, "last_day": "2026-08-20"}
    alarms = alarmed("key_user", details=details)
    for names_users, name in ((True, "Zoe"), (False, "The most active user")):
        insights = account_insights(
            rows.workspace.scores, row, metrics, alarms, names_users=names_users
        )
        (quiet,) = [insight for insight in insights if insight.kind == "key_user_quiet"]
        assert quiet.text.startswith(f"{name} has not been seen")


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
        traits={"am.tier.number": seats, "am.maintenanceEndDate": "2026-10-24"},
        active_users=active,
    )
    insight = only(apply_rules(account))
    assert (insight.kind, insight.text) == (kind, text)
    assert insight.numbers["license_utilization"] == active / seats


def test_an_insight_about_what_is_at_stake_says_what_the_account_pays() -> None:
    traits = {"am.tier.number": 5, "mrr": 123400}
    paying = facts(traits=traits, alarms=alarmed("fall"))
    falling, exceeded = apply_rules(paying)
    assert (falling.kind, exceeded.kind) == ("trend_down", "seats_exceeded")
    for insight in (falling, exceeded):
        assert insight.text.endswith(". MRR: 1,234.00.")
        assert insight.numbers["mrr"] == 123400
    rising = apply_rules(replace(paying, alarms=alarmed("rise"), active_users=5))
    assert [(insight.kind, "mrr" in insight.numbers) for insight in rising] == [("trend_up", False)]
    free = facts(alarms=alarmed("fall"), traits={"mrr": 0})
    assert all("MRR" not in insight.text for insight in apply_rules(free))
    unclear = facts(alarms=alarmed("fall"), traits={"mrr": "a lot"})
    assert "MRR" not in only(apply_rules(unclear)).text


@pytest.mark.parametrize(("seats", "active"), [(50, 15), (50, 50), ("50", 1), (0, 1)])
def test_a_license_in_ordinary_use_has_no_insight(seats: object, active: int) -> None:
    account = facts(
        traits={"am.tier.number": seats, "am.maintenanceEndDate": "2026-10-24"},
        active_users=active,
    )
    assert apply_rules(account) == []


@pytest.mark.parametrize(
    ("alarms", "traits", "is_news"),
    [
        (NO_ALARMS, {}, False),
        (alarmed("leaving"), {}, True),
        (alarmed("fall"), {}, False),
        (NO_ALARMS, {"am.maintenanceEndDate": "2026-11-23"}, True),
        (NO_ALARMS, {"am.maintenanceEndDate": "2026-11-24"}, False),
        # Evaluations are not renewed.
        (NO_ALARMS, {"am.licenseType": "Evaluation", "am.maintenanceEndDate": "2026-11-23"}, False),
    ],
)
def test_unused_seats_are_news_where_users_leave_or_the_renewal_is_near(
    alarms: AccountAlarms, traits: dict[str, Any], is_news: bool
) -> None:
    account = facts(traits={"am.tier.number": 500, **traits}, alarms=alarms)
    kinds = [insight.kind for insight in apply_rules(account)]
    assert ("seats_unused" in kinds) == is_news


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


@pytest.mark.parametrize(
    ("license_type", "is_evaluation"),
    [
        ("NET_NEW_EVALUATION", True),
        ("net_new_evaluation", True),
        # A paid license of which another edition is tried.
        ("UPGRADE_EVALUATION", False),
        ("COMMERCIAL", False),
    ],
)
def test_evaluations_are_known_by_their_kind(license_type: str, is_evaluation: bool) -> None:
    traits = {"am.licenseType": license_type, "am.maintenanceEndDate": "2026-09-30"}
    kinds = [insight.kind for insight in apply_rules(facts(traits=traits, alarms=alarmed("fall")))]
    assert ("evaluation_ending" in kinds) == is_evaluation
    assert ("renewal_at_risk" in kinds) != is_evaluation


@pytest.mark.parametrize(
    ("starts", "is_renewal"),
    [
        ({"am.latestMaintenanceStartDate": "2026-08-30"}, False),
        ({"am.latestMaintenanceStartDate": "2026-08-22"}, False),
        ({"am.latestMaintenanceStartDate": "2026-08-21"}, True),
        ({"am.latestMaintenanceStartDate": "2025-09-30"}, True),
        ({"am.maintenanceStartDate": "2026-08-30"}, False),
        # The start of the last term counts, not the one of the first.
        (
            {
                "am.latestMaintenanceStartDate": "2026-08-30",
                "am.maintenanceStartDate": "2024-01-30",
            },
            False,
        ),
        ({}, True),
    ],
)
def test_a_month_is_not_up_for_renewal(starts: dict[str, str], is_renewal: bool) -> None:
    traits = {"am.tier.number": 500, "am.maintenanceEndDate": "2026-09-30", **starts}
    kinds = [insight.kind for insight in apply_rules(facts(traits=traits, alarms=alarmed("fall")))]
    assert ("renewal_at_risk" in kinds) == is_renewal
    assert ("seats_unused" in kinds) == is_renewal


def test_a_cancelled_subscription_says_when_it_ends() -> None:
    traits = {
        "am.status": "cancelled",
        "am.latestMaintenanceStartDate": "2026-08-30",
        "am.maintenanceEndDate": "2026-09-30",
        "mrr": 123400,
    }
    ending, falling = apply_rules(facts(traits=traits, alarms=alarmed("fall")))
    assert (ending.kind, falling.kind) == ("license_ending", "trend_down")
    assert ending.text == (
        "The subscription is cancelled and ends in 6 days (30 Sep 2026). MRR: 1,234.00."
    )
    for change in ({"am.maintenanceEndDate": "2026-11-24"}, {"am.licenseType": "EVALUATION"}):
        kinds = [insight.kind for insight in apply_rules(facts(traits={**traits, **change}))]
        assert "license_ending" not in kinds


def test_an_evaluation_without_an_end_date_ends_with_its_maintenance() -> None:
    traits = {"am.licenseType": "evaluation", "am.maintenanceEndDate": "2026-09-30"}
    assert only(apply_rules(facts(traits=traits))).numbers["days"] == 6


@pytest.mark.parametrize(
    ("ends", "when"),
    [("2026-10-24", "in 30 days (24 Oct 2026)"), ("2026-11-23", "in 60 days (23 Nov 2026)")],
)
@pytest.mark.parametrize(
    ("alarms", "kinds", "reason"),
    [
        (alarmed("fall"), ["trend_down"], "activity is falling"),
        (alarmed("fall", is_stopped=True), ["activity_stopped"], "activity has stopped"),
        (alarmed("leaving"), ["users_leaving"], "users are leaving"),
        (
            alarmed("fall", "leaving"),
            ["users_leaving", "trend_down"],
            "activity is falling and users are leaving",
        ),
    ],
)
def test_a_renewal_is_at_risk_when_activity_falls_or_users_leave(
    ends: str, when: str, alarms: AccountAlarms, kinds: list[str], reason: str
) -> None:
    traits = {"am.licenseType": "COMMERCIAL", "am.maintenanceEndDate": ends}
    risk, *others = apply_rules(facts(traits=traits, alarms=alarms))
    assert risk.kind == "renewal_at_risk"
    assert [insight.kind for insight in others] == kinds
    assert risk.text == f"The license is up for renewal {when}, and {reason}."


@pytest.mark.parametrize("ends", ["2026-11-24", "2026-09-23", None])
def test_a_distant_renewal_is_no_risk(ends: str | None) -> None:
    account = facts(traits={"am.maintenanceEndDate": ends}, alarms=alarmed("fall"))
    assert only(apply_rules(account)).kind == "trend_down"


@pytest.mark.parametrize("signal", ["rise", "feature", "key_user"])
def test_a_renewal_is_at_risk_by_no_other_alarm(signal: str) -> None:
    account = facts(traits={"am.maintenanceEndDate": "2026-10-24"}, alarms=alarmed(signal))
    assert only(apply_rules(account)).kind != "renewal_at_risk"


@pytest.mark.parametrize(
    ("times", "text"),
    [
        ({"first_seen_at": datetime(2026, 9, 11, tzinfo=UTC)}, "first seen 13 days ago"),
        ({"created_at": datetime(2026, 9, 23, 23, tzinfo=UTC)}, "created yesterday"),
        ({"created_at": datetime(2026, 9, 30, tzinfo=UTC)}, "created today"),
    ],
)
def test_an_account_younger_than_two_periods_is_new(times: dict[str, datetime], text: str) -> None:
    insight = only(apply_rules(facts(traits={"am.tier.number": 500}, **times)))
    assert (insight.kind, insight.severity) == ("new_account", "notice")
    assert insight.text == f"New: {text}. The score is 60.0."


def test_an_account_two_periods_old_is_not_new() -> None:
    assert apply_rules(facts(first_seen_at=datetime(2026, 9, 10, 23, tzinfo=UTC))) == []


def test_insights_come_in_the_order_of_what_they_cost() -> None:
    account = facts(
        traits={"am.tier.number": 5},
        top_user_points=90,
        alarms=alarmed("rise", "feature", "key_user", "leaving"),
    )
    insights = apply_rules(account)
    assert [insight.kind for insight in insights] == [
        "users_leaving",
        "seats_exceeded",
        "key_user_quiet",
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
        traits={"am.tier.number": licensed, "am.maintenanceEndDate": "2026-10-24"},
    )
    insight = only(apply_rules(account))
    assert insight.text.startswith(f"Only {active} of {licensed:,} licensed seats ")
    assert insight.text.endswith(f" active ({share}).")


def test_nearly_all_points_are_not_100_percent() -> None:
    account = facts(points=1000, top_user_points=999)
    assert "more than 99% of this account’s activity" in only(apply_rules(account)).text


@pytest.mark.parametrize(
    "traits",
    [
        {"am.tier.number": 2},
        {"am.tier.number": 5000, "am.maintenanceEndDate": "2026-09-30"},
        {"am.licenseType": "EVALUATION", "am.maintenanceEndDate": "2026-09-30"},
        {"am.maintenanceEndDate": "2026-09-30"},
        {"am.maintenanceEndDate": "2026-09-30", "am.status": "cancelled"},
    ],
)
def test_an_audience_has_no_insights_about_the_license(traits: dict[str, Any]) -> None:
    """The license covers all users of the account, the numbers only some."""
    account = facts(traits=traits, alarms=alarmed("fall"))
    kinds = {"seats_exceeded", "seats_unused", "evaluation_ending", "renewal_at_risk"}
    kinds |= {"license_ending"}
    assert {insight.kind for insight in apply_rules(account)} & kinds
    assert (
        not {insight.kind for insight in apply_rules(replace(account, has_audience=True))} & kinds
    )
