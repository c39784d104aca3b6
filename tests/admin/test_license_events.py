"""An account's page tells what happened to its licenses."""

import csv
import io
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from console.dashboard import licenses as dashboard_licenses
from engagement.models import Account, Product
from marketplace.models import Ledger
from tests.license_events import add_event

SEEN_AT = datetime(2026, 6, 1, tzinfo=UTC)


def an_account(product: Product) -> Account:
    return Account.objects.create(
        product=product,
        external_id="site-a",
        is_identified=True,
        first_seen_at=SEEN_AT,
        last_seen_at=SEEN_AT,
    )


def page(reader: Client, account: Account) -> str:
    address = reverse("admin:engagement_account_change", args=[account.pk])
    return reader.get(address).content.decode()


def test_the_latest_events_are_shown_and_earlier_ones_fold(reader: Client, acme: Product) -> None:
    account = an_account(acme)
    for number in range(7):
        day = date(2026, 1, 1) + timedelta(days=number)
        add_event(acme, "seats_up", str(day), details={"from": number, "to": number + 1})
    html = page(reader, account)
    unfolded, folded = html.split("Earlier license events (2)")
    assert unfolded.index("6 → 7") < unfolded.index("2 → 3")
    assert "1 → 2" not in unfolded and "0 → 1" in folded
    assert '<time datetime="2026-01-07">7 Jan 2026</time>' in unfolded
    # With one license its number is superfluous.
    assert "E-1" not in html


def test_a_withdrawn_event_is_struck_through(reader: Client, acme: Product) -> None:
    account = an_account(acme)
    add_event(acme, "churned", "2026-04-30", withdrawn_at=SEEN_AT, details={"reason": "merging"})
    add_event(acme, "renewed", "2026-04-30", license="E-2", details={"until": "2026-05-30"})
    html = page(reader, account)
    assert "<s><b>Churned</b> reason: sites were merged" in html
    assert "withdrawn 1 Jun 2026" in html
    assert "<s><b>Renewed</b>" not in html and "<b>Renewed</b> until 30 May 2026" in html
    assert "E-1" in html and "E-2" in html


def test_others_events_are_not_shown(reader: Client, acme: Product, globex: Product) -> None:
    account = an_account(acme)
    add_event(globex, "churned", "2026-04-30")
    add_event(acme, "churned", "2026-04-30", cloud_id="site-b")
    assert "Churned" not in page(reader, account)


# --- The page of a product's licenses ---------------------------------------------------------


TODAY = datetime.now(UTC).date()
THIS_MONTH = TODAY.replace(day=1)


def licenses(reader: Client, product: Product, **query: str) -> str:
    answer = reader.get(reverse("admin:licenses"), {"product": str(product.pk), **query})
    assert answer.status_code == 200
    return answer.content.decode()


def term(product: Product, license: str, days: int, **fields: Any) -> None:
    """A paid term that began *days* before the first of this month, and was not renewed."""
    start = THIS_MONTH - timedelta(days=days)
    add_event(product, "purchased", str(start), license=license, anchor="")
    add_event(product, "churned", str(THIS_MONTH), license=license, **fields)


def cell(type: str, term: str = "") -> str:
    query = f"type={type}&amp;month={THIS_MONTH:%Y-%m}"
    return f"{query}&amp;term={term}" if term else query


def test_numbers_tell_monthly_from_annual_terms(reader: Client, acme: Product) -> None:
    term(acme, "E-1", 30, details={"reason": "not-meeting-needs"})
    term(acme, "E-2", 31)
    term(acme, "E-3", 365)
    # Three months that were paid late, at once.
    until = str(THIS_MONTH + timedelta(days=91))
    late = {"until": until, "periods": 3, "gap_days": 0}
    add_event(acme, "renewed", str(THIS_MONTH), license="E-4", details=late)
    year = {"until": str(THIS_MONTH + timedelta(days=365)), "periods": 1, "gap_days": 0}
    add_event(acme, "renewed", str(THIS_MONTH), license="E-5", details=year)
    add_event(acme, "seats_up", str(THIS_MONTH), license="E-5", details={"from": 10, "to": 25})
    add_event(acme, "churned", str(THIS_MONTH), license="E-6", withdrawn_at=SEEN_AT)
    html = licenses(reader, acme)
    month = f"{THIS_MONTH:%B %Y}"
    for label, query in (
        (f"Churned, monthly, {month}: 2", cell("churned", "monthly")),
        (f"Churned, annual, {month}: 1", cell("churned", "annual")),
        (f"Renewed, monthly, {month}: 1", cell("renewed", "monthly")),
        (f"Renewed, annual, {month}: 1", cell("renewed", "annual")),
        (f"Seats added, {month}: 1 (+15 seats)", cell("seats_up")),
    ):
        assert f'{query}" aria-label="{label}"' in html
    assert '<span class="eds-seats">+15</span>' in html
    assert "Does not meet the needs" in html and "No reason given" in html
    assert ", other or unknown term" not in html


