"""The lists of users and accounts as CSV files."""

import csv
import re
from datetime import timedelta
from typing import Any

import pytest
from django.http import StreamingHttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from access.pages.csv_file import csv_cell, csv_response
from console.lists import rows as list_rows
from engagement.models import Account, AccountEngagement, ProductMember, ScoreSet, UserEngagement
from engagement.orders import storage
from engagement.segments import counts
from tests.admin.rows import NOON, Rows, a_user, index_for_search
from tests.cases import each
from tests.chances import add_chance
from tests.jobs import pretend_duration, refresh_orders


def exported(who: Client, kind: str = "user", query: dict[str, Any] | None = None) -> Any:
    """The lines of the file, with the header."""
    answer: Any = who.get(reverse(f"admin:engagement_{kind}_export"), query or {}, follow=True)
    assert isinstance(answer, StreamingHttpResponse)
    return list(csv.reader(answer.getvalue().decode().splitlines()))


def test_a_list_is_exported_with_its_columns(root: Client, acme_rows: Rows) -> None:
    UserEngagement.objects.update(
        last_active_at=NOON - timedelta(days=1), raw_yesterday=100, raw_yesterday_last_period=500
    )
    ScoreSet.objects.update(user_benchmark_yesterday=100, user_benchmark_yesterday_last_period=100)
    assert exported(root) == [
        [
            *("tracking_id", "name", "email", "score", "change"),
            *("account tracking_id", "account name", "last active"),
        ],
        [
            *("acme-user", "", "acme-user@Example.com", "90.0", "-10.0"),
            *("acme-account", "acme-account name", "2026-03-01T12:00:00+00:00"),
        ],
    ]
    Account.objects.update(traits={"am.licenseType": "COMMERCIAL", "am.status": "active"})
    parameters = {"column": ["license", "active_users", "first_seen", "trait:am.status"]}
    assert exported(root, "account", parameters) == [
        [
            *("tracking_id", "name", "domain"),
            *("license type", "license tier", "license status", "renewal"),
            *("active users", "total users", "first seen", "am.status"),
        ],
        [
            *("acme-account", "", "", "COMMERCIAL", "", "active", ""),
            *("2", "0", "2026-03-02T12:00:00+00:00", "active"),
        ],
    ]


@each(("value", "cell"), [(123400, "123400"), ("on request", "on request"), (None, "")])
def test_what_an_account_pays_is_exported_in_cents(
    root: Client, acme_rows: Rows, value: Any, cell: str
) -> None:
    Account.objects.update(traits={"mrr": value})
    head, line = exported(root, "account", {"column": ["mrr"]})
    assert (head[-1], line[-1]) == ("mrr", cell)


def test_chances_are_exported_as_exactly_as_they_are_shown(root: Client, acme_rows: Rows) -> None:
    for kind, is_share in (("evaluation", False), ("renewal", True)):
        add_chance(
            acme_rows.product, "acme-account", kind, 0.346, low=0.2, high=0.505, is_share=is_share
        )
    head, line = exported(root, "account", {"columns": "chance_to_buy,chance_to_renew"})
    names = ["chance to buy", "chance to renew"]
    assert head[3:] == [f"{name}{end}" for name in names for end in ("", " low", " high")]
    assert line[3:] == ["0.35", "0.2", "0.51", "", "", ""]


def test_an_export_respects_filters_and_order(root: Client, acme_rows: Rows) -> None:
    a_user(acme_rows.product, "high", acme_rows.workspace, acme_rows.account, 500)
    parameters: dict[str, Any] = {"workspace": acme_rows.workspace.pk, "sort": "score"}
    assert [row[0] for row in exported(root, query=parameters)[1:]] == ["acme-user", "high"]
    parameters["segment"] = acme_rows.segment.pk
    assert len(exported(root, query=parameters)) == 3
    index_for_search(acme_rows.product)
    assert [row[0] for row in exported(root, query={**parameters, "q": "hig"})[1:]] == ["high"]


