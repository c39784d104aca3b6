"""The history says who changed keys, members, weights, and connections, without secrets."""

from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse

from access.models import TrailEntry
from engagement.models import EventWeight, ProductMember
from ingestion.models import IngestionKey
from tests.admin.rows import Rows


@pytest.fixture
def ray() -> AdminUser:
    return AdminUser.objects.create_user("ray", is_staff=True)


def history(who: Client, name: str, pk: int) -> str:
    answer = who.get(reverse(f"admin:{name}_history", args=[pk]))
    assert answer.status_code == 200
    return answer.content.decode()


def save(who: Client, kind: str, pk: int, **changes: Any) -> None:
    """Submit the row's form as the page has it, with these changes."""
    address = reverse(f"admin:{kind}_change", args=[pk])
    context = who.get(address).context
    forms = [context["adminform"].form]
    for inline in context["inline_admin_formsets"]:
        forms += [inline.formset.management_form, *inline.formset.forms]
    form_data = {form.add_prefix(key): form[key].value() for form in forms for key in form.fields}
    form_data = {
        key: value for key, value in form_data.items() if value is not None and value is not False
    }
    answer = who.post(address, {**form_data, **changes})
    assert answer.status_code == 302, answer.context["errors"]


def labels(kind: str) -> list[tuple[str, str]]:
    """The entries about rows of this kind, oldest first."""
    entries = TrailEntry.objects.exclude(login=None).filter(kind=kind).order_by("pk")
    return [(entry.person, entry.note or f"{entry.get_action_display()}.") for entry in entries]


def test_making_renaming_revealing_and_revoking_a_key(member: Client, acme_rows: Rows) -> None:
    product = acme_rows.product
    member.post(reverse("admin:ingestion_ingestionkey_add"), {"product": product.pk, "name": "web"})
    key = IngestionKey.objects.get(name="web")
    save(member, "ingestion_ingestionkey", key.pk, name="shop")
    for view in ("reveal", "revoke"):
        member.post(reverse(f"admin:ingestion_ingestionkey_{view}", args=[key.pk]))
    assert labels("ingestion key") == [
        ("maya", "Added."),
        ("maya", "Changed Name."),
        ("maya", "Revealed the secret."),
        ("maya", "Revoked."),
    ]
    page = history(member, "ingestion_ingestionkey", key.pk)
    assert "maya revealed the secret (ingestion key" in page and key.secret not in page


def test_naming_a_member_and_changing_the_role(root: Client, acme_rows: Rows, ray: Any) -> None:
    pk = acme_rows.product.pk
    new = {"productmember_set-TOTAL_FORMS": 1, "productmember_set-0-user": ray.pk}
    save(root, "engagement_product", pk, **new, **{"productmember_set-0-role": "viewer"})
    assert ProductMember.objects.get().role == "viewer"
    save(root, "engagement_product", pk, **{"productmember_set-0-role": "manager"})
    save(root, "engagement_product", pk, **{"productmember_set-0-DELETE": "on"})
    assert labels("product") == [
        ("root", "Added product member “ray, viewer”."),
        ("root", "Changed Role for product member “ray, manager”."),
        ("root", "Deleted product member “ray, manager”."),
    ]
    assert "root added ray as a viewer in the product" in history(root, "engagement_product", pk)


def test_changing_weights_and_the_lookback(member: Client, acme_rows: Rows) -> None:
    pk = acme_rows.workspace.pk
    save(member, "engagement_workspace", pk, **{"weights-0-weight": 9, "lookback_days": 30})
    assert EventWeight.objects.get(workspace=pk).weight == 9
    ((who, what),) = labels("workspace")
    entry = TrailEntry.objects.get(kind="workspace")
    assert entry.changes == {"lookback_days": [7, 30], "weight of acme event": [5, 9]}
    assert (entry.product_id, entry.address) == (acme_rows.product.pk, "127.0.0.1")
    assert who == "maya"
    assert "Changed Lookback days." in what and "weight “acme event: 9”" in what


def test_disconnecting(member: Client, acme_rows: Rows) -> None:
    pk = acme_rows.connection.pk
    member.post(reverse("admin:marketplace_connection_disconnect", args=[pk]))
    assert labels("connection") == [("maya", "Disconnected.")]
    assert "planted-token" not in history(member, "marketplace_connection", pk)


def test_a_history_is_the_rows_own(member: Client, acme_rows: Rows, globex_rows: Rows) -> None:
    theirs = reverse("admin:ingestion_ingestionkey_history", args=[globex_rows.key.pk])
    assert member.get(theirs).status_code == 302
