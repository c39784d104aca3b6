"""A member of Acme sees nothing of Globex, at any URL and with any form."""

from typing import Any

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import AnonymousUser
from django.test import Client
from django.urls import reverse

from access.pages.scoping import ProductScopedAdmin, visible_products
from engagement.models import (
    AccountNote,
    AccountWork,
    AlarmWork,
    EventWeight,
    Product,
    ProductMember,
    Workspace,
)
from ingestion.models import DroppedMessage, DropReason, ForgetKey, IngestionKey
from marketplace.models import Connection
from notifications.models import Destination, Subscription
from readapi.models import ApiToken
from tests.admin.rows import Rows, quarantined, waiting
from tests.engagement.history import NOON

REFUSED = {302, 403, 404}
ONE_ROW = ["change", "history", "delete"]


def work_on(rows: Rows) -> None:
    """Give the product a rule and a result of its own, and its account an owner, a tag, a note, and
    a closed alarm."""
    product, name = rows.product, rows.product.name.lower()
    rules = [{"trait": f"{name}_csm"}]
    product.work = {"results": [{"name": f"{name} upsell", "means": "good"}], "rules": rules}
    product.save(update_fields=["work"])
    own: dict[str, Any] = {"product": product, "account": rows.account}
    AccountWork.objects.create(**own, owner=f"{name}-owner", tags=[f"{name} tag"])
    AccountNote.objects.create(**own, author="maya", text=f"{name} note", written_at=NOON)
    day = {"since": NOON.date(), "seen_on": NOON.date(), "closed_at": NOON}
    closed = {"result": f"{name} upsell", "closed_by": f"{name} maya", "signal": "fall", **day}
    AlarmWork.objects.create(workspace=rows.workspace, **own, **closed)


def addresses(rows: Rows) -> list[str]:
    """Every admin URL that is about one row of the product."""
    admins = {each.opts.label_lower.replace(".", "_"): each for each in site._registry.values()}
    urls = []
    for name, pk in rows.pages():
        more = getattr(admins[name], "extra_views", ())
        views = [*ONE_ROW, *(view.name for view in more if view.needs_row)]
        urls += [reverse(f"admin:{name}_{view}", args=[pk]) for view in views]
    return urls


@pytest.mark.parametrize("method", ["get", "post"])
def test_no_address_of_another_products_row_answers(
    member: Client, globex_rows: Rows, method: str
) -> None:
    work_on(globex_rows)
    for address in addresses(globex_rows):
        answer = getattr(member, method)(address, {"name": "taken over", "post": "yes"})
        # A view for POST only may return 405 first.
        allowed = REFUSED | ({405} if method == "get" else set())
        assert answer.status_code in allowed, address
        assert b"globex" not in answer.content.lower(), address
        if answer.status_code == 302:
            assert answer.headers["Location"] == reverse("admin:index")
    globex_rows.product.refresh_from_db()
    assert globex_rows.product.name == "Globex"


