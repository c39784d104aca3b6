"""The side bar, the switchers, and the breadcrumbs of the admin's pages."""

import re
from html import unescape

import pytest
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse
from django.utils.html import strip_tags

from engagement.models import Product, ProductMember, Workspace
from tests.admin.conftest import logged_in
from tests.admin.rows import Rows

SECTIONS = [
    "Overview",
    "Accounts",
    "Users",
    "Segments",
    "Events and weights",
    "Ingestion",
    "Notifications",
    "Exports",
    "CRM",
    "Settings",
]


def page(who: Client, url: str) -> str:
    answer = who.get(url, follow=True)
    assert answer.status_code == 200, url
    return answer.content.decode()


def links(html: str) -> list[tuple[str, str, str]]:
    """The label, URL, and aria-current of each link of the side bar."""
    (nav,) = re.findall(r'<nav id="navigation".*?</nav>', html, re.DOTALL)
    nav = re.sub(r"<svg.*?</svg>", "", nav)
    matches = re.findall(r'<a href="([^"]*)"(?: aria-current="(\w+)")?>(.*?)</a>', nav)
    return [(unescape(label), unescape(url), current) for url, current, label in matches]


def urls(html: str) -> dict[str, str]:
    return {label: url for label, url, _ in links(html)}


def crumbs(html: str) -> list[str]:
    (nav,) = re.findall(r'<nav class="eds-crumbs".*?</nav>', html, re.DOTALL)
    return [unescape(strip_tags(item)) for item in re.findall(r"<li>(.*?)</li>", nav, re.DOTALL)]


def section_of(rows: Rows) -> dict[str, str]:
    """The section that each page about a row belongs to."""
    own = {
        "engagement_account": "Accounts",
        "engagement_user": "Users",
        "engagement_segment": "Segments",
        "engagement_workspace": "Events and weights",
        "engagement_feature": "Events and weights",
        "engagement_eventname": "Events and weights",
        "engagement_product": "Settings",
        "ingestion_ingestionkey": "Settings",
        "ingestion_forgetkey": "Settings",
        "readapi_apitoken": "Settings",
        "engagement_trailentry": "Settings",
        "marketplace_connection": "Settings",
        "notifications_subscription": "Notifications",
        "notifications_destination": "Notifications",
        "notifications_digest": "Notifications",
        "notifications_outboxmessage": "Notifications",
        "exports_scheduledexport": "Exports",
        "exports_exportrun": "Exports",
        "destinations_recorddestination": "CRM",
        "destinations_recordrun": "CRM",
    }
    return {name: own.get(name, "Ingestion") for name, _ in rows.pages()}


@pytest.mark.slow
@pytest.mark.parametrize("role", ["member", "reader"])
def test_every_page_of_a_product_links_to_its_siblings(
    acme_rows: Rows, request: pytest.FixtureRequest, role: str
) -> None:
    who = request.getfixturevalue(role)
    sections = section_of(acme_rows)
    for name, pk in acme_rows.pages():
        if name == "engagement_trailentry" and role == "reader":
            # Managers see the trail.
            continue
        html = page(who, reverse(f"admin:{name}_change", args=[pk]))
        labels = [label for label, _, _ in links(html)]
        assert [label for label in labels if label in SECTIONS] == SECTIONS, name
        current_labels = [
            label for label, _, current in links(html) if current and label in SECTIONS
        ]
        assert current_labels == [sections[name]], name
        steps = crumbs(html)
        assert steps[:2] == ["Home", "Acme"] and "Engagement" not in steps, steps
    for label, url in urls(html).items():
        if label in SECTIONS:
            marks = {text: current for text, _, current in links(page(who, url))}
            assert marks[label] == "page", label


def test_breadcrumbs_and_headings_say_names(member: Client, acme_rows: Rows) -> None:
    account, workspace = acme_rows.account, acme_rows.workspace
    account.traits["name"] = "Ember Care"
    account.save(update_fields=["traits"])
    change = reverse("admin:engagement_account_change", args=[account.pk])
    html = page(member, f"{change}?workspace={workspace.pk}")
    assert crumbs(html) == ["Home", "Acme", "Accounts", "Ember Care"]
    assert "<h1>Ember Care</h1>" in html
    forget = reverse("admin:engagement_account_forget", args=[account.pk])
    assert crumbs(page(member, forget))[-2:] == ["Ember Care", "Forget"]
    change = reverse("admin:engagement_workspace_change", args=[workspace.pk])
    html = page(member, change)
    assert crumbs(html) == ["Home", "Acme", "Events and weights"]
    assert f"<h1>{workspace.name}</h1>" in html
    assert crumbs(page(member, f"{change.removesuffix('change/')}history/"))[-1] == "History"


