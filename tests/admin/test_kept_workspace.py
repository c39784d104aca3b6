"""A list ranked by a workspace links to that workspace: rows, users, segments, breadcrumbs."""

import re

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import strip_tags

from engagement.models import AccountEngagement, Workspace
from tests.admin.rows import Rows, index_for_search
from tests.admin.test_subject_pages import (
    account_page,
    counted,
    second_workspace,
    store_event,
    user_page,
)


@pytest.fixture
def second(acme_rows: Rows) -> Workspace:
    """Not the workspace that pages open in by default."""
    workspace = second_workspace(acme_rows)
    assert workspace.scores is not None
    AccountEngagement.objects.create(
        product=acme_rows.product,
        score_set=workspace.scores,
        account=acme_rows.account,
        raw=5,
        event_count=5,
        active_days=1,
        active_users=1,
    )
    return workspace


def links(page: str, path: str) -> list[str]:
    """The query of each link to *path* on the page."""
    return re.findall(rf'href="{re.escape(path)}\?([^"]*)"', page)


@pytest.mark.parametrize("kind", ["user", "account"])
def test_a_row_opens_in_the_workspace_that_the_list_ranks_by(
    root: Client, acme_rows: Rows, second: Workspace, kind: str
) -> None:
    listing = reverse(f"admin:engagement_{kind}_changelist")
    page = root.get(listing, {"workspace": second.pk}).content.decode()
    (row,) = re.findall(r'<th scope="row" class="field-name">.*?<a href="([^"]*)"', page)
    opened = root.get(row.replace("&amp;", "&"))
    assert opened.context["workspace"] == second
    # Without a workspace the page opens in the first one.
    page = root.get(listing, follow=True).content.decode()
    (row,) = re.findall(r'<th scope="row" class="field-name">.*?<a href="([^"]*)"', page)
    assert root.get(row.replace("&amp;", "&")).context["workspace"] == acme_rows.workspace


def test_the_account_of_a_ranked_user_opens_in_that_workspace(
    root: Client, acme_rows: Rows, second: Workspace
) -> None:
    listing = reverse("admin:engagement_user_changelist")
    page = root.get(listing, {"workspace": second.pk}).content.decode()
    assert links(page, account_page(acme_rows)) == [f"workspace={second.pk}"]


def test_the_links_of_a_page_stay_in_its_workspace(
    root: Client, acme_rows: Rows, second: Workspace
) -> None:
    counted(acme_rows)
    store_event(acme_rows, 1, account=acme_rows.account)
    choice = f"workspace={second.pk}"
    account = root.get(account_page(acme_rows, workspace=second.pk)).content.decode()
    # In the table of users, and next to the latest event.
    assert links(account, user_page(acme_rows)) == [choice, choice]
    assert links(account, reverse("admin:engagement_account_changelist"))[0] == choice
    user = root.get(user_page(acme_rows, workspace=second.pk)).content.decode()
    assert set(links(user, account_page(acme_rows))) == {choice}
    chips = re.findall(r'<ul class="eds-names">(.*?)</ul>', account, re.DOTALL)[0]
    assert "All" in strip_tags(chips)
    listing = reverse("admin:engagement_account_changelist")
    for query in links(chips, listing):
        members = root.get(f"{listing}?{query.replace('&amp;', '&')}").context["subjects"]
        assert [row.pk for row in members] == [acme_rows.account.pk]


def test_the_way_back_leads_to_the_list_as_it_was_left(
    root: Client, acme_rows: Rows, second: Workspace
) -> None:
    index_for_search(acme_rows.product)
    listing = reverse("admin:engagement_user_changelist")
    page = root.get(f"{listing}?workspace={second.pk}&q=acme").content.decode()
    (row,) = re.findall(r'<th scope="row" class="field-name">.*?<a href="([^"]*)"', page)
    opened = root.get(row.replace("&amp;", "&"))
    way_back = f'href="{listing}?workspace={second.pk}&amp;q=acme"'
    assert way_back in opened.content.decode()


def test_the_members_of_a_segment_open_in_its_workspace(
    root: Client, acme_rows: Rows, second: Workspace
) -> None:
    segment = second.segments.get(scope="user", name="All")
    page = root.get(reverse("admin:engagement_segment_change", args=[segment.pk])).content.decode()
    assert links(page, user_page(acme_rows)) == [f"workspace={second.pk}"]
    workspace = reverse("admin:engagement_workspace_change", args=[second.pk])
    effect = root.get(workspace).content.decode()
    assert links(effect, user_page(acme_rows)) == [f"workspace={second.pk}"]
