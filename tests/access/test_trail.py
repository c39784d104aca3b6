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
from access.trail import entries, sign_ins
from access.trail.models_followed import find_followed, followed_models
from access.trail.sentences import describe, describe_changes
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
    # Asking for a run is an entry of its export or its CRM.
    *("exportrun", "recordrun"),
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
    page = member.get(reverse("admin:engagement_trailentry_change", args=[entry.pk]))
    html = unescape(page.content.decode())
    assert [line for line in lines if line not in html] == []


def test_an_entry_is_a_sentence_that_says_who_did_what(
    member: Client, acme: Product, acme_rows: Rows
) -> None:
    def sentence(action: str, kind: str, name: str = "", **fields: Any) -> str:
        values = {"person": "ada", "login_id": 7, "object_id": "1", **fields}
        entry = TrailEntry(product=acme, action=action, kind=kind, object_name=name, **values)
        return describe(entry)

    of = ("changed", "workspace", "Acme · Default")
    for name, values, expected in (
        ("weight of Report_Shared", [1.0, 5.0],
         "changed the weight of Report_Shared from 1 to 5"),
        ("weight of Opened", [None, 5], "set the weight of Opened to 5"),
        ("half_life_days", [30, None], "removed the half life days, which was 30"),
        ("is_enabled", [True, False], "turned “enabled” off"),
        ("member cleo", [None, "Viewer"], "added cleo as a viewer"),
        ("member cleo", ["Viewer", "Manager"], "changed cleo from a viewer to a manager"),
        ("member cleo", ["Viewer", None], "removed cleo, a viewer"),
    ):  # fmt: skip
        text = sentence(*of, changes={name: values}, note="Changed weights.")
        assert text == f"ada {expected} in the workspace Acme · Default."
    many = {f"weight of {number}": [1, 2] for number in range(5)}
    assert sentence(*of, changes=many).endswith(
        "changed the weight of 2 from 1 to 2 and changed 2 more in the workspace Acme · Default."
    )
    assert sentence(*of, changes={"name": ["A", "B"]}, note="Suggested by outcomes.") == (
        "ada changed the name from A to B in the workspace Acme · Default. Suggested by outcomes."
    )
    note = "Invited cleo@acme.test as a viewer."
    assert sentence("changed", "product", "Acme", note=note) == (
        "ada invited cleo@acme.test as a viewer (product Acme)."
    )
    assert sentence("changed", "login", "ada", object_id="7", note="Chose a new password.") == (
        "ada chose a new password."
    )
    for action, kind, name, note, expected in (
        ("added", "segment", "Paying", "", "ada added the segment Paying."),
        ("deleted", "segment", "Paying", "", "ada deleted the segment Paying."),
        ("secret_read", "ingestion key", "CI", "", "ada read the secret of the ingestion key CI."),
        ("exported", "export", "", "Trail.", "ada exported trail."),
        ("exported", "export", "Default", "The list of users as CSV.",
         "ada exported the list of users as CSV, of Default."),
        ("forgotten", "user", "", "Forgot a user on request.", "ada forgot a user on request."),
        ("signed_in", "sign-in", "", "", "ada signed in."),
        ("sign_in_failed", "sign-in", "", "3 more are not listed.",
         "ada failed to sign in. 3 more are not listed."),
        ("changed", "segment", "Paying", "No fields changed.",
         "ada saved the segment Paying. Nothing was different."),
    ):  # fmt: skip
        assert sentence(action, kind, name, note=note) == expected
    assert sentence("signed_in", "sign-in", person="").startswith("Somebody ")
    # As on the pages: of the trail, and of a row's history.
    save(member, "engagement_product", acme.pk, name="Acme Lens")
    expected = "maya changed the name from Acme to Acme Lens in the product Acme Lens."
    assert expected in member.get(reverse(LIST)).content.decode()
    history = reverse("admin:engagement_product_history", args=[acme.pk])
    assert expected in member.get(history).content.decode()


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
        ("maya", "changed", "Invited ada@example.com as a manager."),
        ("maya", "changed", "Invited somebody by link as a viewer."),
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
