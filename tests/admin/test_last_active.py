"""Being mentioned in a message is not activity: lists, pages, and exports tell them apart."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from engagement.models import Account, AccountEngagement, User, UserEngagement
from tests.admin.rows import NOON, Rows
from tests.admin.test_subject_pages import account_page, second_workspace, user_page


@pytest.fixture(autouse=True)
def named_today_and_active_nine_days_ago(acme_rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a license sync, which mentions every account."""
    monkeypatch.setattr(timezone, "now", lambda: NOON)
    for subjects in (User.objects, Account.objects):
        subjects.update(last_seen_at=NOON)
    for rows in (UserEngagement.objects, AccountEngagement.objects):
        rows.update(last_active_at=NOON - timedelta(days=9, hours=3))


def cell(page: str) -> str:
    (text,) = re.findall(r'<td class="field-last_active"[^>]*>(.*?)</td>', page)
    return str(text)


@pytest.mark.parametrize("kind", ["user", "account"])
def test_a_list_shows_when_a_subject_was_last_active(
    root: Client, acme_rows: Rows, kind: str
) -> None:
    listing = reverse(f"admin:engagement_{kind}_changelist")
    for query in ({}, {"workspace": acme_rows.workspace.pk}):
        text = cell(root.get(listing, query, follow=True).content.decode())
        assert ">9 days ago</time>" in text and 'title="2026-02-21 09:00:00 UTC"' in text
    for rows in (UserEngagement.objects, AccountEngagement.objects):
        rows.update(last_active_at=None)
    assert cell(root.get(listing, follow=True).content.decode()) == "Never"


def test_days_are_utc_days(root: Client, acme_rows: Rows) -> None:
    """33 days and 15 hours ago is 34 UTC days before the noon of NOON."""
    listing = reverse("admin:engagement_account_changelist")
    for ago, text in (
        (timedelta(days=33, hours=15), "34 days ago"),
        (timedelta(days=33, hours=11), "33 days ago"),
        (timedelta(hours=23), "23 hours ago"),
        (timedelta(days=1, hours=13), "2 days ago"),
    ):
        AccountEngagement.objects.update(last_active_at=NOON - ago, raw=0)
        assert f">{text}</time>" in cell(root.get(listing, follow=True).content.decode())
    AccountEngagement.objects.update(last_active_at=NOON - timedelta(days=33, hours=15))
    page = root.get(account_page(acme_rows)).content.decode()
    assert ">34 days ago</time>" in page


def test_a_list_goes_by_the_workspace_that_ranks_it(root: Client, acme_rows: Rows) -> None:
    second = second_workspace(acme_rows)
    UserEngagement.objects.filter(score_set=second.scores).update(
        last_active_at=NOON - timedelta(minutes=5)
    )
    listing = reverse("admin:engagement_user_changelist")
    text = cell(root.get(listing, {"workspace": second.pk}).content.decode())
    assert ">5 minutes ago</time>" in text
    assert "9 days ago" in cell(root.get(listing, follow=True).content.decode())


@pytest.mark.parametrize("page", [user_page, account_page])
def test_a_page_tells_the_last_activity_from_the_last_message(
    root: Client, acme_rows: Rows, page: Any
) -> None:
    response = root.get(page(acme_rows))
    assert "9 days ago" in dict(response.context["summary"].metrics)["Last active"]
    (message,) = re.findall(
        r'<div class="form-row field-last_message">.*?<time[^>]*>(.*?)</time>',
        response.content.decode(),
        re.DOTALL,
    )
    assert message == "just now"


def test_an_accounts_users_are_listed_with_their_last_activity(
    root: Client, acme_rows: Rows
) -> None:
    (row,) = root.get(account_page(acme_rows)).context["people"].rows
    assert row.last_active_at == NOON - timedelta(days=9, hours=3)