def test_the_same_addresses_answer_for_the_members_own_product_and_show_no_other(
    member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    work_on(acme_rows)
    work_on(globex_rows)
    for name, pk in acme_rows.pages():
        assert member.get(reverse(f"admin:{name}_change", args=[pk])).status_code == 200, name
    for address in addresses(acme_rows):
        answer = member.get(address)
        assert answer.status_code in {200, 302, 403, 404, 405}, address
        assert b"globex" not in answer.content.lower(), address


@pytest.mark.slow
def test_no_list_search_or_filter_shows_another_product(
    member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    for name, _ in acme_rows.pages():
        address = reverse(f"admin:{name}_changelist")
        for query in ({}, {"product__id__exact": globex_rows.product.pk}, {"q": "globex"}):
            html = member.get(address, query, follow=True).content.decode().lower()
            # The search box, the links, and the text of an empty list repeat the query.
            content = html
            for echo in (
                'value="globex"',
                ">search: globex<",
                "q%3dglobex",
                "q=globex",
                "“globex”",
            ):
                content = content.replace(echo, "")
            assert "globex" not in content, (name, query)
        assert "acme" in member.get(address, follow=True).content.decode().lower(), name


def test_the_index_and_its_apps_show_no_other_product(
    member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    for address in [reverse("admin:index")] + [
        reverse("admin:app_list", args=[app])
        for app in (
            "engagement",
            "ingestion",
            "readapi",
            "marketplace",
            "notifications",
            "exports",
            "destinations",
        )
    ]:
        assert b"globex" not in member.get(address, follow=True).content.lower()


def test_no_form_offers_or_takes_another_product(
    member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    forms: dict[str, dict[str, Any]] = {
        "ingestion_ingestionkey": {"name": "mine"},
        "ingestion_forgetkey": {"name": "mine"},
        "readapi_apitoken": {"name": "mine"},
        "engagement_workspace": {
            "name": "mine",
            "lookback_days": 7,
            "alarm_level": 2,
            "default_weight": 1,
            "weights-TOTAL_FORMS": 0,
            "weights-INITIAL_FORMS": 0,
        },
        "notifications_destination": {
            "kind": "webhook",
            "name": "mine",
            "address": "https://example.com/",
        },
        "marketplace_connection": {
            "user_name": "mine",
            "api_token": "mine",
            "vendor_id": "1",
            "product_id": "mine",
        },
    }
    # Only products without a connection are offered one.
    acme_rows.connection.delete()
    for name, data in forms.items():
        address = reverse(f"admin:{name}_add")
        page = member.get(address, {"product": globex_rows.product.pk}).content.decode()
        assert "Acme" in page and "Globex" not in page
        answer = member.post(address, {**data, "product": globex_rows.product.pk})
        assert "Select a valid choice" in answer.content.decode()
    for model in (IngestionKey, ForgetKey, ApiToken, Workspace, Destination):
        assert not model._default_manager.filter(name="mine").exists()
    assert list(Connection.objects.all()) == [globex_rows.connection]


def test_no_subscription_is_about_or_tells_another_product(
    member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    own = {
        "trigger": "segment_left",
        "who": "user",
        "workspace": acme_rows.workspace.pk,
        "segment": acme_rows.segment.pk,
        "destination": acme_rows.subscription.destination_id,
        "quiet_hours": 0,
    }
    theirs = {
        "workspace": globex_rows.workspace.pk,
        "segment": globex_rows.segment.pk,
        "who": f"user:{globex_rows.segment.pk}",
        "destination": globex_rows.subscription.destination_id,
    }
    address = reverse("admin:notifications_subscription_add")
    for name, value in theirs.items():
        answer = member.post(address, {**own, name: value})
        assert answer.status_code in (200, 404), name
        assert b"globex" not in answer.content.lower(), name
    assert not Subscription.objects.filter(trigger="segment_left").exists()
    assert member.post(address, own).status_code == 302


def test_no_weight_form_reaches_another_products_weight(
    member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    theirs = EventWeight.objects.get(workspace=globex_rows.workspace)
    data: dict[str, Any] = {
        "name": "Default",
        "lookback_days": 7,
        "alarm_level": 2,
        "default_weight": 1,
        "weights-TOTAL_FORMS": 1,
        "weights-INITIAL_FORMS": 1,
        "weights-0-id": theirs.pk,
        "weights-0-workspace": globex_rows.workspace.pk,
        "weights-0-weight": 9,
    }
    member.post(reverse("admin:engagement_workspace_change", args=[acme_rows.workspace.pk]), data)
    theirs.refresh_from_db()
    assert (theirs.weight, theirs.workspace) == (5, globex_rows.workspace)


def test_no_autocomplete_offers_another_product(
    member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    for field in (("engagement", "workspace", "product"), ("engagement", "productmember", "user")):
        app, model, name = field
        answer = member.get(
            reverse("admin:autocomplete"),
            {"app_label": app, "model_name": model, "field_name": name, "term": ""},
        )
        assert b"Globex" not in answer.content and b"maya" not in answer.content


def test_no_action_reaches_another_products_rows(
    member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    for name, action, pk in (
        ("ingestion_ingestionkey", "revoke_selected", globex_rows.key.pk),
        ("ingestion_forgetkey", "revoke_selected", globex_rows.forget_key.pk),
        ("readapi_apitoken", "revoke_selected", globex_rows.token.pk),
        ("engagement_workspace", "delete_selected", globex_rows.workspace.pk),
    ):
        data = {"action": action, "_selected_action": [pk], "confirmed": "yes", "post": "yes"}
        answer = member.post(reverse(f"admin:{name}_changelist"), data)
        assert b"globex" not in answer.content.lower()
    globex_rows.key.refresh_from_db()
    globex_rows.token.refresh_from_db()
    assert globex_rows.key.revoked_at is globex_rows.token.revoked_at is None
    assert Workspace.objects.filter(pk=globex_rows.workspace.pk).exists()


def test_a_member_does_not_name_members(member: Client, acme_rows: Rows) -> None:
    address = reverse("admin:engagement_product_change", args=[acme_rows.product.pk])
    assert b'name="productmember_set-0-user"' not in member.get(address).content
    prefix = "productmember_set"
    member.post(
        address,
        {"name": "Acme", f"{prefix}-TOTAL_FORMS": 1, f"{prefix}-INITIAL_FORMS": 0}
        | {f"{prefix}-0-user": 1},
    )
    assert ProductMember.objects.count() == 1


def test_messages_of_unknown_products_are_for_superusers_only(
    root: Client, member: Client, acme_rows: Rows
) -> None:
    stray = [
        ("ingestion_inboxmessage", waiting(None, b"").pk),
        ("ingestion_quarantinedmessage", quarantined(None, 80, acme_rows.key, "stray").pk),
        (
            "ingestion_droppedmessage",
            DroppedMessage.objects.create(
                id=81,
                reason=DropReason.UNKNOWN_KEY,
                kind="track",
                user_external_id="stray",
                received_at=acme_rows.dropped.received_at,
                dropped_at=acme_rows.dropped.dropped_at,
            ).pk,
        ),
    ]
    for name, pk in stray:
        page = reverse(f"admin:{name}_change", args=[pk])
        in_list = f'href="{page}"'
        listing = reverse(f"admin:{name}_changelist")
        assert in_list in root.get(listing).content.decode()
        assert root.get(page).status_code == 200
        assert in_list not in member.get(listing).content.decode()
        assert member.get(page).status_code == 302


def test_staff_without_a_product_or_without_permissions_see_nothing(
    member: Client, acme_rows: Rows
) -> None:
    ProductMember.objects.all().delete()
    for address in addresses(acme_rows):
        answer = member.get(address)
        assert answer.status_code in REFUSED | {405}
        assert b"acme" not in answer.content.lower()


def test_every_admin_of_the_service_is_scoped() -> None:
    from django.contrib import admin

    ours = {
        "engagement",
        "ingestion",
        "readapi",
        "marketplace",
        "notifications",
        "exports",
        "destinations",
        "outcomes",
        "trends",
    }
    for model, model_admin in admin.site._registry.items():
        if model._meta.app_label in ours:
            assert isinstance(model_admin, ProductScopedAdmin), model


def test_nobody_sees_no_product(acme: Product) -> None:
    """Not even those without members, after a logout or before a login."""
    assert not acme.members.exists()
    assert not visible_products(AnonymousUser()).exists()
