"""Insights that appear and end are told, as pages show them."""

from datetime import timedelta

import pytest

from engagement.models import Product
from notifications.models import OutboxMessage
from tests.engagement.history import identify, tell
from tests.notifications.rows import Clock, a_destination, outbox_texts, settle, subscribe
from tests.notifications.test_triggers import track_at

pytestmark = pytest.mark.django_db


def test_an_insight_that_appears_and_one_that_ends_are_told(acme: Product, clock: Clock) -> None:
    tell(acme, identify("ann", group="initech"), *track_at(clock, "ann", 3))
    settle(clock)
    destination, workspace = a_destination(acme), acme.workspaces.get()
    for trigger in ("insight_started", "insight_ended"):
        subscribe(
            destination,
            trigger,
            workspace=workspace,
            scope="account",
            insight="activity_stopped",
        )
    settle(clock)
    assert outbox_texts() == []
    clock.now += timedelta(days=8)
    settle(clock)
    assert outbox_texts() == ["initech has the insight “Activity stopped”."]
    tell(acme, *track_at(clock, "ann"))
    settle(clock)
    assert outbox_texts()[1:] == ["initech no longer has the insight “Activity stopped”."]
    payload = OutboxMessage.objects.order_by("pk")[0].payload
    assert payload["data"]["insight"] == "activity_stopped"
    assert payload["data"]["after"]["has_insight"] is True
