"""The lists of users and accounts as CSV files."""

import csv
from datetime import timedelta
from typing import Any

import pytest
from django.http import StreamingHttpResponse
from django.test import Client
from django.urls import reverse

from engagement.admin.subject_export import csv_cell
from engagement.models import ProductMember, UserEngagement
from tests.admin.rows import NOON, Rows, a_user, index_for_search


def exported(who: Client, kind: str = "user", query: dict[str, Any] | None = None) -> Any:
    """The lines of the file, with the header."""
    answer: Any = who.get(reverse(f"admin:engagement_{kind}_export"), query or {})
    assert isinstance(answer, StreamingHttpResponse)
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{kind}s.csv"'
    return list(csv.reader(answer.getvalue().decode().splitlines()))


def test_a_list_is_exported_with_its_traits(root: Client, acme_rows: Rows) -> None:
    at = "2026-03-02T12:00:00+00:00"
    assert exported(root) == [
        ["id", "name", "email", "product", "first seen", "last active"],
        ["acme-user", "", "acme-user@Example.com", "Acme", at, ""],
    ]
    UserEngagement.objects.update(last_active_at=NOON - timedelta(days=1))
    yesterday = "2026-03-01T12:00:00+00:00"
    assert exported(root)[1][5] == yesterday
    assert exported(root, query={"workspace": acme_rows.workspace.pk})[1][5] == yesterday
    assert exported(root, "account")[1][:3] == [
        "acme-account",
        "acme-account name",
        "acme-account.example",
    ]


def test_an_export_respects_search_workspace_and_segment(root: Client, acme_rows: Rows) -> None:
    a_user(acme_rows.product, "high", acme_rows.workspace, acme_rows.account, 500)
    chosen = {"workspace": acme_rows.workspace.pk}
    header, *rows = exported(root, query=chosen)
    assert header[-1] == "score"
    assert [(row[0], row[-1]) for row in rows] == [("high", "100.0"), ("acme-user", "90.0")]
    chosen["segment"] = acme_rows.segment.pk
    assert len(exported(root, query=chosen)) == 3
    index_for_search(acme_rows.product)
    assert [row[0] for row in exported(root, query={**chosen, "q": "hig"})[1:]] == ["high"]


def test_an_export_is_of_all_pages(
    root: Client, acme_rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engagement.admin.listing.BoundedPaginator.max_rows", 1)
    for number in range(60):
        a_user(acme_rows.product, f"u{number}", acme_rows.workspace, acme_rows.account)
    assert len(exported(root)) == 62


def test_the_list_leads_to_the_export_of_the_same(root: Client, acme_rows: Rows) -> None:
    listing = reverse("admin:engagement_user_changelist")
    html = root.get(listing, {"q": "acme"}).content.decode()
    assert f'href="{reverse("admin:engagement_user_export")}?q=acme"' in html


def test_no_export_holds_another_product(
    member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    for kind in ("user", "account"):
        for query in ({}, {"q": "globex"}, {"product__id__exact": globex_rows.product.pk}):
            assert "globex" not in str(exported(member, kind, query)).lower()
        address = reverse(f"admin:engagement_{kind}_export")
        assert member.get(address, {"workspace": globex_rows.workspace.pk}).status_code == 404
        assert member.post(address).status_code == 405
    ProductMember.objects.all().delete()
    assert member.get(reverse("admin:engagement_user_export")).status_code == 403
    assert Client().get(reverse("admin:engagement_user_export")).status_code == 302


@pytest.mark.parametrize("sign", "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
def test_no_cell_is_a_formula(sign: str) -> None:
    assert csv_cell(f"{sign}1") == f"'{sign}1"
    assert csv_cell(f"1{sign}") == f"1{sign}"


def test_a_hostile_id_is_no_formula_in_the_file(root: Client, acme_rows: Rows) -> None:
    a_user(acme_rows.product, '=HYPERLINK("x")', acme_rows.workspace, acme_rows.account)
    assert exported(root)[1][0] == '\'=HYPERLINK("x")'
