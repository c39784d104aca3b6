"""People are invited by a link. They choose their own name and password."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from access.models import Invite
from core import credentials
from engagement.models import Product, ProductMember
from engagement.removal.maintenance import maintain
from tests.admin.conftest import logged_in
from tests.pipeline.waiting import places_of

PASSWORD = "correct horse battery"
NEW = {"username": "ada", "password1": PASSWORD, "password2": PASSWORD}
MANAGER, VIEWER = ProductMember.Role.MANAGER, ProductMember.Role.VIEWER


@pytest.fixture(autouse=True)
def quickly_hashed(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def invite_page(product: Product) -> str:
    return reverse("admin:engagement_product_invite", args=[product.pk])


def link_in(html: str) -> str:
    (url,) = re.findall(r"<code>(http://testserver/invite/\?token=edi_\w+)</code>", html)
    return str(url).removeprefix("http://testserver")


def invite(who: Client, product: Product, **fields: Any) -> str:
    """Invite somebody; the link."""
    form = {"email": "", "role": VIEWER, "days": 7, **fields}
    return link_in(who.post(invite_page(product), form).content.decode())


def roles(product: Product) -> dict[str, str]:
    members = ProductMember.objects.filter(product=product)
    return dict(members.values_list("user__username", "role"))


def test_a_manager_invites_and_the_person_chooses_a_name_and_a_password(
    member: Client, acme: Product, caplog: pytest.LogCaptureFixture
) -> None:
    form = member.get(invite_page(acme)).content.decode()
    assert '<option value="viewer" selected>' in form and '<option value="7" selected>' in form
    link = invite(member, acme)
    token = link.partition("=")[2]
    # Only the page that made the link shows it.
    product_page = reverse("admin:engagement_product_change", args=[acme.pk])
    assert token not in member.get(product_page).content.decode()
    assert "The holder of the link" in member.get(product_page).content.decode()
    assert places_of(token) == set()

    ada = Client(enforce_csrf_checks=True)
    answer = ada.get(link)
    # Neither the next URL nor the session has the token.
    assert (answer.status_code, answer["Location"]) == (302, "/invite/")
    page = ada.get("/invite/")
    html = page.content.decode()
    assert "<h1>Join Acme</h1>" in html and "invited as viewer" in html
    assert page["Cache-Control"] == "no-store" and "'unsafe" not in page["Content-Security-Policy"]
    assert "style=" not in html and "<script" not in html.replace("<script src=", "")
    assert ada.post("/invite/", NEW).status_code == 403, "without a CSRF token"
    csrf = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', html)[0]
    weak = {"username": "ada", "password1": "ada", "password2": "ada", "csrfmiddlewaretoken": csrf}
    assert "too short" in ada.post("/invite/", weak).content.decode()
    before = ada.session.session_key
    answer = ada.post("/invite/", {**NEW, "csrfmiddlewaretoken": csrf})
    overview = f"{reverse('admin:index')}?product={acme.pk}"
    assert (answer.status_code, answer["Location"]) == (302, overview)
    assert "<h1>Acme</h1>" in ada.get(overview).content.decode()
    # A session key that somebody planted before is worth nothing.
    assert ada.session.session_key != before
    assert ada.get(product_page).status_code == 200
    assert roles(acme) == {"maya": MANAGER, "ada": VIEWER}
    assert AdminUser.objects.get(username="ada").check_password(PASSWORD)
    assert places_of(token) == set() and token not in caplog.text
    assert "Used an invite" in caplog.text


def test_an_invite_works_once_until_it_expires_or_is_revoked(member: Client, acme: Product) -> None:
    def is_over(link: str) -> bool:
        return Client().get(link, follow=True).status_code == 404

    opened, revoked, expired, being_used = (invite(member, acme) for _ in range(4))
    assert not any(map(is_over, (opened, revoked, expired)))
    late = Client()
    late.get(opened)
    first = Client()
    first.get(opened)
    first.post("/invite/", NEW)
    assert is_over(opened) and late.get("/invite/").status_code == 404
    assert late.post("/invite/", {**NEW, "username": "eve"}).status_code == 404

    rows = {each.pk: each for each in Invite.objects.order_by("pk")}
    _, second, third, fourth = rows
    url = reverse("admin:engagement_product_revoke_invite", args=[acme.pk])
    for number in (str(second), "", "x", "9" * 30):
        assert member.post(url, {"invite": number}).status_code == 302
    Invite.objects.filter(pk=third).update(expires_at=timezone.now())
    assert is_over(revoked) and is_over(expired)
    assert not is_over(being_used) and Invite.objects.get(pk=fourth).used_at is None
    for nonsense in ("/invite/", "/invite/?token=", "/invite/?token=edi_x%00", "/invite/?token=é"):
        assert is_over(nonsense)
    assert is_over(f"/invite/?token={credentials.generate('edi')}")
    assert roles(acme) == {"maya": MANAGER, "ada": VIEWER}
    maintain(timezone.now() + timedelta(days=31))
    assert Invite.objects.count() == 3
    maintain(timezone.now() + timedelta(days=38))
    assert not Invite.objects.exists()


def test_somebody_with_a_login_joins_with_it_and_keeps_a_higher_role(
    member: Client, reader: Client, acme: Product, globex: Product
) -> None:
    reader.get(invite(member, acme, role=MANAGER))
    assert "Join as ray" in reader.get("/invite/").content.decode()
    assert roles(acme)["ray"] == VIEWER, "opening the link changes nothing"
    reader.post("/invite/", {"join": "Join"})
    assert roles(acme)["ray"] == MANAGER
    reader.get(invite(member, acme, role=VIEWER))
    reader.post("/invite/", {"join": "Join"})
    assert roles(acme)["ray"] == MANAGER
    # A stranger may log in first, and comes back.
    link = invite(member, acme)
    stranger = AdminUser.objects.create_user("sam", password=PASSWORD, is_staff=True)
    client = Client()
    client.get(link)
    assert "/admin/login/?next=/invite/" in client.get("/invite/").content.decode()
    answer = client.post("/admin/login/?next=/invite/", {"username": "sam", "password": PASSWORD})
    assert answer["Location"] == "/invite/"
    client.post("/invite/", {"join": "Join"})
    assert roles(acme)[stranger.username] == VIEWER
    assert AdminUser.objects.count() == 3


def test_managers_invite_to_their_own_products_only(
    member: Client, reader: Client, acme: Product, globex: Product
) -> None:
    form = {"email": "", "role": VIEWER, "days": 7}
    for who, product in ((member, globex), (reader, acme), (Client(), acme)):
        assert who.get(invite_page(product)).status_code in (302, 403, 404)
        assert who.post(invite_page(product), form).status_code in (302, 403, 404)
    for values in ({"role": "superuser"}, {"days": 365}, {"email": "no address"}):
        assert "error" in member.post(invite_page(acme), form | values).content.decode()
    assert not Invite.objects.exists()
    invite(member, acme)
    theirs = Invite.objects.create(
        product=globex, digest=b"x", expires_at=timezone.now() + timedelta(days=1)
    )
    url = reverse("admin:engagement_product_revoke_invite", args=[acme.pk])
    member.post(url, {"invite": theirs.pk})
    assert Invite.objects.get(pk=theirs.pk).revoked_at is None
    page = reader.get(reverse("admin:engagement_product_change", args=[acme.pk]))
    assert "Invited by" not in page.content.decode()


def test_a_mail_server_sends_the_link(
    member: Client, acme: Product, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = invite(member, acme, email="ada@example.com")
    assert mail.outbox == [], "without a mail server, the page shows the link"
    settings.HAS_EMAIL = True
    form = {"email": "ada@example.com", "role": VIEWER, "days": 1}
    html = member.post(invite_page(acme), form).content.decode()
    assert "on its way to ada@example.com" in html and "edi_" not in html
    (email,) = mail.outbox
    assert email.to == ["ada@example.com"] and email.subject == "Invitation to Acme"
    (url,) = re.findall(r"http://testserver(/invite/\?token=edi_\w+)", str(email.body))
    assert url != link and Client().get(url, follow=True).status_code == 200
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 9
    html = member.post(invite_page(acme), form).content.decode()
    assert "did not take the email" in html and link_in(html)


def test_a_superuser_adds_a_login_by_a_link(root: Client, acme: Product) -> None:
    add = reverse("admin:auth_user_add")
    assert 'type="password"' not in root.get(add).content.decode()
    form = {"email": "", "role": VIEWER, "days": 7, **NEW}
    for product, expected in (("", {}), (acme.pk, {"bob": VIEWER})):
        link = link_in(root.post(add, {**form, "product": product}).content.decode())
        client = Client()
        client.get(link)
        name = "bob" if product else "ann"
        assert client.post("/invite/", {**NEW, "username": name}).status_code == 302
        assert roles(acme) == expected
    assert client.get("/admin/").status_code == 200
    assert not AdminUser.objects.filter(username="ada").exists()


def test_a_superuser_cannot_choose_anothers_password(root: Client, member: Client) -> None:
    maya = AdminUser.objects.get(username="maya")
    maya.set_password("before")
    maya.save()
    url = reverse("admin:auth_user_password_change", args=[maya.pk])
    assert 'type="password"' not in root.get(url).content.decode()
    new = {"password1": PASSWORD, "password2": PASSWORD, "usable_password": "true"}
    link = link_in(root.post(url, new).content.decode())
    maya.refresh_from_db()
    assert maya.check_password("before")
    client = Client()
    client.get(link)
    assert "New password for maya" in client.get("/invite/").content.decode()
    # The link is of no use to join anything.
    logged_in(AdminUser.objects.create_user("eve", is_staff=True)).post("/invite/", {"join": "1"})
    passwords = {"new_password1": PASSWORD, "new_password2": PASSWORD}
    assert client.post("/invite/", passwords).status_code == 302
    maya.refresh_from_db()
    assert maya.check_password(PASSWORD)
    assert client.get(link, follow=True).status_code == 404
    assert member.get(url).status_code in (302, 403)


def test_guessing_links_is_slowed_down(db: None) -> None:
    statuses = [Client().get("/invite/?token=edi_guess").status_code for _ in range(52)]
    assert statuses[0] == 302 and statuses[-1] == 429
    assert Client().get("/invite/?token=edi_guess", REMOTE_ADDR="10.9.8.7").status_code == 302
