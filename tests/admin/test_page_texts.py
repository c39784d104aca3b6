"""Titles, counts, empty lists, headers, and what a page asks before it deletes."""

import re
from typing import Any

from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import strip_tags

from access.models import TrailEntry
from access.trail import entries
from engagement.limits.limits import count_usage
from engagement.models import Product
from tests.admin.rows import Rows
from tests.admin.test_navigation import crumbs, links, page

# Lists that are empty in a new product, and what their rows are for.
EMPTY = {
    "notifications_subscription": "tells people or programs of a change",
    "notifications_destination": "A webhook, a channel of a chat, or an email address",
    "notifications_digest": "One tells once a week, or once a day, what changed",
    "notifications_outboxmessage": "Each one that a subscription sends is listed here.",
    "exports_scheduledexport": "writes accounts, users, and scores to files",
    "exports_exportrun": "Each run of a scheduled export is listed here.",
    "ingestion_ingestionkey": "Applications send their data with one.",
    "ingestion_forgetkey": "A program that erases people on request needs one.",
    "ingestion_quarantinedmessage": "No message is in quarantine.",
    "ingestion_droppedmessage": "No dropped messages.",
    "readapi_apitoken": "Programs read scores with one.",
    "engagement_trailentry": "Nothing that people did is in the trail yet.",
}


def heading(html: str) -> str:
    (text,) = re.findall(r"<h1>(.*?)</h1>", html, re.DOTALL)
    return strip_tags(text).strip()


def title(html: str) -> str:
    (text,) = re.findall(r"<title>(.*?)</title>", html, re.DOTALL)
    return str(text).strip()


def test_an_empty_list_says_what_its_rows_are_for(
    member: Client, reader: Client, acme: Product
) -> None:
    for name, text in EMPTY.items():
        url = f"{reverse(f'admin:{name}_changelist')}?product__id__exact={acme.pk}"
        html = page(member, url)
        (empty,) = re.findall(r'<p class="eds-none">(.*?)</p>', html, re.DOTALL)
        assert text in empty, name
        assert ("Add the first one" in empty) == ('class="addlink"' in html), name
        # It says so once, and counts nothing.
        assert "eds-count" not in html and 'class="paginator"' not in html, name
        # Viewers see no trail, and make digests of their own.
        if name != "engagement_trailentry":
            may_add = name == "notifications_digest"
            assert ("Add the first one" in page(reader, url)) == may_add, name


def test_a_list_is_titled_by_what_it_lists(member: Client, acme: Product) -> None:
    html = page(member, reverse("admin:engagement_workspace_changelist"))
    assert title(html).startswith("Workspaces | ") and heading(html) == "Workspaces"


def test_the_trail_counts_entries_and_is_marked_once(
    root: Client, acme: Product, globex: Product
) -> None:
    person = AdminUser.objects.get(username="root")
    actor = entries.Actor(person.pk, "root")
    for action in (entries.Action.SIGNED_IN, entries.Action.SIGN_IN_FAILED):
        entries.record(actor, action, "sign-in")
    entries.record(actor, entries.Action.CHANGED, "product", product_id=acme.pk, name="Acme")
    url = reverse("admin:engagement_trailentry_changelist")
    html = page(root, url)
    assert f"{TrailEntry.objects.count()} entries" in html
    assert heading(html) == "Trail" and title(html).startswith("Trail | ")
    assert "column-ago" in html and ">time</" in html.lower() and ">At<" not in html
    current_labels = [label for label, _, current in links(html) if current]
    assert current_labels == ["Trail"]
    html = page(root, f"{url}?product__id__exact={acme.pk}")
    current_labels = [label for label, _, current in links(html) if current]
    assert current_labels[-2:] == ["Settings", "Trail"] and current_labels.count("Trail") == 1
    (pk,) = re.findall(r"/admin/engagement/trailentry/(\d+)/change/", html)
    html = page(root, reverse("admin:engagement_trailentry_change", args=[pk]))
    assert heading(html) == "Changed product Acme"
    assert "historylink" not in html and "None" not in strip_tags(html)


