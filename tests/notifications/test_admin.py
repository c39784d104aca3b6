"""The pages of subscriptions, destinations, and the delivery log."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from pytest_django import Settings

from access.models import TrailEntry
from engagement.models import Product
from notifications import verification
from notifications.delivery.deliver import deliver
from notifications.models import Destination, OutboxMessage, Subscription
from tests.admin.conftest import member, reader, root
from tests.admin.rows import Rows, fill
from tests.notifications.receiver import Receiver
from tests.notifications.rows import Clock

__all__ = ["member", "reader", "root"]
pytestmark = pytest.mark.django_db
SECRET = re.compile(r"whsec_[A-Za-z0-9+/=]+")


@pytest.fixture
def rows(acme: Product) -> Rows:
    return fill(acme)


def url(model: str, view: str, *arguments: Any) -> str:
    return reverse(f"admin:notifications_{model}_{view}", args=arguments)


def html(client: Client, address: str, **query: Any) -> str:
    answer = client.get(address, query, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def add_webhook(client: Client, product: Product, address: str) -> tuple[Destination, str]:
    """Add a destination as a browser does. Returns it and the page that follows."""
    form = {"product": product.pk, "kind": "webhook", "name": "CRM", "address": address}
    page = client.post(url("destination", "add"), form, follow=True).content.decode()
    return Destination.objects.defer(None).get(name="CRM"), page


def test_a_destination_is_tested_when_it_is_added_and_shows_its_secret_once(
    member: Client, acme: Product, receiver: Receiver
) -> None:
    form_page = html(member, url("destination", "add"))
    assert ">Webhook<" in form_page and ">Email<" not in form_page
    destination, page = add_webhook(member, acme, receiver.url)
    assert destination.state == Destination.State.ACTIVE
    assert receiver.received[0].content["type"] == "destination.test"
    assert SECRET.findall(page) == [destination.signing_secrets]
    assert "accepted the test" in page
    again = html(member, url("destination", "change", destination.pk))
    assert not SECRET.findall(again) and receiver.url not in again
    assert destination.site_url == "http://testserver"


def test_a_refused_test_leaves_it_unverified_and_says_why(
    member: Client, acme: Product, receiver: Receiver
) -> None:
    receiver.answer = lambda received: 404
    destination, page = add_webhook(member, acme, receiver.url)
    assert destination.state == Destination.State.UNVERIFIED
    assert "The test failed. The receiver answered 404." in page
    receiver.answer = lambda received: 200
    member.post(url("destination", "test", destination.pk))
    destination.refresh_from_db(fields=["state"])
    assert destination.state == Destination.State.ACTIVE
    entry = TrailEntry.objects.latest("pk")
    assert (entry.kind, entry.note) == ("destination", "Sent a test.")
    assert (entry.person, entry.product_id) == ("maya", acme.pk)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("not a url", "without spaces"),
        ("https://me:secret@example.com/", "user name"),
        ("ftp://example.com/", "https://"),
    ],
)
def test_an_unusable_address_is_refused_in_the_form(
    member: Client, acme: Product, address: str, message: str
) -> None:
    form = {"product": acme.pk, "kind": "webhook", "name": "CRM", "address": address}
    page = member.post(url("destination", "add"), form).content.decode()
    assert message in page
    assert not Destination.objects.exists()


def test_a_private_address_fails_its_test(member: Client, acme: Product) -> None:
    destination, page = add_webhook(member, acme, "https://169.254.169.254/latest")
    assert destination.state == Destination.State.UNVERIFIED
    assert "private or reserved" in page


def test_rotation_signs_with_both_secrets_until_the_old_one_is_removed(
    member: Client, acme: Product, receiver: Receiver
) -> None:
    destination, _ = add_webhook(member, acme, receiver.url)
    old = destination.signing_secrets
    answer = member.post(url("destination", "rotate", destination.pk), follow=True)
    (new,) = SECRET.findall(answer.content.decode())
    assert stored(destination) == [new, old]
    member.post(url("destination", "test", destination.pk))
    assert len(receiver.received[-1].headers["webhook-signature"].split()) == 2
    member.post(url("destination", "end_rotation", destination.pk))
    assert stored(destination) == [new]


def stored(destination: Destination) -> list[str]:
    return Destination.objects.defer(None).get(pk=destination.pk).secret_list()


def test_a_new_address_must_be_verified_again(
    member: Client, acme: Product, receiver: Receiver
) -> None:
    destination, _ = add_webhook(member, acme, receiver.url)
    page = url("destination", "change", destination.pk)
    member.post(page, {"name": "CRM 2", "address": ""})
    destination.refresh_from_db()
    assert (destination.name, destination.state) == ("CRM 2", "active")
    receiver.answer = lambda received: 500
    member.post(page, {"name": "CRM 2", "address": receiver.url + "/other"})
    destination.refresh_from_db()
    assert destination.state == Destination.State.UNVERIFIED


def test_a_subscription_is_a_sentence_on_one_page(member: Client, rows: Rows) -> None:
    page = html(member, url("subscription", "add"))
    assert "fall below a score of" in page and "acme segment" in page
    parameters = {"trigger": "segment_left", "workspace": rows.workspace.pk, "who": "user"}
    form = {
        **parameters,
        "segment": rows.segment.pk,
        "destination": rows.subscription.destination_id,
        "quiet_hours": 24,
        "is_enabled": "on",
        "traits": ",".join(map(str, range(9))),
    }
    page = member.post(url("subscription", "add"), form).content.decode()
    assert "should contain no more than 8" in page
    form["traits"] = "email, plan"
    answer = member.post(url("subscription", "add"), form)
    assert answer.status_code == 302, answer.content.decode()
    subscription = Subscription.objects.get(trigger="segment_left")
    assert subscription.traits == ["email", "plan"]
    assert (subscription.product, subscription.segment) == (rows.product, rows.segment)
    # Both watch the same set.
    assert subscription.watch == rows.subscription.watch
    assert "Users leave acme segment" in html(member, url("subscription", "changelist"))
    assert "Users leave acme segment" in html(
        member, url("subscription", "change", subscription.pk)
    )


def test_a_score_needs_a_value_within_bounds(member: Client, rows: Rows) -> None:
    form: dict[str, Any] = {
        "trigger": "score_crossed:down",
        "workspace": rows.workspace.pk,
        "who": "account",
        "threshold": 500,
        "destination": rows.subscription.destination_id,
        "quiet_hours": 0,
        "is_enabled": "on",
    }
    page = member.post(url("subscription", "add"), form).content.decode()
    assert "Enter a number from 0.1 to 100." in page
    # A segment of users has no accounts.
    page = member.post(
        url("subscription", "add"),
        {**form, "threshold": 40, "who": f"account:{rows.segment.pk}"},
    ).content.decode()
    assert "Select a valid choice" in page
    answer = member.post(url("subscription", "add"), {**form, "threshold": 40})
    assert answer.status_code == 302
    listed = html(member, url("subscription", "changelist"))
    assert "Scores of accounts fall below 40" in listed


def options(page: str, name: str) -> list[str]:
    """The texts of the field's choices, and of the groups that they are in."""
    (select,) = re.findall(rf'<select name="{name}".*?</select>', page, re.DOTALL)
    options = re.findall(r'<optgroup label="(.*?)">|<option [^>]*>(.*?)</option>', select)
    return [group or option for group, option in options]