def test_an_export_is_of_all_pages(
    root: Client, acme_rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        a_user(acme_rows.product, f"u{number}", acme_rows.workspace, acme_rows.account)
    exact = exported(root)
    assert len(exact) == 62
    # A large set is read chunk by chunk from its stored order.
    monkeypatch.setattr(storage, "MAX_LIVE_ROWS", 0)
    pretend_duration(monkeypatch, 0.0)
    counts.recount(ScoreSet.objects.get(), NOON)
    refresh_orders(NOON)
    monkeypatch.setattr(list_rows, "ROWS_PER_FETCH", 7)
    assert exported(root) == exact
    assert exported(root, query={"sort": "-name"})[1:] == sorted(exact[1:], reverse=True)


def test_a_file_says_what_it_is(root: Client, acme_rows: Rows) -> None:
    day = timezone.now().date().isoformat()
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("user", {}, "acme_default_users"),
        ("account", {}, "acme_default_accounts"),
        ("user", {"segment": acme_rows.segment.pk}, "acme_default_acme-segment"),
        ("account", {"insight": "new_account"}, "acme_default_accounts_new-account"),
    ]
    for kind, query, name in cases:
        answer = root.get(reverse(f"admin:engagement_{kind}_export"), query, follow=True)
        expected = f'attachment; filename="{name}_{day}.csv"'
        assert answer.headers["Content-Disposition"] == expected


def test_a_file_has_the_insight_and_no_microseconds(root: Client, acme_rows: Rows) -> None:
    at = NOON + timedelta(microseconds=123_456)
    Account.objects.update(first_seen_at=at)
    AccountEngagement.objects.update(last_active_at=at)
    ScoreSet.objects.update(scored_day=NOON.date())
    parameters = {"insight": "new_account", "column": ["first_seen", "last_active"]}
    assert exported(root, "account", parameters) == [
        ["tracking_id", "name", "domain", "first seen", "last active", "insight"],
        [
            *("acme-account", "acme-account name", "acme-account.example"),
            *("2026-03-02T12:00:00+00:00", "2026-03-02T12:00:00+00:00", "New account"),
        ],
    ]


def test_the_list_leads_to_the_export_of_the_same(root: Client, acme_rows: Rows) -> None:
    listing = reverse("admin:engagement_user_changelist")
    html = root.get(listing, {"q": "acme", "sort": "name"}, follow=True).content.decode()
    (query,) = re.findall(rf'href="{reverse("admin:engagement_user_export")}\?(.*?)"', html)
    assert query == f"workspace={acme_rows.workspace.pk}&amp;q=acme&amp;sort=name"


def test_no_export_holds_another_product(
    member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    for kind in ("user", "account"):
        for query in ({}, {"q": "globex"}):
            assert "globex" not in str(exported(member, kind, query)).lower()
        address = reverse(f"admin:engagement_{kind}_export")
        for name, pk in (
            ("workspace", globex_rows.workspace.pk),
            ("product__id__exact", globex_rows.product.pk),
        ):
            assert member.get(address, {name: pk}).status_code == 404
        assert member.post(address).status_code == 405
    ProductMember.objects.all().delete()
    assert member.get(reverse("admin:engagement_user_export")).status_code == 403
    assert Client().get(reverse("admin:engagement_user_export")).status_code == 302


@each("sign", "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
def test_no_cell_is_a_formula(sign: str) -> None:
    assert csv_cell(f"{sign}1") == f"'{sign}1"
    assert csv_cell(f"1{sign}") == f"1{sign}"


SIGNS = "=+-@\uff1d\uff0b\uff0d\uff20\ufe62\ufe63\ufe66\ufe6b\u2212"
BLANKS = (
    " \u00a0\u2003\u3000\u2028\t\r\n\x00\x1b\u00ad\u200b\u200e\u202e\u2060\ufeff\ufe0f\u034f\u3164"
)


@each("blank", BLANKS)
def test_no_cell_is_a_formula_behind_what_is_blank_or_invisible(blank: str) -> None:
    for sign in SIGNS:
        for text in (f"{blank}{sign}1", f" {blank}{sign}", f"{blank * 100}{sign}cmd"):
            assert csv_cell(text) == f"'{text}"


def test_other_cells_stay_as_they_are() -> None:
    for text in ("", " ", "\ufeff", " a=1", "\u200bAda", "2026-10-01", "a@b.example", "日本-1"):
        assert csv_cell(text) == text
    assert (csv_cell(-1.5), csv_cell(None)) == ("-1.5", "")


def test_the_line_of_names_has_no_formula_either() -> None:
    response = csv_response("x", [" =cmd", "name"], [["1", "2"]])
    assert b"".join(response.streaming_content) == b"' =cmd,name\r\n1,2\r\n"  # type: ignore[arg-type]


def test_a_hostile_id_is_no_formula_in_the_file(root: Client, acme_rows: Rows) -> None:
    a_user(acme_rows.product, '=HYPERLINK("x")', acme_rows.workspace, acme_rows.account, 500)
    assert exported(root)[1][0] == '\'=HYPERLINK("x")'
