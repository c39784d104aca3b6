"""The expansions of a single account or user."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from access.models import TrailEntry
from access.trail.scoring_changes import ACCEPTED
from engagement.models import (
    AccountEngagement,
    Alarm,
    AlarmNight,
    Product,
    Segment,
    Workspace,
)
from readapi import details
from tests.chances import add_chance
from tests.engagement.alarms.rows import alarm, night
from tests.readapi.conftest import Reads
from tests.readapi.scored import TODAY, account_id, fill, user_id


@pytest.fixture
def filled(acme: Product) -> Workspace:
    workspace = fill(acme)
    for name, is_stopped in (("initech", False), ("hooli", True)):
        row = AccountEngagement.objects.get(
            score_set=workspace.scores_id, account__external_id=name
        )
        alarm(row, "fall", is_stopped=is_stopped, observed=0 if is_stopped else 4)
        AccountEngagement.objects.filter(pk=row.pk).update(activity=0)
        alarm(row, "leaving", window_days=28)
    night(workspace, TODAY - timedelta(days=1))
    return workspace


@pytest.fixture
def read(acme_reads: Reads, acme: Product, filled: Workspace) -> Any:
    """Reads an account or a user by its tracking ID and returns its data."""

    def read_data(resource: str, name: str, expand: str, **parameters: Any) -> dict[str, Any]:
        id = account_id(acme, name) if resource == "accounts" else user_id(acme, name)
        response = acme_reads(
            f"/v2/{resource}/{id}", workspace_id=filled.pk, expand=expand, **parameters
        )
        assert response.status_code == 200, response.content
        assert response.json()["_expansions"] == expand.split(",")
        data: dict[str, Any] = response.json()["data"]
        return data

    return read_data


def test_events_add_up_to_the_raw_score(read: Any) -> None:
    data = read("accounts", "initech", "events")
    assert data["events"] == [
        {"name": "shared", "count": 5, "weight": 1, "points": 5},
        {"name": "opened", "count": 4, "weight": 1, "points": 4},
    ]
    assert sum(event["points"] for event in data["events"]) == data["metrics"]["raw_score"] == 9


def test_events_have_a_bound_and_say_so(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read("accounts", "initech", "events")["events_total"] == 2
    monkeypatch.setattr(details, "MAX_EVENTS", 1)
    data = read("accounts", "initech", "events")
    assert [event["name"] for event in data["events"]] == ["shared"]
    assert data["events_total"] == 2


def test_events_of_a_user_are_the_users_own(read: Any) -> None:
    data = read("users", "bob", "events")
    assert data["events"] == [{"name": "opened", "count": 1, "weight": 1, "points": 1}]


def test_history_has_ninety_days_and_agrees_with_the_metrics(read: Any) -> None:
    data = read("accounts", "initech", "history")
    days = {day["day"]: day["score"] for day in data["history"]}
    assert list(days) == [f"{TODAY - timedelta(days=ago)}" for ago in reversed(range(90))]
    metrics = data["metrics"]
    assert days[f"{TODAY}"] == metrics["engagement_score"] == data["score"]
    assert days[f"{TODAY - timedelta(days=1)}"] == metrics["score_yesterday"]
    assert days[f"{TODAY - timedelta(days=7)}"] == metrics["score_last_period"]


def test_history_says_when_the_scoring_was_changed(read: Any, filled: Workspace) -> None:
    for days_ago, note, field in (
        (90, "", "audience"),
        (89, "", "half_life_days"),
        (1, f"{ACCEPTED}: renewals.", "weight of opened"),
        (0, "", "name"),
    ):
        TrailEntry.objects.create(
            at=datetime.combine(TODAY - timedelta(days=days_ago), time(12), UTC),
            person="maya",
            action=TrailEntry.Action.CHANGED,
            kind="workspace",
            object_id=str(filled.pk),
            note=note,
            changes={field: [1, 2]},
        )
    for resource, name in (("accounts", "initech"), ("users", "ann")):
        data = read(resource, name, "history")
        assert data["scoring_changes"] == [
            {
                "day": f"{TODAY - timedelta(days=89)}",
                "changed": ["window"],
                "is_suggestion": False,
            },
            {"day": f"{TODAY - timedelta(days=1)}", "changed": ["weights"], "is_suggestion": True},
        ]
        assert "maya" not in str(data)
    assert "scoring_changes" not in read("accounts", "initech", "events")


def test_segments_are_those_with_the_subject_as_a_member(read: Any, filled: Workspace) -> None:
    names = [segment["name"] for segment in read("accounts", "initech", "segments")["segments"]]
    assert "All" in names and "Active Today" in names and "Multi-User Accounts" in names
    assert "Mature" not in names
    pro = Segment.objects.create(
        workspace=filled,
        scope="user",
        name="Pro",
        conditions=[{"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"}],
    )
    segments_of_cyd = read("users", "cyd", "segments")["segments"]
    assert {"id": pro.pk, "name": "Pro"} in segments_of_cyd
    assert "Pro" not in [
        segment["name"] for segment in read("users", "bob", "segments")["segments"]
    ]


def test_insights_have_a_text_and_its_numbers(read: Any) -> None:
    rows = read("accounts", "initech", "insights")["insights"]
    insights = {insight["kind"]: insight for insight in rows}
    own = {"trend_down", "users_leaving", "one_person", "seats_unused", "renewal_at_risk"}
    assert set(insights) == own
    assert insights["trend_down"]["text"].startswith("Usually 11–26 active user-days in two weeks")
    assert insights["trend_down"]["numbers"]["expected_low"] == 11
    assert insights["seats_unused"] == {
        "kind": "seats_unused",
        "severity": "notice",
        "text": "Only 2 of 50 licensed seats are active (4%).",
        "numbers": {"active_users": 2, "seats": 50, "license_utilization": 0.04},
    }
    assert insights["one_person"]["text"] == (
        "Ann accounts for 89% of this account’s activity (2 users in total)."
    )


def test_an_inactive_account_has_an_insight(read: Any) -> None:
    insight, leaving = read("accounts", "hooli", "insights")["insights"]
    assert insight["text"] == "No activity for 7 days; expected 4–15 user-days in that time."
    assert leaving["kind"] == "users_leaving"


def test_an_account_has_the_state_of_its_activity(
    read: Any, acme_reads: Reads, filled: Workspace
) -> None:
    states = {"initech": "falling", "hooli": "stopped"}
    for name, state in states.items():
        assert read("accounts", name, "traits")["activity"] == {
            "state": state,
            "reason": None,
            "since": "2026-09-04",
            "decided_for": "2026-09-23",
        }
    listed = acme_reads("/v2/accounts", workspace_id=filled.pk).json()["data"]
    assert {each["tracking_id"]: each["activity"]["state"] for each in listed} == states


def test_before_any_night_nobody_can_tell(read: Any, acme_reads: Reads, filled: Workspace) -> None:
    Alarm.objects.all().delete()
    AlarmNight.objects.all().delete()
    AccountEngagement.objects.update(activity=None)
    unknown = {"state": "unknown", "reason": "not_decided", "since": None, "decided_for": None}
    assert read("accounts", "initech", "traits")["activity"] == unknown
    AccountEngagement.objects.update(activity=1)
    unknown["reason"] = "too_quiet"
    assert read("accounts", "initech", "traits")["activity"] == unknown


def test_the_chances_of_accounts(read: Any, acme_reads: Reads, workspace: Workspace) -> None:
    nothing = {"chance_to_buy": None, "chance_to_renew": None, "chance_to_stay": None}
    assert read("accounts", "initech", "chances")["chances"] == nothing
    acme = workspace.product
    add_chance(acme, "initech", "renewal", 0.346, low=0.2, high=0.505, license="E-1")
    add_chance(acme, "initech", "renewal", 0.8, license="E-2")
    add_chance(acme, "initech", "dormancy", 0.5, is_share=True)
    expected = {
        "chance_to_buy": None,
        "chance_to_renew": {"chance": 0.35, "low": 0.2, "high": 0.51},
        "chance_to_stay": {"chance": None, "low": None, "high": None},
    }
    assert read("accounts", "initech", "chances")["chances"] == expected
    for sort in ("-score", "chance_to_renew"):
        listed = acme_reads(
            "/v2/accounts", workspace_id=workspace.pk, expand="chances", sort=sort
        ).json()["data"]
        by_id = {each["tracking_id"]: each["chances"] for each in listed}
        assert by_id.pop("initech") == expected
        assert all(own == nothing for own in by_id.values())
    assert listed[0]["tracking_id"] == "initech"


def test_all_expansions_at_once(read: Any) -> None:
    everything = "insights,traits,segments,events,history"
    assert set(everything.split(",")) <= set(read("accounts", "initech", everything))
    assert read("users", "ann", "traits,segments,events,history")["traits"]["name"] == "Ann"


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        (
            "accounts/1",
            "insights, traits, segments, events, history, license_events, chances, features, "
            "activation, closed_alarms, notes",
        ),
        ("users/1", "traits, segments, events, history, features, activation"),
        ("segments", "counts"),
    ],
)
def test_the_error_for_an_unknown_expansion_lists_the_known_ones(
    address: str, allowed: str, acme_reads: Reads, workspace: Workspace
) -> None:
    response = acme_reads(f"/v2/{address}", workspace_id=workspace.pk, expand="everything")
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_expand"
    assert response.json()["error"]["message"] == f"expand accepts: {allowed}."
