"""An account whose chance fell below a value is told once, and again only after it rose."""

from typing import Any

import pytest

from core.models import Job
from engagement.models import Account, AccountChance, Product, Workspace
from notifications.models import OutboxMessage, Subscription
from notifications.texts import describe_subscription
from outcomes.chances import storage
from outcomes.chances.storage import ChanceRow
from outcomes.kinds import Kind
from tests.chances import TODAY
from tests.engagement.history import identify, tell
from tests.notifications.rows import (
    Clock,
    a_destination,
    a_segment,
    outbox_texts,
    settle,
    subscribe,
)
from tests.notifications.test_triggers import track_at

pytestmark = pytest.mark.django_db


@pytest.fixture
def workspace(acme: Product, clock: Clock) -> Workspace:
    tell(acme, identify("ann", group="initech"), identify("bob", group="hooli"))
    tell(acme, *track_at(clock, "ann", 3), *track_at(clock, "bob", 3))
    settle(clock)
    return acme.workspaces.select_related("scores").get()


def look(
    workspace: Workspace, clock: Clock, kind: Kind = Kind.EVALUATION, **chances: float
) -> None:
    """Store chances as a look does, and sweep."""
    storage.request(workspace.pk, clock.now)
    job = Job.objects.get(kind=storage.JOB)
    ids = dict(Account.objects.values_list("external_id", "pk"))
    rows = [
        ChanceRow(
            ids[name], f"E-{name}", TODAY, TODAY, value, value - 0.05, value + 0.05, 60, False, 1,
            10, None, "{}",
        )
        for name, value in chances.items()
    ]  # fmt: skip
    with storage.writing(workspace, job) as has_product:
        assert has_product
        storage.write(workspace, kind, TODAY, rows)
    settle(clock)


def on_chance(workspace: Workspace, clock: Clock, trigger: str, **fields: Any) -> Subscription:
    destination = a_destination(workspace.product)
    subscription = subscribe(
        destination, trigger, workspace=workspace, scope="account", threshold=30, **fields
    )
    settle(clock)
    assert outbox_texts() == []
    return subscription


def test_an_evaluation_whose_chance_falls_is_told_once(workspace: Workspace, clock: Clock) -> None:
    look(workspace, clock, initech=0.6, hooli=0.1)
    subscription = on_chance(workspace, clock, "chance_to_buy_low")
    assert describe_subscription(subscription) == "Chance to buy of accounts falls below 30%"
    look(workspace, clock, initech=0.4, hooli=0.12)
    look(workspace, clock, Kind.RENEWAL, initech=0.1)
    assert outbox_texts() == []
    look(workspace, clock, initech=0.28)
    assert outbox_texts() == ["initech has a chance to buy below 30%: 28% (23 to 33%) now."]
    for value in (0.28, 0.24, 0.29):
        look(workspace, clock, initech=value)
    assert len(outbox_texts()) == 1
    message = OutboxMessage.objects.get().payload
    assert message["type"] == "chance_to_buy.low"
    data = message["data"]
    assert (data["threshold"], data["chance"], data["low"], data["high"]) == (30, 28, 23, 33)
    assert data["account"]["tracking_id"] == "initech"
    # It rose, and fell again.
    look(workspace, clock, initech=0.5)
    look(workspace, clock, initech=0.2)
    assert outbox_texts()[1:] == ["initech has a chance to buy below 30%: 20% (15 to 25%) now."]


def test_many_renewals_are_one_message(workspace: Workspace, clock: Clock) -> None:
    subscription = on_chance(workspace, clock, "chance_to_renew_low")
    assert describe_subscription(subscription) == "Chance to renew of accounts falls below 30%"
    look(workspace, clock, initech=0.1)
    assert outbox_texts() == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("notifications.watching.outbox.MAX_MESSAGES", 1)
        look(workspace, clock, Kind.RENEWAL, initech=0.1, hooli=0.1)
    assert outbox_texts() == ["2 accounts: chance to renew below 30%"]
    message = OutboxMessage.objects.get().payload
    assert (message["type"], message["data"]["count"]) == ("chance_to_renew.low.summary", 2)


def test_who_enters_a_segment_by_a_chance_is_told(workspace: Workspace, clock: Clock) -> None:
    low = {"kind": "chance", "chance": "buy", "operator": "below", "percent": 30}
    segment = a_segment(workspace.product, low, name="Will not buy")
    for trigger in ("segment_entered", "segment_left"):
        subscribe(a_destination(workspace.product, name=trigger), trigger, segment=segment)
    settle(clock)
    look(workspace, clock, initech=0.2)
    assert outbox_texts() == ["initech entered Will not buy."]
    look(workspace, clock, initech=0.1)
    assert len(outbox_texts()) == 1
    storage.request(workspace.pk, clock.now)
    with storage.writing(workspace, Job.objects.get(kind=storage.JOB)):
        storage.finish(workspace, [Kind.RENEWAL], clock.now, None, workspace.scores_id or 0)
    assert not AccountChance.objects.exists()
    settle(clock)
    assert outbox_texts()[1:] == ["initech left Will not buy."]
