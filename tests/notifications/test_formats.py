"""What chats and mailboxes get, digests, and the numbers at /metrics."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core import mail
from django.core.mail import EmailMessage
from django.test import Client
from pytest_django import Settings

from engagement.models import Product
from notifications import tasks
from notifications.delivery.collecting import first_attempt
from notifications.delivery.deliver import deliver
from notifications.models import Delivery, Destination, OutboxMessage
from notifications.watching import outbox, payloads
from tests.notifications.receiver import Receiver
from tests.notifications.rows import Clock, a_destination
from tests.notifications.test_delivery import a_message, refreshed

pytestmark = pytest.mark.django_db
Kind, Digest, Outcome = Destination.Kind, Destination.Digest, Delivery.Outcome

HOSTILE = "<!channel> [Eve](https://evil.example) | & *bold*"


def about(destination: Destination, clock: Clock, name: str, number: int = 1) -> OutboxMessage:
    """A message that an account entered a segment."""
    link = f"https://eds.example.com/accounts/{number}"
    account = {"id": number, "tracking_id": name, "name": name, "link": link}
    message: OutboxMessage = a_message(
        destination,
        clock,
        f"{name} entered Paying.",
        scope="account",
        subject_id=number,
        name=name,
        payload={"type": "segment.entered", "data": {"text": "", "account": account}},
    )
    return message


def test_slack_gets_a_line_for_each_change_and_no_markup_of_others(
    acme: Product, receiver: Receiver, clock: Clock
) -> None:
    slack = a_destination(acme, receiver.url, kind=Kind.SLACK)
    about(slack, clock, "Initech", 1)
    about(slack, clock, HOSTILE, 2)
    assert deliver(clock) == {Outcome.DELIVERED: 2}
    (received,) = receiver.received
    (block,) = received.content["blocks"]
    first, second = block["text"]["text"].split("\n")
    assert first == "<https://eds.example.com/accounts/1|Initech> entered Paying."
    assert "<!channel>" not in second and "&lt;!channel&gt;" in second and "¦" in second
    assert received.content["text"] == "Initech entered Paying."
    assert "webhook-signature" not in received.headers


def test_teams_gets_a_card(acme: Product, receiver: Receiver, clock: Clock) -> None:
    teams = a_destination(acme, receiver.url, kind=Kind.TEAMS)
    about(teams, clock, HOSTILE)
    deliver(clock)
    (attachment,) = receiver.received[0].content["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    (block,) = attachment["content"]["body"]
    assert block["type"] == "TextBlock"
    # Only our own link is one.
    assert "\\[Eve\\]\\(https" in block["text"]
    assert block["text"].endswith("[Open](https://eds.example.com/accounts/1)")


@pytest.mark.parametrize("char", ["x", "&", "日", "*"])
def test_long_names_cost_a_chat_neither_a_change_nor_the_post(
    char: str, acme: Product, receiver: Receiver, clock: Clock
) -> None:
    """Slack refuses a text of more than 3,000 characters, and Teams a post of more than 28 KB."""
    for kind in (Kind.SLACK, Kind.TEAMS):
        destination = a_destination(acme, receiver.url, kind=kind, name=kind)
        for number in range(1, 21):
            about(destination, clock, f"{number:02} {char * 900}", number)
        assert deliver(clock) == {Outcome.DELIVERED: 20}
    slack, teams = receiver.received
    texts = [block["text"]["text"] for block in slack.content["blocks"]]
    assert len(texts) <= 50 and all(len(text) <= 3000 for text in texts)
    lines = "\n".join(texts).split("\n")
    assert [line.count(f"/{number}|{number:02} ") for number, line in enumerate(lines, 1)] == [
        1
    ] * 20
    assert all(line.endswith("…> entered Paying.") for line in lines)
    (attachment,) = teams.content["attachments"]
    assert len(attachment["content"]["body"]) == 20
    assert len(teams.body) < 28_000


def test_long_names_in_a_summary_are_shortened_or_left_out_whole(
    acme: Product, receiver: Receiver, clock: Clock
) -> None:
    link = "https://eds.example.com/accounts/"
    first = [{"name": "&" * 900, "link": f"{link}{number}"} for number in range(20)]
    payload = {"type": "segment.entered.summary", "data": {"text": "", "first": first}}
    for kind in (Kind.SLACK, Kind.TEAMS):
        destination = a_destination(acme, receiver.url, kind=kind, name=kind)
        for number in range(20):
            a_message(destination, clock, f"{number} accounts entered Paying", payload=payload)
        assert deliver(clock) == {Outcome.DELIVERED: 20}
    slack, teams = receiver.received
    texts = [block["text"]["text"] for block in slack.content["blocks"]]
    assert all(len(text) <= 3000 and text.count("<") == text.count(">") for text in texts)
    assert sum(text.count("entered Paying") for text in texts) == 20
    assert len(teams.body) < 28_000


def an_email(product: Product, **fields: Any) -> Destination:
    destination: Destination = a_destination(
        product, "ops@example.com", kind=Kind.EMAIL, name="Ops", **fields
    )
    return destination


def test_an_email_has_all_that_is_due(acme: Product, clock: Clock) -> None:
    destination = an_email(acme)
    about(destination, clock, "Initech\r\nBcc: everybody@example.com", 1)
    about(destination, clock, "Hooli", 2)
    assert deliver(clock) == {Outcome.DELIVERED: 2}
    (email,) = mail.outbox
    assert (email.to, email.subject) == (["ops@example.com"], "Acme: 2 changes")
    assert "Hooli entered Paying.\n  https://eds.example.com/accounts/2" in email.body
    about(destination, clock, "Initech\r\nBcc: everybody@example.com", 1)
    deliver(clock)
    assert mail.outbox[1].subject == "Initech Bcc: everybody@example.com entered Paying."
    assert "\nBcc" not in str(mail.outbox[1].message()).partition("\n\n")[0]


def test_a_mail_server_that_fails_is_tried_again(
    acme: Product, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = an_email(acme)
    message = about(destination, clock, "Initech")

    def fail(email: EmailMessage, **options: Any) -> int:
        raise ConnectionRefusedError

    with monkeypatch.context() as patch:
        patch.setattr(EmailMessage, "send", fail)
        assert deliver(clock) == {Outcome.UNREACHABLE: 1}
    assert "mail server" in Delivery.objects.get().error
    clock.step(60)
    assert deliver(clock) == {Outcome.DELIVERED: 1}
    assert refreshed(message).state == OutboxMessage.State.DELIVERED


@pytest.mark.parametrize(
    ("digest", "now", "at"),
    [
        (Digest.NONE, "2026-09-24T12:00", "2026-09-24T12:00"),
        (Digest.DAILY, "2026-09-24T12:00", "2026-09-25T07:00"),
        (Digest.DAILY, "2026-09-24T06:59", "2026-09-24T07:00"),
        # A Thursday, a Monday before and after the hour.
        (Digest.WEEKLY, "2026-09-24T12:00", "2026-09-28T07:00"),
        (Digest.WEEKLY, "2026-09-28T06:00", "2026-09-28T07:00"),
        (Digest.WEEKLY, "2026-09-28T07:00", "2026-10-05T07:00"),
    ],
)
def test_a_digest_waits_for_its_time(acme: Product, digest: str, now: str, at: str) -> None:
    destination = an_email(acme, digest=digest)
    moment = datetime.fromisoformat(now).replace(tzinfo=UTC)
    assert first_attempt(destination, moment) == datetime.fromisoformat(at).replace(tzinfo=UTC)


def test_a_test_message_names_the_destination(acme: Product, clock: Clock) -> None:
    draft = payloads.test_message(a_destination(acme), clock.now)
    assert draft.payload["timestamp"] == "2026-09-24T12:00:00Z"
    message = outbox.draft_test(a_destination(acme, name="B"), clock.now)
    assert "“B”" in message.title and message.pk is None


def test_metrics_and_the_home_page_show_what_waits_and_what_is_paused(
    acme: Product, receiver: Receiver, settings: Settings, clock: Clock, admin_client: Client
) -> None:
    settings.METRICS_TOKEN = "let me see"
    active = a_destination(acme, receiver.url)
    a_message(active, clock)
    paused = a_destination(
        acme, name="Old CRM", state=Destination.State.PAUSED, pause_reason="It answered 410."
    )
    a_message(paused, clock, created_at=clock.now - timedelta(hours=1))
    tasks.deliver()
    answer = Client().get("/metrics", headers={"Authorization": "Bearer let me see"})
    lines = answer.content.decode().splitlines()
    assert "eds_notifications_waiting 1.0" in lines
    assert 'eds_notification_attempts_total{outcome="delivered"} 1.0' in lines
    assert 'eds_notification_destinations{state="paused"} 1.0' in lines
    home = admin_client.get("/admin/", {"product": acme.pk}).content.decode()
    assert "Notifications to Old CRM are paused. It answered 410." in home