def test_the_form_offers_what_can_be_saved(member: Client, rows: Rows) -> None:
    assert rows.segment.scope == "user"
    big = rows.workspace.segments.create(name="Big", scope="account", conditions=[])
    add, where = url("subscription", "add"), {"workspace": rows.workspace.pk}
    page = html(member, add, **where)
    who = options(page, "who")
    assert who.index("Accounts") < who.index("accounts in Big") < who.index("Users")
    assert who[-1] == "users in acme segment" and "all accounts" in who
    assert options(page, "trigger")[:2] == ["Users and accounts", "fall below a score of"]
    # An insight is about accounts, an entry about the segment's kind.
    form = {**where, "destination": rows.subscription.destination_id, "quiet_hours": 0}
    insight = {**form, "trigger": "insight_started", "insight": "trend_down"}
    page = member.post(add, {**insight, "who": "user"}).content.decode()
    assert "Choose accounts: only they can have this." in page
    entry = {**form, "trigger": "segment_entered", "who": "account"}
    page = member.post(add, {**entry, "segment": rows.segment.pk}).content.decode()
    assert "same kind" in page
    assert "Choose the segment." in member.post(add, entry).content.decode()
    assert member.post(add, {**insight, "who": f"account:{big.pk}"}).status_code == 302
    subscription = Subscription.objects.get(trigger="insight_started")
    assert (subscription.filter_segment, subscription.scope, subscription.threshold) == (
        big,
        "",
        None,
    )


