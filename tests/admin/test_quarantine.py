"""A quarantined message goes back to the inbox, once."""

import re
import threading

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from ingestion.drain.quarantine import retry
from ingestion.models import InboxMessage, QuarantinedMessage
from tests.admin.rows import Rows, quarantined

LIST = "admin:ingestion_quarantinedmessage_changelist"


def test_a_message_goes_back_as_it_came(acme_rows: Rows) -> None:
    before = acme_rows.quarantined
    assert retry([before.pk, 999]) == 1
    back = InboxMessage.objects.get(pk=before.pk)
    assert (back.attempts, back.not_before, back.received_at) == (0, None, before.received_at)
    assert bytes(back.payload) == bytes(before.payload)
    assert (bytes(back.key_digest), back.key_hint) == (bytes(before.key_digest), before.key_hint)
    assert not QuarantinedMessage.objects.exists()
    assert retry([before.pk]) == 0


def test_nothing_to_try_is_nothing_done(db: None) -> None:
    assert retry([]) == 0


@pytest.mark.django_db(transaction=True)
def test_two_clicks_at_once_put_it_back_once(acme_rows: Rows) -> None:
    # Higher than any number of the inbox's sequence.
    ids = list(range(10**9, 10**9 + 50))
    for number in ids:
        quarantined(acme_rows.product, number, acme_rows.key)
    counts = []

    def click() -> None:
        counts.append(retry(ids))
        connection.close()

    clicks = [threading.Thread(target=click) for _ in range(4)]
    for thread in clicks:
        thread.start()
    for thread in clicks:
        thread.join()
    assert sorted(counts) == [0, 0, 0, 50]
    assert InboxMessage.objects.filter(pk__in=ids).count() == 50


def test_the_button_tries_one_again(member: Client, acme_rows: Rows) -> None:
    url = reverse("admin:ingestion_quarantinedmessage_try_again", args=[acme_rows.quarantined.pk])
    page = reverse("admin:ingestion_quarantinedmessage_change", args=[acme_rows.quarantined.pk])
    assert url in member.get(page).content.decode()
    assert member.get(url).status_code == 405
    assert "1 message is back" in member.post(url, follow=True).content.decode()
    assert InboxMessage.objects.filter(pk=acme_rows.quarantined.pk).exists()


def test_the_action_tries_the_selected_again(member: Client, acme_rows: Rows) -> None:
    quarantined(acme_rows.product, 50, acme_rows.key)
    quarantined(acme_rows.product, 51, acme_rows.key)
    listing = member.get(reverse(LIST)).content.decode()
    assert "---------" not in listing and "<select" not in listing
    (button,) = re.findall(r'<button type="submit".*? name="index".*?>(.*?)</button>', listing)
    assert button == "Try again"
    data = {"action": "try_again_selected", "_selected_action": [50, 51], "index": "0"}
    page = member.post(reverse(LIST), data, follow=True)
    assert "2 messages are back" in page.content.decode()
    assert list(QuarantinedMessage.objects.all()) == [acme_rows.quarantined]


def test_a_viewer_cannot_retry(reader: Client, acme_rows: Rows) -> None:
    pk = acme_rows.quarantined.pk
    url = reverse("admin:ingestion_quarantinedmessage_try_again", args=[pk])
    assert reader.post(url).status_code == 403
    data = {"action": "try_again_selected", "_selected_action": [pk]}
    assert b"Try again" not in reader.get(reverse(LIST)).content
    reader.post(reverse(LIST), data)
    assert QuarantinedMessage.objects.filter(pk=pk).exists()


def test_a_member_cannot_retry_another_products_message(member: Client, globex_rows: Rows) -> None:
    pk = globex_rows.quarantined.pk
    url = reverse("admin:ingestion_quarantinedmessage_try_again", args=[pk])
    assert member.post(url).status_code == 404
    member.post(reverse(LIST), {"action": "try_again_selected", "_selected_action": [pk]})
    assert QuarantinedMessage.objects.filter(pk=pk).exists()
