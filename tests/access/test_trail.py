"""The trail says who did what, before and after; nobody changes it; and it has no secret."""

from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from io import StringIO
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User as AdminUser
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from access.logins.security_log import LogRateLimiter
from access.models import Invite, TrailEntry
from access.pages.history import describe_changes
from access.trail import entries, sign_ins
from access.trail.models_followed import find_followed, followed_models
from core import retention
from engagement.models import Product, Segment
from ingestion.models import IngestionKey
from readapi.models import ApiToken
from tests.admin.conftest import acme_rows, globex_rows, member, reader, root
from tests.admin.rows import Rows
from tests.admin.test_history import save
from tests.admin.test_invites import invite

__all__ = ["acme_rows", "globex_rows", "member", "reader", "root"]

PASSWORD = "correct horse battery staple"
LIST = "admin:engagement_trailentry_changelist"
EXPORT = "admin:engagement_trailentry_export"
# Models in the admin whose rows nobody changes there, or whose changes concern nobody else.
NOT_FOLLOWED = {
    *("account", "user", "trailentry"),
    *("inboxmessage", "droppedmessage", "dropcount", "ingestionlog"),
    # Trying again and sending again are entries with a note.
    *("quarantinedmessage", "outboxmessage"),
    # What it belongs to is an entry of its feature.
    "eventname",
    # Asking for a run is an entry of its export.
    "exportrun",
}


def test_each_model_of_the_admin_is_followed_or_says_why_not() -> None:
    for model in admin.site._registry:
        is_login = model is AdminUser
        name = str(model._meta.model_name)
        if not is_login and name in NOT_FOLLOWED:
            continue
        assert find_followed(model), f"Follow {name} (access.trail), or add it to NOT_FOLLOWED."


def test_no_followed_field_is_a_secret() -> None:
    for model, followed in followed_models().items():
        for path in followed.fields:
            names = set(path.split("__"))
            assert not names & {"secret", "digest", "password", "api_token", "signing_secrets"} or (
                (model._meta.model_name, path) == ("destination", "digest")
            ), (model, path)


def tell(action: str | None = None, **filters: Any) -> list[tuple[str, str, str]]:
    rows = TrailEntry.objects.filter(**filters).order_by("id")
    rows = rows.filter(action=action) if action else rows
    return [(entry.person, entry.action, entry.note) for entry in rows]


@pytest.mark.slow
@pytest.mark.whole
def test_sign_ins_and_failures(client: Client, monkeypatch: pytest.MonkeyPatch, db: None) -> None:
    monkeypatch.setattr(sign_ins, "_failures", LogRateLimiter())
    AdminUser.objects.create_user("maya", password=PASSWORD, is_staff=True)

    def log_in(name: str, password: str, address: str) -> None:
        data = {"username": name, "password": password}
        client.post(reverse("admin:login"), data, REMOTE_ADDR=address)

    log_in("maya", "wrong", "198.51.100.7")
    log_in("maya", "wrong again", "198.51.100.7")
    # A password in the wrong field is stored nowhere.
    log_in(PASSWORD, "maya", "198.51.100.8")
    log_in("maya", PASSWORD, "198.51.100.9")
    client.post(reverse("admin:logout"), REMOTE_ADDR="198.51.100.9")
    assert tell(kind="sign-in") == [
        ("maya", "sign_in_failed", ""),
        ("", "sign_in_failed", "1 more failures before this one are not listed."),
        ("maya", "signed_in", ""),
        ("maya", "signed_out", ""),
    ]
    addresses = list(TrailEntry.objects.order_by("id").values_list("address", flat=True))
    assert addresses == [f"198.51.100.{number}" for number in (7, 8, 9, 9)]
    assert PASSWORD not in str(list(TrailEntry.objects.values()))