def test_the_usual_value_counts_where_none_is_entered(member: Client, rows: Rows) -> None:
    form = {
        "workspace": rows.workspace.pk,
        "who": "account",
        "destination": rows.subscription.destination_id,
        "quiet_hours": 24,
    }
    for trigger, usual in (("token_expiring", 30), ("score_moved:up", 20)):
        answer = member.post(url("subscription", "add"), {**form, "trigger": trigger})
        assert answer.status_code == 302
        assert Subscription.objects.latest("pk").threshold == usual


def test_a_destination_is_made_in_the_same_sentence(
    member: Client, rows: Rows, receiver: Receiver
) -> None:
    form = {
        "workspace": rows.workspace.pk,
        "who": "account",
        "trigger": "score_crossed:down",
        "threshold": 40,
        "destination": "new:webhook",
        "new-name": "CRM",
        "quiet_hours": 24,
        "is_enabled": "on",
    }
    page = member.post(url("subscription", "add"), form).content.decode()
    assert "Address: This field is required." in page
    assert not Destination.objects.filter(name="CRM").exists()
    form["new-address"] = receiver.url
    page = member.post(url("subscription", "add"), form, follow=True).content.decode()
    # The secret of a webhook is shown once, so its page follows.
    destination = Destination.objects.defer(None).get(name="CRM")
    assert SECRET.findall(page) == [destination.signing_secrets]
    assert "CRM is told: Scores of accounts fall below 40." in page
    assert receiver.received[0].content["type"] == "destination.test"
    subscription = destination.subscriptions.get()
    assert (subscription.threshold, subscription.direction) == (40, "down")
    trail = TrailEntry.objects.filter(product_id=rows.product.pk).values_list("kind", "action")
    assert {("destination", "added"), ("subscription", "added")} <= set(trail)


def test_what_a_subscription_is_about_can_change(member: Client, rows: Rows) -> None:
    page = url("subscription", "change", rows.subscription.pk)
    form = {
        "workspace": rows.workspace.pk,
        "who": "account",
        "trigger": "score_moved:down",
        "threshold": 15,
        "destination": rows.subscription.destination_id,
        "quiet_hours": 0,
        "is_enabled": "on",
    }
    assert member.post(page, form).status_code == 302
    stored = Subscription.objects.get(pk=rows.subscription.pk)
    assert (stored.trigger, stored.segment, stored.threshold) == ("score_moved", None, 15)
    assert stored.started_at is None and stored.watch != rows.subscription.watch
    # Another limit of messages does not begin it again.
    Subscription.objects.filter(pk=stored.pk).update(started_at=timezone.now())
    member.post(page, {**form, "quiet_hours": 168})
    stored.refresh_from_db()
    assert (stored.quiet_hours, stored.started_at is None) == (168, False)


def test_another_workspace_offers_its_own_segments(member: Client, rows: Rows) -> None:
    other = rows.product.workspaces.create(name="Monthly")
    other.segments.create(name="Of the month", scope="account", conditions=[])
    form = {"workspace": other.pk, "trigger": "quarantine", "_reload": "1"}
    page = member.post(url("subscription", "add"), form).content.decode()
    assert "accounts in Of the month" in page and "acme segment" not in page
    assert "errornote" not in page and not Subscription.objects.filter(workspace=other).exists()


def test_a_subscription_and_its_destination_lead_to_each_other(member: Client, rows: Rows) -> None:
    destination = rows.subscription.destination
    page = html(member, url("destination", "change", destination.pk))
    query: dict[str, Any] = {"product": rows.product.pk, "destination": destination.pk}
    assert f"{url('subscription', 'add')}?{urlencode(query)}" in unescape(page)
    page = html(member, url("subscription", "add"), **query)
    assert f'<option value="{destination.pk}" selected>' in page


def test_a_condition_of_the_product_needs_no_workspace(member: Client, rows: Rows) -> None:
    form = {
        "trigger": "quarantine",
        "workspace": rows.workspace.pk,
        "threshold": 5,
        "destination": rows.subscription.destination_id,
        "quiet_hours": 0,
        "is_enabled": "on",
    }
    assert member.post(url("subscription", "add"), form).status_code == 302
    subscription = Subscription.objects.get(trigger="quarantine")
    assert (subscription.workspace, subscription.product) == (None, rows.product)
    page = html(member, url("subscription", "change", subscription.pk))
    assert "Quarantine holds 5 or more messages" in page


