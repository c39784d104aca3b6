"""Keys and tokens in the admin: a secret is shown only where it was requested."""

import logging
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from access.models import TrailEntry
from engagement.models import Credential, Product
from ingestion.models import ForgetKey, IngestionKey
from readapi.models import ApiToken

KIND_NAMES: dict[type[Credential], str] = {
    IngestionKey: "ingestion key",
    ForgetKey: "forget key",
    ApiToken: "read token",
}
KINDS = pytest.mark.parametrize("kind", [IngestionKey, ForgetKey, ApiToken])


def address(kind: type[Credential], name: str, *args: Any) -> str:
    return reverse(f"admin:{kind._meta.app_label}_{kind._meta.model_name}_{name}", args=args)


def there(answer: Any) -> str:
    """The URL of a redirect."""
    location: str = answer.headers["Location"]
    return location


def make(client: Client, kind: type[Credential], product: Product, name: str = "web") -> Any:
    return client.post(address(kind, "add"), {"product": product.pk, "name": name, "reads": "all"})


@KINDS
def test_a_new_credential_is_shown_once_on_its_page(
    member: Client, acme: Product, kind: type[Any]
) -> None:
    answer = make(member, kind, acme)
    credential = kind.objects.get()
    assert answer.status_code == 302 and there(answer) == address(kind, "change", credential.pk)
    assert credential.secret.startswith(f"{kind.PREFIX}_")
    assert credential.secret in member.get(there(answer)).content.decode()
    assert credential.secret not in member.get(there(answer)).content.decode()


@KINDS
def test_save_and_add_another_also_shows_the_secret(
    member: Client, acme: Product, kind: type[Any]
) -> None:
    data = {"product": acme.pk, "name": "web", "reads": "all", "_addanother": "1"}
    page = member.post(address(kind, "add"), data, follow=True)
    assert kind.objects.get().secret in page.content.decode()


@KINDS
def test_a_revealed_secret_is_shown_once_and_recorded(
    member: Client, acme: Product, kind: type[Any]
) -> None:
    credential = kind.create(acme, "web")
    answer = member.post(address(kind, "reveal", credential.pk))
    assert answer.status_code == 302 and credential.secret not in there(answer)
    assert credential.secret in member.get(there(answer)).content.decode()
    assert credential.secret not in member.get(there(answer)).content.decode()
    entry = TrailEntry.objects.get(kind=KIND_NAMES[kind])
    assert (entry.action, entry.note) == ("secret_read", "Revealed the secret.")
    assert (entry.person, entry.product_id) == ("maya", acme.pk)
    assert (
        "maya revealed the secret"
        in member.get(address(kind, "history", credential.pk)).content.decode()
    )


@KINDS
def test_a_link_reveals_nothing(member: Client, acme: Product, kind: type[Any]) -> None:
    credential = kind.create(acme, "web")
    assert member.get(address(kind, "reveal", credential.pk)).status_code == 405
    assert (
        credential.secret not in member.get(address(kind, "change", credential.pk)).content.decode()
    )


@KINDS
def test_a_viewer_gets_no_secret_and_revokes_nothing(
    reader: Client, acme: Product, kind: type[Any]
) -> None:
    credential = kind.create(acme, "web")
    page = reader.get(address(kind, "change", credential.pk)).content.decode()
    assert "Reveal" not in page and "Revoke" not in page
    assert reader.post(address(kind, "reveal", credential.pk)).status_code == 403
    assert reader.post(address(kind, "revoke", credential.pk)).status_code == 403
    reader.post(
        address(kind, "changelist"),
        {"action": "revoke_selected", "_selected_action": credential.pk, "confirmed": "yes"},
    )
    assert kind.objects.get().revoked_at is None