def test_a_page_asks_in_its_own_words_before_it_deletes(root: Client, acme_rows: Rows) -> None:
    segment = acme_rows.workspace.segments.create(scope="user", name="Mine")
    rows: list[tuple[str, Any, str]] = [
        ("engagement_segment", segment, "This deletes the segment"),
        ("auth_user", AdminUser.objects.create_user("Leaver"), "This deletes the login"),
    ]
    for name, row, text in rows:
        html = page(root, reverse(f"admin:{name}_delete", args=[row.pk]))
        assert heading(html).startswith("Delete ") and heading(html).endswith("?")
        assert text in html and "This cannot be undone." in html and "Yes, I" not in html
        assert f'href="{reverse(f"admin:{name}_change", args=[row.pk])}" class="button' in html
        answer = root.post(reverse(f"admin:{name}_delete", args=[row.pk]), {"post": "yes"})
        assert answer.status_code == 302 and not type(row).objects.filter(pk=row.pk).exists()


def test_deleting_a_workspace_names_it_in_the_heading(root: Client, acme_rows: Rows) -> None:
    workspace = acme_rows.workspace
    html = page(root, reverse("admin:engagement_workspace_delete", args=[workspace.pk]))
    assert heading(html) == f"Delete {workspace.name}?"


def test_the_page_of_a_login_names_it_and_shows_nothing_of_its_password(root: Client) -> None:
    login = AdminUser.objects.create_user("Maya", password="correct horse battery staple")
    html = page(root, reverse("admin:auth_user_change", args=[login.pk]))
    assert heading(html) == "Maya" and crumbs(html) == ["Home", "Logins", "Maya"]
    assert "Set." in html and "pbkdf2" not in html and "salt" not in html
    assert "Designates" not in html


def test_the_header_is_the_same_on_each_page(member: Client, acme: Product) -> None:
    log = reverse("admin:ingestion_ingestionlog_change", args=[acme.pk])
    for url in (reverse("admin:password_change"), f"{log}?q=u-17", reverse("admin:index")):
        (tools,) = re.findall(r'<div id="user-tools">.*?</div>', page(member, url), re.DOTALL)
        labels = ("Guides", "Preferences", "Your account")
        assert [label for label in labels if f">{label}</a>" in tools] == list(labels), url
    # The log has a search of its own.
    (box,) = re.findall(r'<input type="search" id="eds-find"[^>]*>', page(member, f"{log}?q=u-17"))
    assert 'value=""' in box
    (box,) = re.findall(
        r'<input type="search" id="eds-find"[^>]*>',
        page(member, f"{reverse('admin:search')}?q=u-17"),
    )
    assert 'value="u-17"' in box


def test_a_limit_that_is_not_set_shows_the_services(root: Client, acme: Product) -> None:
    html = page(root, reverse("admin:engagement_product_change", args=[acme.pk]))
    (field,) = re.findall(r'<input[^>]*name="limits-0-event_names"[^>]*>', html)
    assert 'placeholder="100,000"' in field and "Own limit</th>" in html


def test_what_is_not_counted_yet_is_not_shown_as_nothing(root: Client, acme: Product) -> None:
    url = reverse("admin:engagement_product_change", args=[acme.pk])
    (section,) = re.findall(r'id="usage-heading".*?</fieldset>', page(root, url), re.DOTALL)
    assert "Not counted yet" in section and ">0<" not in section
    count_usage(timezone.now())
    (section,) = re.findall(r'id="usage-heading".*?</fieldset>', page(root, url), re.DOTALL)
    assert "Not counted yet" not in section and ">0<" in section


def test_one_key_is_revoked_in_the_singular(member: Client, acme_rows: Rows) -> None:
    url = reverse("admin:ingestion_ingestionkey_revoke", args=[acme_rows.key.pk])
    assert heading(page(member, url)) == "Revoke ingestion key"


def test_the_url_of_a_button_says_that_nothing_happened(root: Client, acme_rows: Rows) -> None:
    """Somebody comes there by the login, whose session had ended before the button was pressed."""
    response = root.get(reverse("admin:ingestion_ingestionkey_rotate", args=[acme_rows.key.pk]))
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert "Nothing happened" in response.content.decode()


def test_filters_and_fields_have_the_names_of_columns(root: Client, acme_rows: Rows) -> None:
    segments = page(root, reverse("admin:engagement_segment_changelist"))
    assert ">Type" in segments and ">Scope" not in segments
    url = reverse("admin:ingestion_droppedmessage_change", args=[acme_rows.dropped.pk])
    dropped = page(root, url)
    assert heading(dropped) == f"Message {acme_rows.dropped.pk}: Duplicate"
    assert "User id" in dropped and "external" not in dropped
    token = page(root, reverse("admin:readapi_apitoken_change", args=[acme_rows.token.pk]))
    assert token.index("Last used at<") < token.index("Last used from<") < token.index("State<")