def test_the_log_shows_the_request_the_response_and_who_it_was_about(
    reader: Client, rows: Rows
) -> None:
    page = html(reader, url("outboxmessage", "change", rows.message.pk))
    assert "ok, acme" in page and "0.25 s" in page and rows.message.message_id in page
    assert "&quot;type&quot;: &quot;segment.entered&quot;" in page
    assert "Send again" not in page
    listed = html(reader, url("outboxmessage", "changelist"))
    assert "acme-user entered acme segment" in listed


def test_a_message_is_sent_again_with_the_same_id(
    member: Client, acme: Product, receiver: Receiver, clock: Clock
) -> None:
    add_webhook(member, acme, receiver.url)
    first = receiver.received[0].id
    message = OutboxMessage.objects.get()
    page = url("outboxmessage", "change", message.pk)
    assert "Send again" in html(member, page)
    member.post(url("outboxmessage", "send_again", message.pk))
    from django.utils import timezone

    deliver(timezone.now)
    assert [received.id for received in receiver.received] == [first, first]
    assert html(member, page).count("<td>Delivered</td>") == 2


def test_the_products_page_says_which_destinations_are_paused(
    member: Client, acme: Product, rows: Rows
) -> None:
    page = reverse("admin:engagement_product_change", args=[acme.pk])
    assert "are paused" not in html(member, page)
    destination = rows.subscription.destination
    member.post(url("destination", "pause", destination.pk))
    page_text = html(member, page)
    assert f"{destination}</a> are paused. Paused by" in page_text


def test_a_viewer_sees_destinations_and_no_address(reader: Client, rows: Rows) -> None:
    destination = rows.subscription.destination
    page = html(reader, url("destination", "change", destination.pk))
    assert "acme.example/…" in page and "planted-path" not in page
    assert "Send a test" not in page and "Rotate" not in page


def test_an_email_address_is_confirmed_by_a_link(
    member: Client, acme: Product, settings: Settings, clock: Clock
) -> None:
    settings.HAS_EMAIL = True
    form = {
        "product": acme.pk,
        "kind": "email",
        "name": "Me",
        "address": "me@example.com",
        "digest": "none",
    }
    page = member.post(url("destination", "add"), form, follow=True).content.decode()
    assert "A link was sent to m…@example.com" in page
    destination = Destination.objects.get()
    assert destination.state == Destination.State.UNVERIFIED
    (email,) = mail.outbox
    link = re.search(r"http://testserver(/notifications/confirm/\S+)", str(email.body))
    assert link
    stranger = Client(enforce_csrf_checks=False)
    # A scanner that opens the link confirms nothing.
    assert "Confirm" in stranger.get(link[1]).content.decode()
    destination.refresh_from_db()
    assert destination.state == Destination.State.UNVERIFIED
    assert "Confirmed" in stranger.post(link[1]).content.decode()
    destination.refresh_from_db()
    assert destination.state == Destination.State.ACTIVE
    # The link is about this address only.
    member.post(
        url("destination", "change", destination.pk),
        {"name": "Me", "address": "you@example.com", "digest": "none"},
    )
    assert stranger.get(link[1]).status_code == 404
    assert verification.read_token("made up") is None


def test_deleting_a_destination_deletes_its_subscriptions(member: Client, rows: Rows) -> None:
    destination = rows.subscription.destination
    address = url("destination", "delete", destination.pk)
    assert "acme hook" in html(member, address)
    member.post(address, {"post": "yes"})
    assert not Destination.objects.exists() and not Subscription.objects.exists()
    assert html(member, url("outboxmessage", "changelist"))


def test_an_active_destination_whose_attempts_fail_does_not_look_well(
    member: Client, rows: Rows
) -> None:
    address = url("destination", "change", rows.subscription.destination_id)
    assert 'class="eds-status eds-good"' in html(member, address)
    now = timezone.now()
    retry_at = now + timedelta(minutes=5, seconds=30)
    Destination.objects.update(failures=3, failing_since=now, retry_at=retry_at)
    page = html(member, address)
    assert 'class="eds-status eds-warning"' in page and "The last 3 attempts failed" in page
    # Each time says how far it is.
    (status,) = re.findall(r'<div class="eds-status.*?</div>', page, re.DOTALL)
    assert 'title="just now"' in status and 'title="in 5 minutes"' in status
