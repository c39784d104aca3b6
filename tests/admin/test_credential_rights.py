"""What managers set on keys and tokens, what reminds them, and the form for leaked ones."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from access.models import TrailEntry
from core import credentials, expiry
from engagement.models import Product, Workspace
from ingestion.models import IngestionKey
from readapi.models import ApiToken

LEAKED = "admin:engagement_product_leaked_secret"
TOKEN: dict[str, Any] = {"name": "crm", "reads": "all", "may_use_mcp": "on"}


def in_days(days: int) -> str:
    return (timezone.now().astimezone(UTC).date() + timedelta(days=days)).isoformat()


def test_a_manager_sets_rights_and_owner(member: Client, acme: Product) -> None:
    workspace = acme.workspaces.get()
    add = f"{reverse('admin:readapi_apitoken_add')}?product={acme.pk}"
    form = TOKEN | {
        "product": acme.pk,
        "purpose": "nightly export",
        "valid_until": in_days(10),
        "reads": "accounts",
        "hides_user_traits": "on",
        "workspaces": [workspace.pk],
        "networks": "203.0.113.0/24, 2001:db8::1",
        # Only superusers grant it.
        "may_read_metrics": "on",
    }
    page = member.post(add, form, follow=True)
    token = ApiToken.objects.get()
    assert token.secret in page.content.decode()
    assert token.owner is not None and token.owner.get_username() == "maya"
    assert (token.purpose, token.reads, token.hides_user_traits) == (
        "nightly export",
        "accounts",
        True,
    )
    assert token.workspace_ids == [workspace.pk]
    assert token.networks == ["203.0.113.0/24", "2001:db8::1"]
    assert not token.may_read_metrics
    assert token.expires_at is not None and token.expires_at.date().isoformat() == in_days(10)

    # Its replacement has the same rights, for as long.
    member.post(reverse("admin:readapi_apitoken_rotate", args=[token.pk]))
    new = ApiToken.objects.latest("pk")
    for field in ("owner", "purpose", *ApiToken.RIGHTS):
        assert getattr(new, field) == getattr(token, field), field
    assert new.expires_at is not None and new.expires_at >= token.expires_at


def test_a_form_narrows_and_never_widens_by_itself(member: Client, acme: Product) -> None:
    workspace = acme.workspaces.get()
    token = ApiToken.create(acme, "crm", workspace_ids=[workspace.pk + 1])
    change = reverse("admin:readapi_apitoken_change", args=[token.pk])
    # The only workspace was deleted, and nobody chooses another one.
    member.post(change, TOKEN)
    token.refresh_from_db()
    assert token.workspace_ids == [workspace.pk + 1]
    member.post(change, TOKEN | {"workspaces": [workspace.pk]})
    token.refresh_from_db()
    assert token.workspace_ids == [workspace.pk]
    page = member.post(change, TOKEN | {"networks": "everywhere"})
    assert b"such as 203.0.113.7 or" in page.content
    page = member.post(change, TOKEN | {"valid_until": in_days(-1)})
    assert b"Enter today or a later day." in page.content


def test_a_form_offers_no_login_and_no_workspace_of_others(
    member: Client, acme: Product, globex: Product
) -> None:
    AdminUser.objects.create_user("gina-of-globex", is_staff=True)
    token = ApiToken.create(acme, "crm")
    change = reverse("admin:readapi_apitoken_change", args=[token.pk])
    html = member.get(change).content.decode()
    assert "maya" in html and "gina" not in html and "Globex" not in html
    theirs = Workspace.objects.get(product=globex)
    member.post(change, TOKEN | {"workspaces": [theirs.pk]})
    add = f"{reverse('admin:readapi_apitoken_add')}?product={globex.pk}"
    member.post(add, TOKEN | {"product": acme.pk, "workspaces": [theirs.pk]})
    assert not ApiToken.objects.exclude(workspace_ids=None).exists()


def test_superusers_grant_metrics(root: Client, acme: Product) -> None:
    token = ApiToken.create(acme, "prometheus")
    change = reverse("admin:readapi_apitoken_change", args=[token.pk])
    root.post(change, TOKEN | {"reads": "nothing", "may_read_metrics": "on"})
    token.refresh_from_db()
    assert (token.reads, token.may_read_metrics) == ("nothing", True)


def test_people_and_monitors_learn_what_expires(
    member: Client, acme: Product, settings: Settings
) -> None:
    now = timezone.now()
    IngestionKey.create(acme, "soon", expires_at=now + timedelta(days=5, hours=1))
    ApiToken.create(acme, "over", expires_at=now - timedelta(days=1))
    ApiToken.create(acme, "later", expires_at=now + timedelta(days=60))
    home = member.get(reverse("admin:index")).content.decode()
    assert "Ingestion key soon" in home and "expires in 5 days" in home
    assert "Read token over" in home and "later (" not in home
    page = member.get(reverse("admin:engagement_product_change", args=[acme.pk])).content.decode()
    assert "Expires in 5 days" in page and "Expired on" in page and "Live until" in page
    tokens = reverse("admin:readapi_apitoken_changelist")
    rows = member.get(tokens, {"state": "expired"}).context["cl"].result_list
    assert [token.name for token in rows] == ["over"]
    settings.METRICS_TOKEN = "secret"
    metrics = Client(headers={"authorization": "Bearer secret"}).get("/metrics").content.decode()
    lines = [line for line in metrics.splitlines() if line.startswith("eds_credential_expires")]
    assert len(lines) == 3 and 'kind="ingestion key"' in lines[0] + lines[1] + lines[2]


def test_the_notice_says_how_long() -> None:
    noon = datetime(2026, 6, 1, 12, tzinfo=UTC)
    for days, level, text in (
        (31, None, None),
        (30, "warning", "Expires in 30 days, on 2026-07-01"),
        (7, "bad", "Expires in 7 days, on 2026-06-08"),
        (1, "bad", "Expires in 1 day, on 2026-06-02"),
        (0.5, "bad", "Expires within a day, on 2026-06-02"),
        (-3, "bad", "Expired on 2026-05-29"),
    ):
        notice = expiry.describe(noon + timedelta(days=days), noon)
        assert (notice.level if notice else None) == level
        assert (notice.text if notice else None) == text


@pytest.mark.parametrize("kind", [IngestionKey, ApiToken])
def test_a_leaked_secret_names_its_product_and_is_revoked_with_one_more_click(
    member: Client, acme: Product, kind: type[Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    maya = AdminUser.objects.get(username="maya")
    credential = kind.create(acme, "web", owner=maya, purpose="checkout")
    page = member.post(reverse(LEAKED), {"secret": f" {credential.secret}\n"})
    html = page.content.decode()
    for text in ("Acme", "maya", "checkout", "Live"):
        assert text in html, text
    assert credential.secret not in f"{html}{page.headers}{caplog.text}"
    entry = TrailEntry.objects.latest("pk")
    assert (entry.person, entry.action, entry.product_id) == ("maya", "secret_read", acme.pk)
    assert (entry.object_id, entry.note) == (
        str(credential.pk),
        "Searched for it as a leaked one.",
    )
    name = f"admin:{kind._meta.app_label}_{kind._meta.model_name}_revoke"
    revoke = reverse(name, args=[credential.pk])
    assert f'action="{revoke}"' in html
    member.post(revoke)
    assert kind.objects.get().revoked_at is not None
    again = member.post(reverse(LEAKED), {"secret": credential.secret}).content.decode()
    assert "It is revoked" in again and revoke not in again


def test_a_leaked_secret_of_others_says_nothing(
    member: Client, reader: Client, root: Client, globex: Product
) -> None:
    theirs = ApiToken.create(globex, "web").secret
    unknown = credentials.generate("eds")
    answers = [
        member.post(reverse(LEAKED), {"secret": secret}).content.decode()
        for secret in (theirs, unknown, theirs[:-1], "hunter2")
    ]
    assert all("Globex" not in html and "hunter2" not in html for html in answers)
    assert all(("none of the products that you manage" in html) for html in answers[:2])
    assert all("checksum" in html for html in answers[2:])
    trail = list(TrailEntry.objects.filter(kind="key or token"))
    assert len(trail) == 4 and all(entry.person == "maya" for entry in trail)
    assert {entry.product_id for entry in trail} == {None}
    assert not any(theirs[:-1] in str(vars(entry)) for entry in trail)
    assert b"Globex" in root.post(reverse(LEAKED), {"secret": theirs}).content
    assert reader.get(reverse(LEAKED)).status_code == 403