def test_the_workspace_stays_in_the_address(member: Client, acme_rows: Rows) -> None:
    weekly = Workspace.objects.create(product=acme_rows.product, name="Weekly", lookback_days=7)
    account = reverse("admin:engagement_account_change", args=[acme_rows.account.pk])
    html = page(member, f"{account}?workspace={acme_rows.workspace.pk}")
    # The switcher shows the same account in the other workspace.
    assert urls(html)["Weekly"] == f"{account}?workspace={weekly.pk}"
    html = page(member, urls(html)["Weekly"])
    for label in ("Overview", "Accounts", "Users", "Ingestion", "Settings"):
        url = urls(html)[label]
        assert url.endswith(f"?workspace={weekly.pk}"), label
        current_labels = {
            label for label, _, current in links(page(member, url)) if current == "true"
        }
        assert "Weekly" in current_labels, label
    assert urls(html)["Segments"].endswith(f"?workspace__id__exact={weekly.pk}")
    assert f"/{weekly.pk}/" in urls(html)["Events and weights"]
    # On a list, it leads to the same list.
    html = page(member, urls(html)["Users"])
    users = reverse("admin:engagement_user_changelist")
    assert urls(html)[acme_rows.workspace.name] == f"{users}?workspace={acme_rows.workspace.pk}"


def test_the_product_switcher_keeps_the_section(
    root: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    html = page(root, reverse("admin:ingestion_ingestionlog_change", args=[acme_rows.product.pk]))
    log = reverse("admin:ingestion_ingestionlog_change", args=[globex_rows.product.pk])
    assert urls(html)["Globex"] == log
    accounts = reverse("admin:engagement_account_changelist")
    html = page(root, f"{accounts}?workspace={acme_rows.workspace.pk}")
    assert urls(html)["Globex"] == f"{accounts}?workspace={globex_rows.workspace.pk}"
    # Without a product in the address, the side bar lists the products.
    html = page(root, reverse("admin:index"))
    assert "Accounts" not in urls(html)
    assert urls(html)["Globex"].endswith(f"?workspace={globex_rows.workspace.pk}")


def test_a_member_sees_only_own_products_and_pages(
    member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    index = reverse("admin:index")
    html = page(member, index)
    # With one product there is nothing to choose.
    assert "Globex" not in html and "Accounts" in urls(html)
    assert not {"All products", "Logins", "Background jobs"} & set(urls(html))
    for query in (f"product={globex_rows.product.pk}", f"workspace={globex_rows.workspace.pk}"):
        assert member.get(f"{index}?{query}").status_code == 404
    assert "Globex" not in page(member, f"{index}?product={acme_rows.product.pk}")


def test_the_overview_shows_the_scores_of_its_workspace(root: Client, acme_rows: Rows) -> None:
    weekly = Workspace.objects.create(product=acme_rows.product, name="Weekly", lookback_days=7)
    html = page(root, f"{reverse('admin:index')}?workspace={weekly.pk}")
    assert "<h1>Acme</h1>" in html and html.count('class="eds-card"') == 1
    assert "Weekly" in strip_tags(html)


def test_a_product_without_workspaces_has_no_pages_of_one(root: Client, acme: Product) -> None:
    acme.workspaces.all().delete()
    html = page(root, reverse("admin:engagement_product_change", args=[acme.pk]))
    assert "Segments" not in urls(html)
    assert urls(html)["Accounts"].endswith(f"?product__id__exact={acme.pk}")
    assert page(root, urls(html)["Overview"])
    # Its managers are led to the form that adds one.
    assert "/add/" in urls(html)["Events and weights"]
    viewer = AdminUser.objects.create_user("vera", is_staff=True)
    ProductMember.objects.create(product=acme, user=viewer)
    html = page(logged_in(viewer), reverse("admin:engagement_product_change", args=[acme.pk]))
    assert "Events and weights" not in urls(html)


def test_clearing_a_search_keeps_the_workspace(member: Client, acme_rows: Rows) -> None:
    accounts = reverse("admin:engagement_account_changelist")
    html = page(member, f"{accounts}?workspace={acme_rows.workspace.pk}&q=nothing-like-it")
    assert "No accounts match “nothing-like-it”." in html
    cleared = f"?workspace={acme_rows.workspace.pk}&amp;view=all"
    assert f'href="{cleared}">clear the search</a>' in html


def test_filters_stand_before_the_table(root: Client, acme_rows: Rows) -> None:
    for name, _ in acme_rows.pages():
        html = page(root, reverse(f"admin:{name}_changelist"))
        if 'id="changelist-filter"' in html:
            table = html.index('id="result_list"')
            assert html.index('id="changelist-filter"') < table, name