@KINDS
def test_the_secret_is_nowhere_else(
    root: Client, acme: Product, kind: type[Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    answer = make(root, kind, acme)
    credential = kind.objects.get()
    root.post(address(kind, "reveal", credential.pk))
    secret = credential.secret
    cookies = "".join(morsel.value for morsel in root.cookies.values())
    sessions = [session.get_decoded() for session in Session.objects.all()]
    history = list(TrailEntry.objects.values())
    assert secret not in f"{answer.headers}{cookies}{sessions}{history}{caplog.text}"
    # The next page of another login does not show it.
    root.get(address(kind, "change", credential.pk))
    for page in (
        address(kind, "changelist"),
        address(kind, "history", credential.pk),
        address(kind, "change", credential.pk),
        address(kind, "revoke", credential.pk),
        reverse("admin:engagement_product_change", args=[acme.pk]),
        reverse("admin:index"),
    ):
        assert secret not in root.get(page).content.decode()
    assert not stored_anywhere_in_the_clear(secret)


def stored_anywhere_in_the_clear(secret: str) -> list[str]:
    """The text columns, of all tables, that contain the secret."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = 'public' AND data_type IN ('text', 'character varying', 'jsonb')"
        )
        places = []
        for table, column in cursor.fetchall():
            cursor.execute(
                f'SELECT 1 FROM "{table}" WHERE "{column}"::text LIKE %s LIMIT 1', [f"%{secret}%"]
            )
            if cursor.fetchone():
                places.append(f"{table}.{column}")
    return places


@KINDS
def test_one_credentials_ticket_does_not_open_another(
    root: Client, acme: Product, kind: type[Any]
) -> None:
    first, second = kind.create(acme, "first"), kind.create(acme, "second")
    root.post(address(kind, "reveal", first.pk))
    page = root.get(address(kind, "change", second.pk)).content.decode()
    assert first.secret not in page and second.secret not in page


@KINDS
def test_revoking_asks_first_and_is_final(member: Client, acme: Product, kind: type[Any]) -> None:
    credential = kind.create(acme, "web")
    question = member.get(address(kind, "revoke", credential.pk)).content.decode()
    assert "cannot be undone" in question
    assert kind.objects.get().revoked_at is None
    member.post(address(kind, "revoke", credential.pk), {"confirmed": "yes"})
    revoked_at = kind.objects.get().revoked_at
    assert revoked_at is not None
    # Not again, and not by a made-up form.
    member.post(address(kind, "revoke", credential.pk), {"confirmed": "yes"})
    member.post(
        address(kind, "change", credential.pk), {"name": "new", "reads": "all", "revoked_at": ""}
    )
    after = kind.objects.get()
    assert (after.revoked_at, after.name, after.secret) == (revoked_at, "new", credential.secret)
    messages = list(TrailEntry.objects.values_list("note", flat=True))
    assert messages.count("Revoked.") == 1


@KINDS
def test_rotating_makes_a_new_one_and_leaves_the_old_live(
    member: Client, acme: Product, kind: type[Any]
) -> None:
    old = kind.create(acme, "web")
    assert member.get(address(kind, "rotate", old.pk)).status_code == 405
    answer = member.post(address(kind, "rotate", old.pk))
    new = kind.objects.exclude(pk=old.pk).get()
    assert there(answer) == address(kind, "change", new.pk)
    page = member.get(there(answer)).content.decode()
    assert new.secret in page and old.secret not in page
    assert f'<a href="{address(kind, "change", old.pk)}">' in page and "stays live" in page
    old.refresh_from_db()
    assert (new.name, new.product, new.revoked_at, old.revoked_at) == ("web", acme, None, None)
    assert new.secret != old.secret
    rows = TrailEntry.objects.filter(kind=KIND_NAMES[kind])
    change_messages = dict(rows.values_list("object_id", "note"))
    assert change_messages == {
        str(old.pk): f"Rotated: {new.hint}… replaces it.",
        str(new.pk): f"Created to replace {old.hint}….",
    }


@KINDS
def test_a_revoked_one_is_not_rotated(member: Client, acme: Product, kind: type[Any]) -> None:
    old = kind.create(acme, "web")
    member.post(address(kind, "revoke", old.pk))
    page = member.post(address(kind, "rotate", old.pk), follow=True).content.decode()
    assert "Create a new one instead" in page
    assert kind.objects.count() == 1


@KINDS
def test_the_products_page_has_buttons_for_managers(
    member: Client, reader: Client, acme: Product, kind: type[Any]
) -> None:
    live, revoked = kind.create(acme, "live"), kind.create(acme, "revoked")
    member.post(address(kind, "revoke", revoked.pk))
    page = reverse("admin:engagement_product_change", args=[acme.pk])
    html, html_of_reader = (who.get(page).content.decode() for who in (member, reader))
    for view in ("reveal", "rotate"):
        assert f'formaction="{address(kind, view, live.pk)}"' in html
        assert address(kind, view, revoked.pk) not in html
        assert address(kind, view, live.pk) not in html_of_reader
    # Pressing Enter in the product's name saves it and presses no other button.
    assert html.count('form="eds-row-actions"') == html.count("formaction=")
    assert "live" in html_of_reader and live.secret not in html + html_of_reader


@KINDS
def test_the_action_asks_first_and_revokes_the_selected(
    member: Client, acme: Product, kind: type[Any]
) -> None:
    selection, other = kind.create(acme, "chosen"), kind.create(acme, "other")
    data = {"action": "revoke_selected", "_selected_action": [selection.pk]}
    question = member.post(address(kind, "changelist"), data)
    assert "chosen" in question.content.decode() and "other (" not in question.content.decode()
    assert not kind.objects.filter(revoked_at__isnull=False)
    member.post(address(kind, "changelist"), {**data, "confirmed": "yes"})
    assert [row.name for row in kind.objects.filter(revoked_at=None)] == [other.name]


@KINDS
def test_product_and_secret_are_fixed(
    root: Client, acme: Product, globex: Product, kind: type[Any]
) -> None:
    credential = kind.create(acme, "web")
    data = {"name": "web", "product": globex.pk, "secret": "mine", "digest": "x"}
    root.post(address(kind, "change", credential.pk), data)
    after = kind.objects.get()
    assert (after.product, after.secret, bytes(after.digest)) == (
        acme,
        credential.secret,
        credential.digest,
    )


@KINDS
def test_a_lost_encryption_key_leaves_the_pages_working_and_says_so(
    root: Client, acme: Product, kind: type[Any], settings: Settings
) -> None:
    credential = kind.create(acme, "web")
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    assert root.get(address(kind, "changelist")).status_code == 200
    page = root.post(address(kind, "reveal", credential.pk), follow=True)
    assert "EDS_ENCRYPTION_KEYS" in page.content.decode()


@KINDS
def test_live_and_revoked_credentials_are_distinguishable(
    root: Client, acme: Product, kind: type[Any]
) -> None:
    live, revoked = kind.create(acme, "live one"), kind.create(acme, "revoked one")
    root.post(address(kind, "revoke", revoked.pk))
    for state, expected in (("live", [live.pk]), ("revoked", [revoked.pk]), ("x", None)):
        rows = root.get(address(kind, "changelist"), {"state": state}).context["cl"].result_list
        assert [row.pk for row in rows] == (expected or [live.pk, revoked.pk])
