"""Who enters and leaves a segment is told once, and nobody is told of what did not change."""

import pytest
from standardwebhooks.webhooks import Webhook

from engagement.models import Product, Segment
from notifications.delivery.deliver import deliver
from notifications.models import Delivery, OutboxMessage
from tests.engagement.history import group, tell
from tests.notifications.receiver import Receiver
from tests.notifications.rows import (
    Clock,
    a_destination,
    a_segment,
    outbox_texts,
    settle,
    subscribe,
)

pytestmark = pytest.mark.django_db

PAYS = {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"}


@pytest.fixture
def paying(acme: Product, clock: Clock) -> Segment:
    tell(acme, group("initech", name="Initech", plan="pro"), group("hooli", name="Hooli"))
    return a_segment(acme, PAYS)


def test_entering_and_leaving_are_told_and_delivered_signed(
    acme: Product, paying: Segment, clock: Clock, receiver: Receiver
) -> None:
    destination = a_destination(acme, receiver.url)
    subscribe(destination, "segment_entered", segment=paying)
    subscribe(destination, "segment_left", segment=paying)
    settle(clock)
    # The first sweep stores the members and sends nothing.
    assert outbox_texts() == []
    tell(acme, group("hooli", hours=1, plan="pro"), group("initech", hours=1, plan="free"))
    settle(clock)
    assert sorted(outbox_texts()) == ["Hooli entered Paying.", "Initech left Paying."]
    settle(clock)
    assert len(outbox_texts()) == 2
    assert deliver(clock) == {Delivery.Outcome.DELIVERED: 2}
    assert sorted(receiver.texts()) == sorted(outbox_texts())
    webhook = Webhook(destination.signing_secrets)
    for received in receiver.received:
        received.headers["webhook-timestamp"]
    entered = next(each for each in receiver.received if each.content["type"].endswith("entered"))
    account = entered.data["account"]
    assert (account["tracking_id"], account["name"]) == ("hooli", "Hooli")
    assert account["external_id"] == account["tracking_id"]
    assert account["link"].startswith("https://eds.example.com/admin/engagement/account/")
    assert entered.data["before"]["in_segment"] is False
    assert entered.data["after"]["in_segment"] is True
    assert entered.id == OutboxMessage.objects.get(title="Hooli entered Paying.").message_id
    assert (
        webhook.sign(entered.id, clock.now, entered.body.decode())
        in (entered.headers["webhook-signature"])
    )
    assert not OutboxMessage.objects.exclude(state="delivered").exists()
    assert deliver(clock) == {}
