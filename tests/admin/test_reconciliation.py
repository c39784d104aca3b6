"""A page compares a product's license events with what the marketplace counts."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from engagement.models import Product
from marketplace.models import (
    Connection,
    LedgerLicense,
    LicenseAlias,
    MetricEvent,
    ReportReading,
)
from tests.admin.rows import a_connection
from tests.admin.test_license_events import THIS_MONTH, an_account
from tests.license_events import add_event

NOW = datetime.now(UTC)
MINUS = "\N{MINUS SIGN}"
MONTH = f"{THIS_MONTH:%Y-%m}"
# Before the last two days, in which the marketplace may be late.
DAY = THIS_MONTH - timedelta(days=40)


@pytest.fixture
def connection(acme: Product) -> Connection:
    return a_connection(acme)


def read_counts(connection: Connection, **fields: Any) -> None:
    """Have the counts of churn and renewals be read."""
    for report in ("churn", "renewal"):
        ReportReading.objects.create(
            connection=connection, report=report, read_at=NOW, full_at=NOW, rows=2, **fields
        )


def add_license(product: Product, license: str, cloud_id: str = "site-a") -> None:
    LedgerLicense.objects.create(
        product=product, license=license, key=license, cloud_id=cloud_id, as_of=DAY, digest=b""
    )
    LicenseAlias.objects.create(product=product, name=license, license=license)


def count(product: Product, license: str, day: date, metric: str = "churn", **fields: Any) -> None:
    values = {"names": [license], "cloud_id": "site-a", "seen_at": NOW, **fields}
    MetricEvent.objects.create(product=product, metric=metric, date=day, name=license, **values)


def page(reader: Client, product: Product, **query: str) -> str:
    address = reverse("admin:licenses_reconciliation")
    return reader.get(address, {"product": str(product.pk), **query}).content.decode()


def row_of(html: str, month: date) -> list[str]:
    """The numbers of the first table in a month."""
    table = html.split("<tbody>")[1].split("</tbody>")[0]
    (row,) = [row for row in table.split("</tr>") if f">{month:%b %Y}</th>" in row]
    cells = row.split("<td")[1:]
    return [_text(cell) for cell in cells]


def _text(cell: str) -> str:
    text = cell.partition(">")[2]
    while "<" in text:
        text = text[: text.index("<")] + text[text.index(">") + 1 :]
    return text.strip()


def test_months_show_both_sides_and_their_difference(
    reader: Client, acme: Product, connection: Connection
) -> None:
    read_counts(connection)
    for license in ("E-1", "E-2"):
        add_license(acme, license)
        add_event(acme, "churned", str(DAY), license=license)
    count(acme, "E-1", DAY, months=12)
    count(acme, "E-3", DAY, months=12)
    count(acme, "E-4", DAY, months=12)
    html = page(reader, acme)
    # All terms, monthly, annual, and other: the ledger does not know the term of E-2.
    assert row_of(html, DAY) == [
        *("2", "3", f"{MINUS}1", "3"),
        *("–", "–", "–"),
        *("1", "3", f"{MINUS}2"),
        *("1", "–", "+1"),
    ]
    assert f"Churn, {DAY:%B %Y}: 3 licenses differ" in html
    assert "2 rows were read." in html
    assert "STARTER to FREE" in html


def test_a_number_opens_the_licenses_that_differ(
    reader: Client, acme: Product, globex: Product, connection: Connection
) -> None:
    account = an_account(acme)
    read_counts(connection)
    add_license(acme, "E-1")
    add_event(acme, "churned", str(DAY), license="E-1")
    count(acme, "E-2", DAY + timedelta(days=1), cloud_id="site-b")
    count(globex, "E-9", DAY)
    html = page(reader, acme, metric="churn", month=f"{DAY:%Y-%m}")
    address = reverse("admin:engagement_account_change", args=[account.pk])
    assert address in html
    assert "site-b" in html and "The ledger does not know this license." in html
    assert "E-9" not in html
    assert "Ours: 1. Theirs: 1. Difference: none." in html


def test_licenses_that_agree_are_not_listed(
    reader: Client, acme: Product, connection: Connection
) -> None:
    read_counts(connection)
    add_license(acme, "E-1")
    add_event(acme, "churned", str(DAY), license="E-1")
    count(acme, "E-1", DAY + timedelta(days=3))
    html = page(reader, acme, metric="churn", month=f"{DAY:%Y-%m}")
    assert "All licenses agree." in html and "E-1" not in html


def test_what_was_never_read_is_no_zero(
    reader: Client, acme: Product, connection: Connection
) -> None:
    add_license(acme, "E-1")
    add_event(acme, "churned", str(DAY), license="E-1")
    ReportReading.objects.create(
        connection=connection, report="churn", problem="This account may not read it (403)."
    )
    html = page(reader, acme)
    assert row_of(html, DAY)[:4] == ["1", "–", "–", "–"]
    assert "This account may not read it (403). Licenses are synced as usual." in html


def test_others_pages_and_made_up_links_are_not_found(
    reader: Client, acme: Product, globex: Product, connection: Connection
) -> None:
    read_counts(connection)
    address = reverse("admin:licenses_reconciliation")
    assert reader.get(address, {"product": globex.pk}).status_code == 404
    assert reader.get(address).status_code == 404
    for query in (
        {"metric": "churn"},
        {"metric": "churn", "month": "2026-13"},
        {"metric": "churn", "month": "1999-01"},
        {"metric": "sales", "month": MONTH},
        # Never read.
        {"metric": "conversion", "month": MONTH},
    ):
        assert reader.get(address, {"product": str(acme.pk), **query}).status_code == 404, query


def test_licenses_and_the_connection_lead_to_it(
    reader: Client, acme: Product, connection: Connection
) -> None:
    add_event(acme, "churned", str(THIS_MONTH))
    link = f"{reverse('admin:licenses_reconciliation')}?product={acme.pk}"
    assert link in reader.get(reverse("admin:licenses"), {"product": acme.pk}).content.decode()
    status = reverse("admin:marketplace_connection_change", args=[connection.pk])
    assert link in reader.get(status).content.decode()


def test_without_a_connection_the_page_says_so(reader: Client, acme: Product) -> None:
    assert "The product is not connected to a marketplace." in page(reader, acme)
