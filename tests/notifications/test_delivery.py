"""Each message arrives at least once, with one id and in order, and nobody waits for others."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from core.outbound import requests
from engagement.models import Product
from notifications import verification
from notifications.delivery import deliver as delivering
from notifications.delivery import outcomes, signing
from notifications.delivery.deliver import LEASE, claim, deliver
from notifications.models import Delivery, Destination, OutboxMessage
from tests.notifications.receiver import Receiver
from tests.notifications.rows import Clock, a_destination

pytestmark = pytest.mark.django_db
Outcome, State = Delivery.Outcome, OutboxMessage.State


def a_message(destination: Destination, clock: Clock, text: str = "Hello", **fields: Any) -> Any:
    return OutboxMessage.objects.create(
        **{
            "message_id": f"msg_{uuid4().hex}",
            "product": destination.product,
            "destination": destination,
            "title": text,
            "payload": {"type": "test", "data": {"text": text}},
            "next_attempt_at": clock.now,
            "created_at": clock.now,
            **fields,
        }
    )


def reload(destination: Destination) -> Destination:
    return Destination.objects.get(pk=destination.pk)


def test_a_receiver_verifies_with_each_of_two_secrets(
    acme: Product, receiver: Receiver, clock: Clock
) -> None:
    old, new, other = (signing.generate_secret() for _ in range(3))
    destination = a_destination(acme, receiver.url, signing_secrets=f"{new} {old}")
    message = a_message(destination, clock, "Grüße 日本")
    # The library refuses what is older than five minutes, by the clock of the machine.
    from django.utils import timezone

    message.next_attempt_at = timezone.now()
    message.save()
    deliver(timezone.now)
    (received,) = receiver.received
    expected = {"id": received.headers["webhook-id"], **message.payload}
    for secret in (old, new):
        assert Webhook(secret).verify(received.body, received.headers) == expected
    with pytest.raises(WebhookVerificationError):
        Webhook(other).verify(received.body, received.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(new).verify(received.body + b" ", received.headers)


def test_a_failure_is_retried_with_the_same_id_until_it_works(
    acme: Product, receiver: Receiver, clock: Clock
) -> None:
    destination = a_destination(acme, receiver.url)
    message = a_message(destination, clock)
    receiver.answer = lambda received: 500
    for attempt in range(1, 4):
        assert deliver(clock) == {Outcome.REFUSED: 1}
        assert reload(destination).failures == attempt
        # Not before its time.
        assert deliver(clock) == {}
        due_at = max(reload(destination).retry_at or clock.now, refreshed(message).next_attempt_at)
        seconds = (due_at - clock.now).total_seconds()
        assert seconds == pytest.approx(5 * 3 ** (attempt - 1), rel=0.21)
        clock.now = due_at
    receiver.answer = lambda received: 200
    assert deliver(clock) == {Outcome.DELIVERED: 1}
    assert {received.id for received in receiver.received} == {message.message_id}
    assert refreshed(message).state == State.DELIVERED
    assert (reload(destination).failures, reload(destination).failing_since) == (0, None)
    outcomes_logged = list(Delivery.objects.values_list("outcome", "status"))
    assert outcomes_logged == [("refused", 500)] * 3 + [("delivered", 200)]


def refreshed(message: OutboxMessage) -> OutboxMessage:
    return OutboxMessage.objects.get(pk=message.pk)


def test_after_a_day_of_failures_the_destination_pauses_and_loses_nothing(
    acme: Product, receiver: Receiver, clock: Clock
) -> None:
    destination = a_destination(acme, receiver.url)
    first, second = a_message(destination, clock, "one"), a_message(destination, clock, "two")
    receiver.answer = lambda received: 503
    began, attempts = clock.now, 0
    while reload(destination).state == Destination.State.ACTIVE:
        attempts += deliver(clock).total()
        clock.step(1800)
    assert clock.now - began < timedelta(hours=26)
    assert 20 < attempts < 60
    assert "24 hours" in reload(destination).pause_reason
    assert deliver(clock) == {}
    assert refreshed(first).state == refreshed(second).state == State.WAITING
    # A successful test resumes it, and what waited is sent.
    receiver.answer = lambda received: 200
    assert verification.send_test(destination.pk, clock.step()).is_delivered
    assert deliver(clock) == {Outcome.DELIVERED: 2}
    assert receiver.texts()[-2:] == ["one", "two"]


def test_a_receiver_that_is_gone_is_paused_at_once(
    acme: Product, receiver: Receiver, clock: Clock
) -> None:
    destination = a_destination(acme, receiver.url)
    a_message(destination, clock)
    receiver.answer = lambda received: 410
    deliver(clock)
    assert reload(destination).state == Destination.State.PAUSED
    assert "410" in reload(destination).pause_reason


def test_one_message_that_is_always_refused_stops_no_other(
    acme: Product, receiver: Receiver, clock: Clock
) -> None:
    destination = a_destination(acme, receiver.url)
    poison = a_message(destination, clock, "poison", scope="account", subject_id=1)
    follower = a_message(destination, clock, "follower", scope="account", subject_id=1)
    others = [a_message(destination, clock, f"other {number}") for number in range(3)]
    receiver.answer = lambda received: 400 if received.data["text"] == "poison" else 200
    for _ in range(60):
        deliver(clock)
        clock.step(1800)
    assert {refreshed(other).state for other in others} == {State.DELIVERED}
    assert refreshed(poison).state == State.FAILED
    # The next one about the same subject waited for it, so that they arrive in order.
    assert refreshed(follower).state == State.DELIVERED
    assert receiver.texts()[-1] == "follower"
    assert reload(destination).state == Destination.State.ACTIVE


def test_messages_of_unverified_and_paused_destinations_wait(
    acme: Product, receiver: Receiver, clock: Clock
) -> None:
    for state in (Destination.State.UNVERIFIED, Destination.State.PAUSED):
        destination = a_destination(acme, receiver.url, name=state, state=state)
        a_message(destination, clock)
    assert deliver(clock) == {}
    assert receiver.received == []


# --- Workers that die -----------------------------------------------------------------------


def test_a_claim_of_a_dead_worker_ends_and_the_message_is_sent_again(
    acme: Product, receiver: Receiver, clock: Clock
) -> None:
    """The worker died after the receiver had the message and before it was recorded."""
    destination = a_destination(acme, receiver.url)
    message = a_message(destination, clock)
    lease = uuid4()
    assert claim(clock.now, lease)
    assert deliver(clock) == {}
    clock.step(LEASE.total_seconds() + 1)
    assert deliver(clock) == {Outcome.DELIVERED: 1}
    assert receiver.received[0].id == message.message_id
    # If it was only slow, what it records afterwards changes nothing but the log.
    failed = requests.Result(Outcome.REFUSED, 500)
    assert not outcomes.record(destination, lease, [message], failed, clock.now)
    assert refreshed(message).state == State.DELIVERED
    assert reload(destination).failures == 0


# --- Slow receivers -------------------------------------------------------------------------


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a server that takes requests and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/hook"


@pytest.fixture
def dripping() -> Iterator[str]:
    """The URL of a server that sends its headers byte by byte, for ever."""
    ended = threading.Event()
    server = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        connection, _ = server.accept()
        with closing(connection):
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not ended.wait(0.05):
                try:
                    connection.sendall(b"a")
                except OSError:
                    return

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/hook"
    finally:
        ended.set()
        thread.join()
        server.close()


def test_a_slow_receiver_delays_nobody_else_and_is_cut_off(
    acme: Product,
    receiver: Receiver,
    silent: str,
    dripping: str,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delivering, "DEADLINE", 1.0)
    order: list[str] = []
    finish = outcomes.record

    def record(destination: Destination, *arguments: Any) -> bool:
        order.append(destination.name)
        return finish(destination, *arguments)

    monkeypatch.setattr(outcomes, "record", record)
    for name, url in (("silent", silent), ("dripping", dripping), ("fast", receiver.url)):
        destination = a_destination(acme, url, name=name)
        for _ in range(5 if name == "fast" else 1):
            a_message(destination, clock)
    assert deliver(clock) == {Outcome.DELIVERED: 5, Outcome.TIMEOUT: 2}
    assert order[:5] == ["fast"] * 5
    assert sorted(order[5:]) == ["dripping", "silent"]


def test_more_dead_receivers_than_threads_delay_others_once_only(
    acme: Product, receiver: Receiver, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is put off after its first failure."""
    monkeypatch.setattr(delivering, "MAX_AT_ONCE", 2)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        dead_url = f"http://127.0.0.1:{server.getsockname()[1]}/"
    for number in range(5):
        for _ in range(3):
            a_message(a_destination(acme, dead_url, name=f"dead {number} {uuid4()}"), clock)
    a_message(a_destination(acme, receiver.url), clock)
    counted = deliver(clock)
    assert counted == {Outcome.UNREACHABLE: 15, Outcome.DELIVERED: 1}


