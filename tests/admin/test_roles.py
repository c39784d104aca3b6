"""What viewers, managers, and viewers with the connection see and do on the same pages."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.contrib.auth.models import User as AdminUser
from django.db import IntegrityError
from django.test import Client
from django.urls import reverse
from django.utils.html import strip_tags

from access.admin.invites import ROLE_HELP
from engagement.models import EventWeight, Product, ProductMember
from ingestion.models import InboxMessage, IngestionKey
from tests.admin.conftest import logged_in
from tests.admin.rows import Rows

Role = ProductMember.Role


@pytest.fixture
def both(acme_rows: Rows, globex_rows: Rows) -> Client:
    """Manages Globex and views Acme."""
    bo = AdminUser.objects.create_user("bo", is_staff=True)
    ProductMember.objects.create(product=globex_rows.product, user=bo, role=Role.MANAGER)
    ProductMember.objects.create(product=acme_rows.product, user=bo, role=Role.VIEWER)
    return logged_in(bo)


def page_text(who: Client, name: str, pk: int) -> str:
    answer = who.get(reverse(f"admin:{name}_change", args=[pk]))
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_member_is_a_viewer_unless_made_a_manager(root: Client, acme: Product) -> None:
    member = ProductMember.objects.create(product=acme, user=AdminUser.objects.create_user("maya"))
    assert (member.role, member.may_manage_connections) == (Role.VIEWER, False)
    page = page_text(root, "engagement_product", acme.pk)
    (new,) = re.findall(r'name="productmember_set-0-role".*?</select>', page, re.DOTALL)
    assert re.findall(r'value="(\w+)" selected', new) == ["viewer"]


def test_who_adds_a_product_manages_it(db: None) -> None:
    maker = AdminUser.objects.create_user("mo", is_staff=True)
    maker.user_permissions.add(Permission.objects.get(codename="add_product"))
    logged_in(maker).post(reverse("admin:engagement_product_add"), {"name": "Initech"})
    assert ProductMember.objects.get(user=maker).role == Role.MANAGER


def test_there_are_no_other_roles(acme: Product) -> None:
    with pytest.raises(IntegrityError):
        ProductMember.objects.create(
            product=acme, user=AdminUser.objects.create_user("maya"), role="owner"
        )


def test_a_viewer_sees_no_secret_and_no_way_to_one(reader: Client, acme_rows: Rows) -> None:
    for name, row in (
        ("ingestion_ingestionkey", acme_rows.key),
        ("readapi_apitoken", acme_rows.token),
    ):
        page = page_text(reader, name, row.pk)
        assert row.hint in page and row.secret not in page
        assert "Reveal" not in page and "Revoke" not in page
        assert row.secret not in page_text(reader, "engagement_product", acme_rows.product.pk)


def test_a_viewer_is_offered_no_form_and_no_link_to_one(reader: Client, acme_rows: Rows) -> None:
    for name, pk in acme_rows.pages():
        if name == "engagement_trailentry":
            continue  # Of managers alone.
        page = page_text(reader, name, pk)
        assert 'name="_save"' not in page and "addlink" not in page and "deletelink" not in page
        listing = reader.get(reverse(f"admin:{name}_changelist")).content.decode()
        # A digest is its reader's own.
        may_add = name == "notifications_digest"
        assert may_add or "addlink" not in listing, name
        assert 'name="action"' not in listing, name


def test_a_viewer_sees_a_workspaces_weights(reader: Client, acme_rows: Rows) -> None:
    page = page_text(reader, "engagement_workspace", acme_rows.workspace.pk)
    (table,) = re.findall(r'<fieldset class="module eds-events".*?</table>', page, re.DOTALL)
    row = table.split("<tbody>")[1]
    cells = [strip_tags(cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)]
    assert (cells[0].split()[:2], cells[-1]) == (["acme", "event"], "5")
    assert 'name="weights-0-weight"' not in page


def test_a_member_is_shown_once_in_a_row(root: Client, reader: Client, acme_rows: Rows) -> None:
    for who in (root, reader):
        page = page_text(who, "engagement_product", acme_rows.product.pk)
        assert '<p class="visually-hidden">' in page
        assert not re.search(r'<td class="original">\s*<p>', page)


def test_members_are_described_in_words(root: Client, reader: Client, acme_rows: Rows) -> None:
    """A touch screen shows no text that waits for a mouse on an icon."""
    url = reverse("admin:engagement_product_change", args=[acme_rows.product.pk])
    for client in (root, reader):
        html = client.get(url).content.decode()
        assert "admin/img/icon-" not in html
        assert f'<p class="help">{ROLE_HELP} ' in html
    assert '<td class="field-connections">' in html and "<p>No</p>" in html


def test_members_see_each_other_and_only_superusers_name_them(
    root: Client, member: Client, reader: Client, acme_rows: Rows
) -> None:
    pk = acme_rows.product.pk
    for who in (member, reader):
        page = page_text(who, "engagement_product", pk)
        assert "maya" in page and "ray" in page and "Viewer" in page
        assert 'name="productmember_set-0-role"' not in page
    assert 'name="productmember_set-0-role"' in page_text(root, "engagement_product", pk)
    # Users are those of the product. A member is a login.
    for who in (root, member, reader):
        page = page_text(who, "engagement_product", pk)
        (table,) = re.findall(r'<table aria-labelledby="productmember.*?</thead>', page, re.DOTALL)
        heads = [strip_tags(head).strip() for head in re.findall(r"<th.*?</th>", table, re.DOTALL)]
        assert heads[1] == "Login", heads


def test_a_manager_of_one_product_changes_nothing_of_another_they_view(
    both: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    theirs, ours = (
        reverse("admin:engagement_workspace_change", args=[rows.workspace.pk])
        for rows in (acme_rows, globex_rows)
    )
    assert 'name="_save"' not in both.get(theirs).content.decode()
    assert both.post(theirs, {"name": "Taken over"}).status_code == 403
    assert 'name="_save"' in both.get(ours).content.decode()
    assert EventWeight.objects.get(workspace=acme_rows.workspace).weight == 5


def test_an_action_leaves_out_rows_of_products_that_one_only_views(
    both: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    pks = [acme_rows.key.pk, globex_rows.key.pk]
    data: dict[str, Any] = {"action": "revoke_selected", "_selected_action": pks}
    both.post(reverse("admin:ingestion_ingestionkey_changelist"), {**data, "confirmed": "yes"})
    live = IngestionKey.objects.filter(revoked_at=None)
    assert [key.pk for key in live] == [acme_rows.key.pk]


def test_retrying_takes_messages_of_managed_products_only(
    both: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    InboxMessage.objects.all().delete()
    pks = [acme_rows.quarantined.pk, globex_rows.quarantined.pk]
    both.post(
        reverse("admin:ingestion_quarantinedmessage_changelist"),
        {"action": "try_again_selected", "_selected_action": pks},
    )
    assert [message.pk for message in InboxMessage.objects.all()] == [globex_rows.quarantined.pk]


def test_a_form_offers_the_products_that_one_manages(
    both: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    for name in ("ingestion_ingestionkey", "readapi_apitoken", "engagement_workspace"):
        address = reverse(f"admin:{name}_add")
        page = both.get(address).content.decode()
        choices = page.split('name="product"')[1].split("</select>")[0]
        assert "Globex" in choices and "Acme" not in choices, name
        answer = both.post(address, {"product": acme_rows.product.pk, "name": "mine"})
        assert "Select a valid choice" in answer.content.decode(), name


def test_a_product_page_offers_to_add_what_one_may_add(
    both: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    assert "Add ingestion key" not in page_text(both, "engagement_product", acme_rows.product.pk)
    assert "Add ingestion key" in page_text(both, "engagement_product", globex_rows.product.pk)


def test_a_changed_role_counts_from_the_next_request(member: Client, acme_rows: Rows) -> None:
    address = reverse("admin:ingestion_ingestionkey_reveal", args=[acme_rows.key.pk])
    assert member.post(address).status_code == 302
    ProductMember.objects.update(role=Role.VIEWER)
    assert member.post(address).status_code == 403
    # A secret that was requested as a manager is not shown, either.
    page = member.get(reverse("admin:ingestion_ingestionkey_change", args=[acme_rows.key.pk]))
    assert acme_rows.key.secret not in page.content.decode()


def test_access_is_loaded_once_per_page(
    member: Client, acme_rows: Rows, django_assert_max_num_queries: Any
) -> None:
    address = reverse("admin:engagement_product_change", args=[acme_rows.product.pk])
    # A process looks the content types up once.
    member.get(address)
    with django_assert_max_num_queries(25) as queries:
        member.get(address)
    requests = [
        query
        for query in queries.captured_queries
        if "role" in query["sql"] and "_invite" not in query["sql"]
    ]
    # Once for the permissions and once for the table of members.
    assert len(requests) == 2
