"""Saved views: of one person, or shared with everybody in the product."""

from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse

from console.lists import views
from engagement.models import Product, ProductMember, SavedView
from tests.admin.conftest import logged_in
from tests.admin.rows import Rows
from tests.admin.test_subject_lists import opened, text_of

QUERY = "active=within-30&trait.plan=pro&sort=change_complete_days&columns=change,trait:plan"


def save(who: Client, rows: Rows, name: str = "Mine", query: str = QUERY, **more: str) -> Any:
    workspace = f"workspace={rows.workspace.pk}"
    return who.post(
        reverse("admin:engagement_account_save_view"),
        {"query": f"{workspace}&{query}" if query else workspace, "name": name, **more},
        follow=True,
    )


def names(who: Client, kind: str = "account", **query: Any) -> list[str]:
    return [link.view.name for link in opened(who, kind, **query).context["views"]]


def test_a_viewer_keeps_a_list_as_a_view(reader: Client, acme_rows: Rows) -> None:
    saved = save(reader, acme_rows)
    view = SavedView.objects.get()
    workspace = f"workspace={acme_rows.workspace.pk}"
    expected = f"{workspace}&view={view.pk}&{QUERY}"
    assert saved.redirect_chain == [(f"/admin/engagement/account/?{expected}", 302)]
    assert "The view “Mine” is saved." in saved.content.decode()
    # The view alone opens the same list, and a change of it is marked.
    assert opened(reader, "account", view=view.pk).redirect_chain == saved.redirect_chain
    link = opened(reader, "account", view=view.pk).context["current_view"]
    assert (link.is_current, link.is_changed, link.may_edit) == (True, False, True)
    changed = opened(reader, "account", workspace=acme_rows.workspace.pk, view=view.pk)
    assert changed.context["current_view"].is_changed and "Mine changed" in text_of(changed)
    # The lists of users have views of their own.
    assert names(reader) == ["Mine"] and names(reader, "user") == []
    # The same name replaces the view.
    save(reader, acme_rows, query="sort=name")
    assert [(each.sort, each.filters) for each in SavedView.objects.all()] == [("name", {})]
    deleted = reader.post(
        reverse("admin:engagement_account_delete_view"), {"view": view.pk}, follow=True
    )
    assert "The view “Mine” is deleted." in deleted.content.decode()
    assert not SavedView.objects.exists()


def test_a_search_is_not_kept(reader: Client, acme_rows: Rows) -> None:
    save(reader, acme_rows, query="q=ada@example.com")
    assert "ada" not in str(SavedView.objects.values())


def test_managers_share_views_and_viewers_do_not(
    member: Client, reader: Client, acme_rows: Rows
) -> None:
    assert save(reader, acme_rows, is_shared="on").status_code == 403
    save(member, acme_rows, "Ours", is_shared="on")
    save(member, acme_rows, "My own")
    assert names(member) == ["My own", "Ours"] and names(reader) == ["Ours"]
    assert "Share with everybody in Acme" not in text_of(opened(reader, "account"))
    shared = SavedView.objects.get(name="Ours")
    own = SavedView.objects.get(name="My own")
    delete = reverse("admin:engagement_account_delete_view")
    assert reader.post(delete, {"view": shared.pk}).status_code == 403
    assert reader.post(delete, {"view": own.pk}).status_code == 404
    assert reader.post(delete, {"view": "x"}).status_code == 404
    # Without a private view of that name, the reader saves one, and the shared one stays.
    save(reader, acme_rows, "Ours")
    assert SavedView.objects.filter(name="Ours").count() == 2


def test_nobody_sees_views_of_another_product_or_person(
    member: Client, reader: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    maria = AdminUser.objects.create_user("maria", is_staff=True)
    ProductMember.objects.create(product=globex_rows.product, user=maria, role="manager")
    of_globex = logged_in(maria)
    save(of_globex, globex_rows, "Theirs", is_shared="on")
    save(member, acme_rows, "Private")
    theirs, private = SavedView.objects.order_by("pk")
    for who, view in ((member, theirs), (reader, private), (of_globex, private)):
        for place in ({}, {"workspace": opened(who, "account").context["state"].workspace_id}):
            page = opened(who, "account", view=view.pk, sort="name", **place)
            html = page.content.decode()
            assert "This view is not available, so the list does not use it." in html
            assert page.context["state"].sort == "name" and view.name not in html
        assert view.name not in opened(who, "account").content.decode()
        posted = {"view": view.pk}
        assert who.post(reverse("admin:engagement_account_delete_view"), posted).status_code == 404
    # Nor does anybody save one there.
    assert save(member, globex_rows).status_code == 404
    assert SavedView.objects.count() == 2


def test_a_list_opens_in_its_default_view(member: Client, reader: Client, acme_rows: Rows) -> None:
    save(member, acme_rows, "Ours", "sort=name", is_shared="on", is_default="on")
    shared = SavedView.objects.get()
    for who in (member, reader):
        assert opened(who, "account").redirect_chain[-1][0].endswith(f"view={shared.pk}&sort=name")
    save(reader, acme_rows, "First", "sort=change", is_default="on")
    save(reader, acme_rows, "Second", "sort=-last_active", is_default="on")
    assert opened(reader, "account").redirect_chain[-1][0].endswith("sort=-last_active")
    # The release before kept the order by its change under the name that the read API has.
    SavedView.objects.filter(name="Second").update(sort="-change")
    assert opened(reader, "account").redirect_chain[-1][0].endswith("sort=-change_complete_days")
    assert opened(member, "account").redirect_chain[-1][0].endswith("sort=name")
    # All rows are one click away.
    query = opened(reader, "account").context["all_query"]
    page = opened(reader, "account", **dict(pair.split("=") for pair in query.split("&")))
    assert page.redirect_chain == [] and not page.context["state"].is_filtered


def test_a_view_cannot_be_saved_without_a_name_or_without_end(
    reader: Client, acme_rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert views.NAME_MISSING in save(reader, acme_rows, " ").content.decode()
    monkeypatch.setattr(views, "MAX_VIEWS", 1)
    save(reader, acme_rows, "One")
    assert "You can keep" in save(reader, acme_rows, "Two").content.decode()
    response = save(reader, acme_rows, "Three", "sort=nonsense")
    assert "This filter is not available" in response.content.decode()
    assert [view.name for view in SavedView.objects.all()] == ["One"]


def test_a_view_loses_a_deleted_segment(reader: Client, acme_rows: Rows) -> None:
    query = f"workspace={acme_rows.workspace.pk}&segment={acme_rows.segment.pk}&sort=name"
    save_url = reverse("admin:engagement_user_save_view")
    reader.post(save_url, {"query": query, "name": "Segment"})
    acme_rows.segment.delete()
    page = opened(reader, view=SavedView.objects.get().pk)
    assert "The segment of this view was deleted." in page.content.decode()
    assert page.context["state"].sort == "name"


def test_views_end_with_their_login_product_and_workspace(
    reader: Client, member: Client, acme_rows: Rows
) -> None:
    save(reader, acme_rows, "Private")
    save(member, acme_rows, "Shared", is_shared="on")
    AdminUser.objects.all().delete()
    assert [view.name for view in SavedView.objects.all()] == ["Shared"]
    Product.objects.all().delete()
    assert not SavedView.objects.exists()