def test_a_number_opens_its_accounts(reader: Client, acme: Product, globex: Product) -> None:
    account = an_account(acme)
    term(acme, "E-1", 30, details={"reason": "merging"})
    term(acme, "E-2", 365, cloud_id="site-b")
    term(globex, "E-9", 30)
    html = licenses(reader, acme, type="churned", month=f"{THIS_MONTH:%Y-%m}", term="monthly")
    address = reverse("admin:engagement_account_change", args=[account.pk])
    assert address in html and "reason: sites were merged" in html
    assert "E-2" not in html and "E-9" not in html
    everywhere = licenses(reader, acme, type="churned", reason="")
    assert "E-2" in everywhere and "E-1" not in everywhere


def lines(reader: Client, product: Product, **query: str) -> list[dict[str, str]]:
    answer = reader.get(reverse("admin:licenses"), {"product": str(product.pk), **query})
    assert answer.status_code == 200
    assert answer["Content-Disposition"].startswith('attachment; filename="acme_license')
    text = answer.getvalue().decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_the_table_and_its_events_are_files(
    reader: Client, acme: Product, globex: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = an_account(acme)
    Account.objects.filter(pk=account.pk).update(traits={"name": "=Initech"})
    term(acme, "E-1", 30, details={"reason": "merging"})
    term(acme, "E-2", 365, cloud_id="site-b")
    term(acme, "E-3", 30, cloud_id="", withdrawn_at=SEEN_AT)
    add_event(acme, "feedback", THIS_MONTH, license="E-2", details={"type": "unsubscribe"})
    term(globex, "E-9", 30)
    monkeypatch.setattr(dashboard_licenses, "MAX_ROWS", 1)
    html = licenses(reader, acme)
    assert "file=months" in html and "file=events" in html
    month = f"{THIS_MONTH:%Y-%m}"
    assert [row for row in lines(reader, acme, file="months") if row["event"] == "churned"] == [
        {"month": month, "event": "churned", "term": "annual", "reason": "", "events": "1",
         "seats": "0"},
        {"month": month, "event": "churned", "term": "monthly", "reason": "merging",
         "events": "1", "seats": "0"},
    ]  # fmt: skip
    # The page has the first row only.
    assert "Only the latest 1 are shown" in licenses(reader, acme, type="churned", month=month)
    churned = lines(reader, acme, file="events", type="churned", month=month)
    assert [(row["license"], row["term"]) for row in churned] == [
        ("E-1", "monthly"),
        ("E-2", "annual"),
    ]
    assert churned[0] == {
        "date": str(THIS_MONTH), "event": "churned", "term": "monthly",
        "details": "reason: sites were merged", "license": "E-1", "tracking_id": "site-a",
        "name": "'=Initech",
    }  # fmt: skip
    annual = {"type": "churned", "term": "annual", "reason": ""}
    assert [row["license"] for row in lines(reader, acme, file="events", **annual)] == ["E-2"]
    # All types, also those without a row in the table, of the months of the table.
    everything = lines(reader, acme, file="events")
    assert sorted((row["event"], row["license"]) for row in everything) == [
        ("churned", "E-1"), ("churned", "E-2"), ("feedback", "E-2"),
        ("purchased", "E-1"), ("purchased", "E-3"),
    ]  # fmt: skip
    dates = [row["date"] for row in everything]
    assert dates == sorted(dates, reverse=True)


def test_others_licenses_and_made_up_links_are_not_found(
    reader: Client, acme: Product, globex: Product
) -> None:
    address = reverse("admin:licenses")
    assert reader.get(address, {"product": globex.pk}).status_code == 404
    assert reader.get(address).status_code == 404
    for query in (
        {"type": "bought"},
        {"type": "churned", "month": "2026-13"},
        {"type": "churned", "month": "9999-12"},
        {"type": "churned", "term": "weekly"},
        {"file": "pdf"},
        {"file": "events", "type": "bought"},
    ):
        assert reader.get(address, {"product": str(acme.pk), **query}).status_code == 404, query


def test_the_side_bar_has_it_once_there_is_a_ledger(reader: Client, acme: Product) -> None:
    home = reverse("admin:index")
    link = f"{reverse('admin:licenses')}?product={acme.pk}"
    assert link not in reader.get(home).content.decode()
    Ledger.objects.create(product=acme)
    assert link in reader.get(home).content.decode()
    assert "Events appear after the first full sync" in licenses(reader, acme)