def test_a_change_has_its_values_before_and_after(member: Client, acme_rows: Rows) -> None:
    segment = acme_rows.segment
    before = segment.conditions
    url = reverse("admin:engagement_segment_delete", args=[segment.pk])
    member.post(url, {"post": "yes"})
    assert not Segment.objects.filter(pk=segment.pk).exists()
    entry = TrailEntry.objects.get(kind="segment", action="deleted")
    assert entry.object_name == str(segment)
    assert (entry.person, entry.product_id) == ("maya", acme_rows.product.pk)
    assert entry.changes["conditions"] == [before, None]

    save(member, "engagement_product", acme_rows.product.pk, name="Acme Lens")
    entry = TrailEntry.objects.get(kind="product")
    assert entry.changes == {"name": ["Acme", "Acme Lens"]}


def test_values_are_words_and_not_as_python_writes_them(member: Client, acme_rows: Rows) -> None:
    rule = {
        "match": "any",
        "conditions": [
            {"kind": "trait", "trait": "plan", "operator": "is", "value": "gold"},
            {"kind": "first_seen", "operator": "within_days", "days": 30},
        ],
    }
    changes = {
        "audience": [{}, rule],
        "conditions": [rule["conditions"], None],
        "is_enabled": [True, False],
        "tables": [["accounts", "users"], ["users"]],
        "unknown": ["", {"kind": "of an older release"}],
    }
    entry = TrailEntry.objects.create(
        product=acme_rows.product, kind="workspace", action="changed", changes=changes
    )
    words = "Trait “plan” is exactly “gold” {} first seen within 30 days"
    lines = [
        f"audience: – → {words.format('or')}",
        f"conditions: {words.format('and')} → –",
        "is enabled: yes → no",
        "tables: accounts, users → users",
        'unknown: {"kind": "of an older release"}',
    ]
    assert describe_changes(entry) == lines
    page = member.get(reverse("admin:engagement_trailentry_changelist")).content.decode()
    assert [line for line in lines if line not in unescape(page)] == []


@pytest.mark.django_db
def test_nobody_changes_or_deletes_an_entry_but_retention(settings: Settings) -> None:
    now = timezone.now()
    for days in (0, 31, 500):
        TrailEntry.objects.create(action="added", kind="x", at=now - timedelta(days=days))
    rows = TrailEntry.objects.all()
    for change in (
        lambda: rows.update(person="nobody"),
        lambda: rows.delete(),
        lambda: connection.cursor().execute("TRUNCATE engagement_trailentry"),
        # As retention, but of what is too young.
        lambda: connection.cursor().execute(
            "SET LOCAL eds.trail_retention = 'on'; DELETE FROM engagement_trailentry"
        ),
    ):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            change()
    retention.delete_expired("engagement", now)
    assert rows.count() == 2
    settings.TRAIL_RETENTION_DAYS = 30
    retention.delete_expired("engagement", now)
    assert rows.count() == 1