# --- Verification ---------------------------------------------------------------------------


def test_a_destination_becomes_active_when_it_accepts_a_signed_test(
    acme: Product, receiver: Receiver, clock: Clock
) -> None:
    unverified = Destination.State.UNVERIFIED
    destination = a_destination(acme, receiver.url, state=unverified, verified_at=None)
    receiver.answer = lambda received: 404
    assert not verification.send_test(destination.pk, clock.now).is_delivered
    assert reload(destination).state == unverified
    receiver.answer = lambda received: 200
    assert verification.send_test(destination.pk, clock.now).is_delivered
    assert reload(destination).state == Destination.State.ACTIVE
    assert receiver.received[-1].content["type"] == "destination.test"
    assert "webhook-signature" in receiver.received[-1].headers
    assert Delivery.objects.count() == 2


def test_the_deadline_covers_everything(dripping: str, receiver: Receiver) -> None:
    result = requests.send_now(requests.OutboundRequest(dripping, b"{}", {}), seconds=0.3)
    assert result.outcome == Outcome.TIMEOUT


def test_a_receiver_that_refuses_now_and_then_still_gets_the_others_at_once(
    acme: Product, receiver: Receiver, clock: Clock
) -> None:
    destination = a_destination(acme, receiver.url)
    for number in range(20):
        a_message(destination, clock, f"{number}")
    receiver.answer = lambda received: 503 if received.data["text"].endswith("5") else 200
    assert deliver(clock) == {Outcome.DELIVERED: 18, Outcome.REFUSED: 2}
    # But a receiver that asks for a pause gets it.
    a_message(destination, clock, "more")
    receiver.answer = lambda received: (429, {"Retry-After": "600"})
    assert deliver(clock) == {Outcome.REFUSED: 1}
    assert reload(destination).retry_at == clock.now + timedelta(minutes=10)
