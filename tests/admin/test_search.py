"""The search box of each page finds accounts and users of the products that one may see."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from core.database import sql
from engagement.models import Account, Workspace
from engagement.search import lookup
from tests.admin.rows import Rows, index_for_search
from tests.engagement.history import NOON


@pytest.fixture(autouse=True)
def indexed(acme_rows: Rows, globex_rows: Rows) -> None:
    Account.objects.create(
        product=acme_rows.product,
        external_id="6f1c9b1e",
        is_identified=True,
        traits={"name": "Ember <b>Care</b>", "domain": "ember.example"},
        first_seen_at=NOON,
        last_seen_at=NOON,
    )
    for rows in (acme_rows, globex_rows):
        index_for_search(rows.product)


def search(who: Client, term: str, **query: Any) -> str:
    answer = who.get(reverse("admin:search"), {"q": term, **query})
    assert answer.status_code == 200
    return answer.content.decode()


def test_any_part_leads_to_the_page(member: Client, acme_rows: Rows) -> None:
    page = search(member, "R.EXAMP")
    ember = Account.objects.get(external_id="6f1c9b1e")
    assert reverse("admin:engagement_account_change", args=[ember.pk]) in page
    assert "Ember &lt;b&gt;Care&lt;/b&gt;" in page
    assert reverse("admin:engagement_user_change", args=[acme_rows.user.pk]) in search(
        member, "cme-us"
    )


def test_nobody_sees_another_product(member: Client, root: Client, globex_rows: Rows) -> None:
    url = reverse("admin:engagement_account_change", args=[globex_rows.account.pk])
    assert url in search(root, "globex")
    for query in ({}, {"product": globex_rows.product.pk}):
        page = search(member, "globex", **query)
        assert url not in page
        assert "No account or user contains “globex”." in page


def test_the_product_of_the_page_comes_first(
    root: Client, acme_rows: Rows, globex_rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.dashboard.search.MAX_SUGGESTIONS", 1)
    for rows in (acme_rows, globex_rows):
        page = search(root, "-account", product=rows.product.pk, suggestions="")
        assert reverse("admin:engagement_account_change", args=[rows.account.pk]) in page
        assert "More accounts match." in page


def test_the_workspace_of_the_page_stays(root: Client, acme_rows: Rows, globex_rows: Rows) -> None:
    monthly = Workspace.objects.create(product=acme_rows.product, name="Monthly")
    home = root.get(reverse("admin:index"), {"workspace": monthly.pk}).content.decode()
    assert f'<input type="hidden" name="workspace" value="{monthly.pk}">' in home
    page = search(root, "-account", product=acme_rows.product.pk, workspace=monthly.pk)
    ours, theirs = (
        reverse("admin:engagement_account_change", args=[rows.account.pk])
        for rows in (acme_rows, globex_rows)
    )
    assert f'href="{ours}?workspace={monthly.pk}"' in page
    assert f'href="{theirs}"' in page


def test_suggestions_are_a_part_of_a_page(root: Client) -> None:
    assert search(root, "ember", suggestions="").lstrip().startswith("<section")
    assert search(root, " ", suggestions="").strip() == ""


def test_each_page_has_the_box_and_an_empty_search_says_what_to_do(root: Client) -> None:
    assert 'role="search"' in root.get(reverse("admin:index")).content.decode()
    assert "Enter any part of a name" in search(root, "")


def test_a_search_that_takes_too_long_says_so(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*args: Any) -> list[lookup.Match]:
        with sql.statement_timeout(0.05):
            sql.fetch("SELECT pg_sleep(5)")
        return []

    monkeypatch.setattr(lookup, "find", slow)
    assert "The search takes too long." in search(root, "ember")


def test_only_logins_search(client: Client) -> None:
    assert client.get(reverse("admin:search"), {"q": "ember"}).status_code == 302
