"""Insights that appear and end are told, as pages show them."""

from datetime import date, timedelta
from typing import Any

import pytest

from engagement.models import (
    AccountEngagement,
    Alarm,
    Product,
    ScoreSet,
    Seats,
    Segment,
    Workspace,
)
from engagement.segments.insight_filters import insight_filter
from engagement.segments.seats import choose_seats
from notifications.models import OutboxMessage
from tests.engagement.alarms.rows import alarm, night
from tests.engagement.history import group, identify, tell
from tests.notifications.rows import Clock, a_destination, outbox_texts, settle, subscribe
from tests.notifications.test_triggers import track_at

pytestmark = pytest.mark.django_db

LAST_DAY = date(2026, 9, 23)


@pytest.fixture
def initech(acme: Product, clock: Clock) -> AccountEngagement:
    """An account whose insights two subscriptions are about, one by its end."""
    tell(acme, identify("ann", group="initech"), *track_at(clock, "ann", 3))
    settle(clock)
    return AccountEngagement.objects.get()


def watch(initech: AccountEngagement, clock: Clock, insight: str, **fields: Any) -> None:
    workspace = initech.score_set.workspace
    destination = a_destination(workspace.product)
    for trigger in ("insight_started", "insight_ended"):
        where = {"workspace": workspace, "scope": "account", **fields}
        subscribe(destination, trigger, insight=insight, **where)
    settle(clock)
    assert outbox_texts() == []


def look_again(clock: Clock) -> None:
    """Sweep as after a night."""
    ScoreSet.objects.update(watches_stale=True)
    settle(clock)


def test_an_insight_that_appears_and_one_that_ends_are_told(
    initech: AccountEngagement, clock: Clock
) -> None:
    watch(initech, clock, "activity_stopped")
    alarm(initech, is_stopped=True)
    look_again(clock)
    assert outbox_texts() == ["initech has the insight “Activity stopped”."]
    look_again(clock)
    assert len(outbox_texts()) == 1
    Alarm.objects.update(outcome=Alarm.Outcome.RECOVERED, ended_on=LAST_DAY)
    look_again(clock)
    assert outbox_texts()[1:] == [
        "initech no longer has the insight “Activity stopped”: back to usual."
    ]
    started, ended = (row.payload["data"] for row in OutboxMessage.objects.order_by("pk"))
    assert started["insight"] == "activity_stopped"
    assert started["after"]["has_insight"] is True
    assert "outcome" not in started["after"]
    assert ended["after"]["outcome"] == "recovered"


@pytest.mark.parametrize(
    ("signal", "insight", "label", "outcome", "words"),
    [
        ("fall", "trend_down", "Activity falling", "settled", "settled at a lower level"),
        ("rise", "trend_up", "Activity rising", "settled", "settled at a higher level"),
        ("feature", "breadth_narrowing", "Fewer events in use", "settled", "usual by now"),
        (
            *("fall", "trend_down", "Activity falling", "replaced"),
            "decided again, with data that came later",
        ),
    ],
)
def test_how_an_alarm_ended_is_told(
    signal: str,
    insight: str,
    label: str,
    outcome: str,
    words: str,
    initech: AccountEngagement,
    clock: Clock,
) -> None:
    alarm(initech, signal)
    watch(initech, clock, insight)
    Alarm.objects.update(outcome=outcome, ended_on=LAST_DAY)
    look_again(clock)
    assert outbox_texts() == [f"initech no longer has the insight “{label}”: {words}."]
    assert OutboxMessage.objects.get().payload["data"]["after"]["outcome"] == outcome


def test_an_alarm_that_goes_on_as_another_insight_says_so(
    initech: AccountEngagement, clock: Clock
) -> None:
    alarm(initech)
    watch(initech, clock, "trend_down")
    Alarm.objects.update(is_stopped=True)
    look_again(clock)
    assert outbox_texts() == [
        "initech no longer has the insight “Activity falling”: activity has stopped."
    ]
    assert "outcome" not in OutboxMessage.objects.get().payload["data"]["after"]


@pytest.mark.parametrize(
    ("since", "is_replayed", "is_told"), [(0, True, True), (1, True, False), (1, False, True)]
)
def test_what_a_replay_finds_is_told_if_it_began_in_the_last_night(
    since: int, is_replayed: bool, is_told: bool, initech: AccountEngagement, clock: Clock
) -> None:
    watch(initech, clock, "trend_down")
    night(initech.score_set.workspace, LAST_DAY, is_replayed=is_replayed)
    alarm(initech, since=LAST_DAY - timedelta(days=since), is_replayed=is_replayed)
    look_again(clock)
    assert bool(outbox_texts()) is is_told


def test_another_level_is_no_news_about_accounts(initech: AccountEngagement, clock: Clock) -> None:
    watch(initech, clock, "trend_down")
    alarm(initech, level=Workspace.FalseAlarms.FOUR)
    Workspace.objects.update(alarm_level=Workspace.FalseAlarms.FOUR)
    look_again(clock)
    assert outbox_texts() == []
    Alarm.objects.update(outcome=Alarm.Outcome.RECOVERED, ended_on=LAST_DAY)
    look_again(clock)
    assert len(outbox_texts()) == 1


def test_a_replay_is_no_news_about_a_segment_by_alarms(
    initech: AccountEngagement, clock: Clock
) -> None:
    workspace = initech.score_set.workspace
    conditions = [{"kind": "activity", "state": "falling"}]
    segment = Segment.objects.create(
        workspace=workspace, scope="account", name="Falls", conditions=conditions
    )
    subscribe(a_destination(workspace.product), segment=segment)
    settle(clock)
    night(workspace, LAST_DAY, is_replayed=True)
    alarm(initech, is_replayed=True)
    look_again(clock)
    assert outbox_texts() == []
    Alarm.objects.update(outcome=Alarm.Outcome.RECOVERED, ended_on=LAST_DAY)
    look_again(clock)
    Alarm.objects.update(outcome="", ended_on=None)
    look_again(clock)
    assert outbox_texts() == ["initech entered Falls."]


def test_whom_seats_are_for_is_no_news_about_accounts(
    initech: AccountEngagement, clock: Clock
) -> None:
    product = initech.score_set.product
    # One seat, and two users.
    tier: dict[str, Any] = {"am.tier.number": 1}
    tell(product, group("initech", **tier), identify("bob", group="initech"))
    tell(product, *track_at(clock, "bob"))
    settle(clock)
    watch(initech, clock, "seats_exceeded")
    for seats in (Seats.APP, Seats.HOST):
        choose_seats(product, seats, has_site_users=False)
        settle(clock)
        filter_ = insight_filter("seats_exceeded", ScoreSet.objects.get(product=product))
        has_insight = AccountEngagement.objects.filter(filter_).exists()
        assert has_insight is (seats == Seats.APP)
    assert outbox_texts() == []
