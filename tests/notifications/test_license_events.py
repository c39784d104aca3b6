"""What happens to licenses is told once, and so is its withdrawal."""

from datetime import date, timedelta
from typing import Any

import pytest

from engagement.models import Account, Product
from engagement.recording.suppression import SubjectRef, SubjectScope
from marketplace.models import LicenseEvent
from notifications.models import Destination, OutboxMessage
from notifications.removal import erase_messages
from notifications.watching import outbox
from notifications.watching.sweep import sweep
from tests.notifications.rows import Clock, a_destination, outbox_texts, subscribe

DAY = date(2026, 9, 1)


def add_event(product: Product, clock: Clock, **fields: Any) -> LicenseEvent:
    values: dict[str, Any] = {
        "license": "E-1",
        "type": "churned",
        "anchor": "2026-09-01",
        "cloud_id": "site-a",
        "date": DAY,
        "known_on": DAY,
        "details": {"reason": "merging"},
        "sources": ["sync"],
        "recorded_at": clock.now,
        "changed_at": clock.now,
        "is_announced": True,
    }
    return LicenseEvent.objects.create(product=product, **{**values, **fields})


@pytest.fixture
def destination(acme: Product) -> Destination:
    row: Destination = a_destination(acme)
    return row


@pytest.fixture
def account(acme: Product, clock: Clock) -> Account:
    return Account.objects.create(
        product=acme,
        external_id="site-a",
        traits={"name": "Brindle Tea"},
        is_identified=True,
        first_seen_at=clock.now,
        last_seen_at=clock.now,
    )


def test_an_event_is_told_once_and_not_what_was_before(
    acme: Product, globex: Product, destination: Destination, clock: Clock, account: Account
) -> None:
    add_event(acme, clock, license="E-0")
    subscribe(destination, "license_churned", quiet_hours=24)
    sweep(clock.step(70))
    assert outbox_texts() == []
    add_event(acme, clock)
    add_event(acme, clock, license="E-2", cloud_id="nobody", details={})
    add_event(acme, clock, license="E-3", is_announced=False)
    add_event(acme, clock, license="E-4", type="renewed")
    add_event(globex, clock, license="E-5")
    for _ in range(3):
        sweep(clock.step(70))
    assert sorted(outbox_texts()) == [
        "Acme: Brindle Tea, 2026-09-01: Churned: reason: sites were merged.",
        "Acme: E-2, 2026-09-01: Churned.",
    ]
    data = OutboxMessage.objects.get(scope="account").payload["data"]
    assert data["event"] == "churned" and data["license"] == "E-1"
    assert data["account"]["tracking_id"] == "site-a"
    assert data["link"].endswith(f"/admin/engagement/account/{account.pk}/change/")
    # A correction, and the end of the days in which it is news, are no news.
    LicenseEvent.objects.update(changed_at=clock.now, details={})
    sweep(clock.step(70))
    sweep(clock.step(5 * 24 * 3600))
    assert len(outbox_texts()) == 2


def test_a_withdrawal_is_told_if_the_event_was(
    acme: Product, destination: Destination, clock: Clock, account: Account
) -> None:
    subscribe(destination, "license_event_withdrawn")
    add_event(acme, clock)
    add_event(acme, clock, license="E-2", is_announced=False)
    sweep(clock.step(70))
    LicenseEvent.objects.update(withdrawn_at=clock.now, changed_at=clock.now)
    sweep(clock.step(70))
    sweep(clock.step(70))
    [text] = outbox_texts()
    assert text.startswith("Acme: Withdrawn, because later evidence says otherwise: Brindle Tea")


def test_more_events_than_anybody_reads_become_one_message(
    acme: Product, destination: Destination, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MAX_MESSAGES", 2)
    subscribe(destination, "license_renewed")
    sweep(clock.step(70))
    for number in range(3):
        add_event(acme, clock, type="renewed", license=f"E-{number}")
    sweep(clock.step(70))
    assert outbox_texts() == ["Acme: 3 license events: license is renewed."]


def test_forgetting_an_account_deletes_what_was_told_of_its_licenses(
    acme: Product, destination: Destination, clock: Clock, account: Account
) -> None:
    subscribe(destination, "license_churned")
    sweep(clock.step(70))
    add_event(acme, clock)
    sweep(clock.step(70))
    assert len(outbox_texts()) == 1
    subject = SubjectRef(acme.pk, SubjectScope.ACCOUNT, "site-a")
    erase_messages(subject, clock.now + timedelta(seconds=1))
    assert outbox_texts() == []
