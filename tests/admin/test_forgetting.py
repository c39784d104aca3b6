"""The buttons that forget a user or an account, or delete a product, with their confirmations."""

import pytest
from django.test import Client
from django.urls import reverse

from access.models import TrailEntry
from engagement import tasks
from engagement.models import Account, ForgottenSubject, Product, User
from tests.admin.rows import Rows
from tests.pipeline.waiting import places_of

SUBJECTS = ["user", "account"]


def address(model: str, pk: object, name: str = "forget") -> str:
    return reverse(f"admin:engagement_{model}_{name}", args=[pk])


def pk_of(rows: Rows, model: str) -> int:
    return rows.user.pk if model == "user" else rows.account.pk


@pytest.mark.parametrize("model", SUBJECTS)
def test_the_button_asks_and_lists_what_is_deleted(
    member: Client, acme_rows: Rows, model: str
) -> None:
    pk = pk_of(acme_rows, model)
    assert address(model, pk) in member.get(address(model, pk, "change")).content.decode()
    page = member.get(address(model, pk)).content.decode()
    assert f"acme-{model}" in page and "cannot be undone" in page and "Cancel" in page
    kind = User if model == "user" else Account
    kind.objects.filter(pk=pk).update(traits={"name": "Ada Ltd"})
    page = member.get(address(model, pk)).content.decode()
    assert f'<strong class="value">Ada Ltd</strong> (id acme-{model})' in page
    assert (
        "<h1>History of Ada Ltd</h1>" in member.get(address(model, pk, "history")).content.decode()
    )
    assert kind.objects.filter(pk=pk).exists()


@pytest.mark.parametrize("model", SUBJECTS)
@pytest.mark.parametrize("suppress", [False, True])
def test_a_forgotten_subject_is_gone_at_once(
    member: Client, acme_rows: Rows, model: str, suppress: bool
) -> None:
    pk = pk_of(acme_rows, model)
    answer = member.post(address(model, pk), {"suppress": "yes"} if suppress else {}, follow=True)
    page = answer.content.decode()
    assert "is deleted" in page and (("are dropped" in page) is suppress)
    assert member.get(address(model, pk, "change")).status_code == 302
    assert ForgottenSubject.objects.get().is_suppressed is suppress
    tasks.clear()
    assert not (User if model == "user" else Account).objects.filter(pk=pk).exists()
    # The history does not mention them, either.
    assert places_of(f"acme-{model}") == set()
    entry = TrailEntry.objects.get(action=TrailEntry.Action.FORGOTTEN)
    assert (entry.kind, entry.note) == (model, f"Forgot a {model} on request.")
    assert not entry.object_id and not entry.object_name


@pytest.mark.parametrize("model", SUBJECTS)
def test_a_viewer_forgets_nobody(reader: Client, acme_rows: Rows, model: str) -> None:
    pk = pk_of(acme_rows, model)
    assert address(model, pk) not in reader.get(address(model, pk, "change")).content.decode()
    assert reader.get(address(model, pk)).status_code == 403
    assert reader.post(address(model, pk)).status_code == 403
    assert not ForgottenSubject.objects.exists()


@pytest.mark.parametrize("model", SUBJECTS)
def test_a_member_forgets_nobody_elses(member: Client, globex_rows: Rows, model: str) -> None:
    pk = pk_of(globex_rows, model)
    assert member.get(address(model, pk)).status_code == 404
    assert member.post(address(model, pk)).status_code == 404
    assert not ForgottenSubject.objects.exists()


# --- Products -------------------------------------------------------------------------------


def test_a_product_is_deleted_in_the_background_once_its_name_is_typed(
    member: Client, acme_rows: Rows
) -> None:
    product = acme_rows.product
    url = address("product", product.pk, "delete_all")
    assert url in member.get(address("product", product.pk, "change")).content.decode()
    assert "Type the product" in member.get(url).content.decode()
    assert "Nothing was deleted" in member.post(url, {"name": "acme"}).content.decode()
    product.refresh_from_db()
    assert product.deletion_requested_at is None

    page = member.post(url, {"name": " Acme "}, follow=True).content.decode()
    assert "is being deleted in the background" in page
    assert "Being deleted: 0 rows so far" in page
    page = member.get(address("product", product.pk, "change")).content.decode()
    assert "Being deleted" in page and url not in page
    assert 'name="_save"' not in page
    tasks.clear()
    assert not Product.objects.filter(pk=product.pk).exists()


def test_asking_twice_is_no_error(member: Client, acme_rows: Rows) -> None:
    url = address("product", acme_rows.product.pk, "delete_all")
    for _ in range(2):
        assert member.post(url, {"name": "Acme"}).status_code == 302


def test_a_viewer_deletes_no_product(reader: Client, acme_rows: Rows) -> None:
    url = address("product", acme_rows.product.pk, "delete_all")
    page = reader.get(address("product", acme_rows.product.pk, "change")).content.decode()
    assert url not in page
    assert reader.post(url, {"name": "Acme"}).status_code == 403


def test_a_member_deletes_nobody_elses_product(member: Client, globex_rows: Rows) -> None:
    url = address("product", globex_rows.product.pk, "delete_all")
    assert member.get(url).status_code == 404
    assert member.post(url, {"name": "Globex"}).status_code == 404
    globex_rows.product.refresh_from_db()
    assert globex_rows.product.deletion_requested_at is None