def test_managers_search_and_export_their_products_trail(
    member: Client, reader: Client, root: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    page = member.get(reverse(LIST)).content.decode()
    assert "acme segment" in page and "globex" not in page.lower()
    entries.record(entries.COMMAND_LINE, entries.Action.SIGNED_IN, "sign-in")
    assert "command line" not in member.get(reverse(LIST)).content.decode()
    assert "command line" in root.get(reverse(LIST)).content.decode()
    assert reader.get(reverse(LIST)).status_code == reader.get(reverse(EXPORT)).status_code == 403

    def match_count(**query: Any) -> int:
        return len(member.get(reverse(LIST), query).context["cl"].result_list)

    assert match_count(kind="segment", person="maya", action__exact="changed", q="acme seg") == 1
    assert match_count(kind="segment", q="nothing") == match_count(person="nobody") == 0
    entries.record(
        entries.COMMAND_LINE,
        entries.Action.CHANGED,
        "segment",
        product_id=acme_rows.product.pk,
        name="=1+1",
    )
    lines = member.get(reverse(EXPORT), {"kind": "segment"}).getvalue().decode().splitlines()
    assert len(lines) == 3 and lines[0].startswith("time,product,person")
    assert "'=1+1" in lines[1] and "name: Old → acme segment" in lines[2]
    assert ("maya", "exported", "Trail.") in tell("exported")


def test_planted_secrets_are_not_in_the_trail(
    member: Client, root: Client, acme_rows: Rows
) -> None:
    def secrets() -> Iterator[str]:
        yield from (acme_rows.key.secret, acme_rows.token.secret)
        yield from (each.secret for each in IngestionKey.objects.all())
        yield from (each.secret for each in ApiToken.objects.all())
        yield from ("acme-planted-token", "planted-path", "cGxhbnRlZA==", "pbkdf2_")

    for model, row in (
        ("ingestion_ingestionkey", acme_rows.key),
        ("readapi_apitoken", acme_rows.token),
    ):
        for view in ("reveal", "rotate", "revoke"):
            member.post(reverse(f"admin:{model}_{view}", args=[row.pk]), follow=True)
    destination = acme_rows.subscription.destination
    for view in ("rotate", "end_rotation", "pause"):
        member.post(reverse(f"admin:notifications_destination_{view}", args=[destination.pk]))
    url = reverse("admin:notifications_destination_delete", args=[destination.pk])
    assert member.post(url, {"post": "yes"}).status_code == 302
    url = reverse("admin:marketplace_connection_disconnect", args=[acme_rows.connection.pk])
    member.post(url)
    login = AdminUser.objects.get(username="maya")
    login.set_password(PASSWORD)
    login.save()
    root.post(reverse("admin:auth_user_delete", args=[login.pk]), {"post": "yes"})
    stored = str(list(TrailEntry.objects.values()))
    assert TrailEntry.objects.count() > 10
    assert [secret for secret in secrets() if secret in stored] == []
    assert tell("secret_read") == [("maya", "secret_read", "Revealed the secret.")] * 2


def test_invites_and_exports_are_in_the_trail(
    member: Client, acme_rows: Rows, settings: Settings
) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    product = acme_rows.product
    links = [invite(member, product, email="ada@example.com", role="manager")]
    links.append(invite(member, product))
    person = Client(REMOTE_ADDR="198.51.100.7")
    person.get(links[0], follow=True)
    fields = {"username": "ada", "password1": PASSWORD, "password2": PASSWORD}
    assert person.post("/invite/", fields).status_code == 302
    open_invite = Invite.objects.get(email="")
    url = reverse("admin:engagement_product_revoke_invite", args=[product.pk])
    member.post(url, {"invite": open_invite.pk})
    assert tell(kind="product") == [
        ("maya", "changed", "Invited ada@example.com as manager."),
        ("maya", "changed", "Invited by link as viewer."),
        ("maya", "changed", "Revoked an invite."),
    ]
    assert tell(kind="member") == [("ada", "added", "Became manager by an invite.")]
    assert TrailEntry.objects.get(kind="member").address == "198.51.100.7"

    export = acme_rows.export_run.export
    member.post(reverse("admin:exports_scheduledexport_run_now", args=[export.pk]))
    keys = {"access_key_id": "planted-id-2", "secret_access_key": "planted-secret-2"}
    save(member, "exports_scheduledexport", export.pk, bucket="another-bucket", **keys)
    url = reverse("admin:exports_scheduledexport_delete", args=[export.pk])
    assert member.post(url, {"post": "yes"}).status_code == 302
    entries_of = TrailEntry.objects.filter(kind="scheduled export").order_by("id")
    assert [entry.action for entry in entries_of] == ["changed", "changed", "deleted"]
    assert entries_of[1].changes == {"bucket": ["acme-bucket", "another-bucket"]}

    url = reverse("admin:engagement_account_export")
    assert member.get(url, {"workspace": acme_rows.workspace.pk}).status_code == 200
    assert [who for who, _, _ in tell("exported")] == ["maya"]
    stored = str(list(TrailEntry.objects.values()))
    for secret in (*(link.partition("=")[2] for link in links), "planted-secret", PASSWORD):
        assert secret not in stored


def test_commands_are_in_the_trail(acme: Product) -> None:
    call_command("forget", product="Acme", user=["ada"], stdout=StringIO())
    call_command("delete_product", "Acme", yes=True, stdout=StringIO())
    assert tell(product=acme.pk) == [
        ("command line", "forgotten", "Forgot a user on request."),
        ("command line", "deleted", ""),
    ]
    assert "ada" not in str(list(TrailEntry.objects.values()))
