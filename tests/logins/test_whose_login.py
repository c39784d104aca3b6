"""Nobody becomes somebody else by an address or a name that they have not proven."""

import re
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User as AdminUser
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from access.logins import invites, second_factors
from access.models import ExternalIdentity, LoginSession, RoleGrant, SecondFactor, TrailEntry
from config.sign_in import role_mapping
from engagement.models import Product, ProductMember
from tests.admin.conftest import logged_in
from tests.logins.provider import Provider
from tests.logins.test_single_sign_on import come_back, refusal

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"
ADDRESS = "cfo@ex.example"
CFO = {
    "sub": "cfo",
    "email": ADDRESS,
    "email_verified": True,
    "name": "Carla Fox",
    "groups": ["admins", "growth"],
}


@pytest.fixture(autouse=True)
def company(provider: Provider, settings: Settings, acme: Product) -> None:
    """The CFO at the provider, whose groups make her a superuser here."""
    provider.behavior.person = dict(CFO)
    settings.SSO_CREATES_LOGINS = True
    settings.SSO_GROUPS = role_mapping("EDS_SSO_GROUPS", "admins=superuser,growth=Acme:manager")


def invite_link(who: Client, product: Product, email: str) -> str:
    """The invite's link, from the page or from the email."""
    url = reverse("admin:engagement_product_invite", args=[product.pk])
    page = who.post(url, {"email": email, "role": "viewer", "days": 7}).content.decode()
    text = page + "".join(str(message.body) for message in mail.outbox)
    links = re.findall(r"http://testserver(/invite/\?token=edi_\w+)", text)
    return str(links[-1])


def choose(link: str, name: str) -> tuple[Client, Any]:
    """Open the link, and make a login with this name and a password."""
    client = Client()
    client.get(link)
    form = {"username": name, "password1": PASSWORD, "password2": PASSWORD}
    return client, client.post("/invite/", form)


def enters(name: str) -> bool:
    data = {"username": name, "password": PASSWORD}
    return Client().post("/admin/login/", data).status_code == 302


def signed_in(provider: Provider, client: Client | None = None) -> AdminUser:
    """The login that the person at the provider gets."""
    client = client or Client()
    response = come_back(provider, client)
    assert response.status_code == 302, response.content.decode()
    return AdminUser.objects.get(pk=client.session["_auth_user_id"])


def roles_of(login: AdminUser) -> dict[str, str]:
    members = ProductMember.objects.filter(user=login)
    return dict(members.values_list("product__name", "role"))


# --- Addresses ------------------------------------------------------------------------------------


def test_a_squatter_gets_nothing_of_the_person_whose_address_was_typed(
    provider: Provider, member: Client, acme: Product
) -> None:
    _, answer = choose(invite_link(member, acme, ADDRESS), "helper2")
    assert answer.status_code == 302
    carla = signed_in(provider)
    assert (carla.username, carla.is_superuser) == (ADDRESS, True)
    assert roles_of(carla) == {"Acme": "manager"}
    squatter = AdminUser.objects.get(username="helper2")
    assert squatter != carla and not squatter.is_superuser
    assert roles_of(squatter) == {"Acme": "viewer"}, "as the invite says"
    assert not ExternalIdentity.objects.filter(user=squatter).exists()


def test_without_new_logins_a_squatted_address_lets_nobody_in(
    provider: Provider, member: Client, acme: Product, settings: Settings
) -> None:
    settings.SSO_CREATES_LOGINS = False
    choose(invite_link(member, acme, ADDRESS), "helper2")
    assert refusal(provider).startswith(f"There is no login for {ADDRESS}.")
    assert not AdminUser.objects.filter(is_superuser=True).exists()


def test_two_invites_to_one_address_shut_nobody_out(
    provider: Provider, member: Client, acme: Product
) -> None:
    for name in ("helper1", "helper2"):
        choose(invite_link(member, acme, ADDRESS), name)
    assert signed_in(provider).username == ADDRESS


def test_a_mailed_invite_proves_the_address(
    provider: Provider, member: Client, acme: Product, settings: Settings
) -> None:
    settings.HAS_EMAIL = True
    choose(invite_link(member, acme, ADDRESS), "carla")
    assert enters("carla")
    carla = AdminUser.objects.get(username="carla")
    assert signed_in(provider) == carla
    assert AdminUser.objects.get(username="carla").is_superuser
    # A mail server that fails: the page shows the link, which proves nothing.
    provider.behavior.person = {**CFO, "sub": "cto", "email": "cto@ex.example"}
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 9
    mail.outbox.clear()
    choose(invite_link(member, acme, "cto@ex.example"), "helper")
    assert signed_in(provider).username == "cto@ex.example"


def test_an_address_that_was_edited_is_not_proven(
    provider: Provider, member: Client, acme: Product, settings: Settings
) -> None:
    settings.HAS_EMAIL = True
    choose(invite_link(member, acme, "helper@ex.example"), "helper")
    AdminUser.objects.filter(username="helper").update(email=ADDRESS)
    assert signed_in(provider).username == ADDRESS


def test_letters_that_only_look_alike_are_another_address(
    provider: Provider, member: Client, acme: Product, settings: Settings
) -> None:
    settings.HAS_EMAIL = True
    choose(invite_link(member, acme, "kim@ex.example"), "kim")
    kim = AdminUser.objects.get(username="kim")
    # The Kelvin sign, whose lower case is a k.
    provider.behavior.person = {**CFO, "email": "\N{KELVIN SIGN}im@ex.example"}
    assert signed_in(provider) != kim
    provider.behavior.person = {**CFO, "sub": "kim", "email": "Kim@EX.example"}
    assert signed_in(provider) == kim


def test_the_first_sign_in_takes_the_password_the_sessions_and_the_factors_away(
    provider: Provider,
    member: Client,
    acme: Product,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    settings.HAS_EMAIL = True
    browser, _ = choose(invite_link(member, acme, ADDRESS), "carla")
    carla = AdminUser.objects.get(username="carla")
    second_factors.add_app(carla, "Phone", second_factors.new_app_secret(), 0, timezone.now())
    second_factors.new_recovery_codes(carla)
    root = AdminUser.objects.create_superuser("root")
    _, token = invites.create(root, timezone.now(), email=ADDRESS, login=carla)
    assert browser.get("/admin/preferences/").status_code == 200
    assert signed_in(provider) == carla
    assert browser.get("/admin/preferences/").status_code == 302
    assert not enters("carla")
    assert not second_factors.has_factor(carla) and not second_factors.recovery_codes_left(carla)
    assert LoginSession.objects.filter(user=carla).count() == 1
    assert Client().get(f"/invite/?token={token}", follow=True).status_code == 404
    entry = TrailEntry.objects.get(kind="login", object_id=carla.pk, note__startswith="Connected")
    assert entry.person == "carla" and "Single sign on connected" in caplog.text


# --- Superusers by a group ------------------------------------------------------------------------


def test_no_group_makes_a_login_with_a_password_a_superuser(
    provider: Provider, member: Client, acme: Product
) -> None:
    carla = signed_in(provider)
    assert RoleGrant.objects.filter(user=carla, product=None).exists()
    # A superuser gives it a password again.
    root = AdminUser.objects.create_superuser("root")
    _, token = invites.create(root, timezone.now(), login=carla)
    client = Client()
    client.get(f"/invite/?token={token}")
    client.post("/invite/", {"new_password1": PASSWORD, "new_password2": PASSWORD})
    assert enters(ADDRESS)
    carla.refresh_from_db()
    assert not carla.is_superuser and not RoleGrant.objects.filter(product=None).exists()
    assert not signed_in(provider).is_superuser
    assert roles_of(carla) == {"Acme": "manager"}, "other roles stay"
    # One that somebody gave stays, too.
    AdminUser.objects.filter(pk=carla.pk).update(is_superuser=True)
    assert signed_in(provider).is_superuser


# --- Names ----------------------------------------------------------------------------------------


def test_nobody_takes_a_name_that_is_somebodys_address(
    provider: Provider, member: Client, acme: Product, settings: Settings
) -> None:
    for name in (ADDRESS, "CFO@ex.example", "cfo\N{FULLWIDTH COMMERCIAL AT}ex.example"):
        _, answer = choose(invite_link(member, acme, ADDRESS), name)
        assert answer.status_code == 200 and "without @" in answer.content.decode()
    settings.HAS_EMAIL = True
    _, answer = choose(invite_link(member, acme, ADDRESS), "cto@ex.example")
    assert answer.status_code == 200
    _, answer = choose(invite_link(member, acme, ADDRESS), ADDRESS)
    assert answer.status_code == 302, "the invite was mailed there"


def test_a_squatted_name_shuts_nobody_out(provider: Provider, acme: Product) -> None:
    squatters = [
        AdminUser.objects.create_user(name, password=PASSWORD, is_staff=True)
        for name in (ADDRESS, "cfo.ex.example")
    ]
    carla = signed_in(provider)
    assert (carla.username, carla.email) == ("cfo.ex.example-2", ADDRESS)
    assert carla.is_superuser and not any(roles_of(squatter) for squatter in squatters)
    assert not AdminUser.objects.get(username=ADDRESS).is_superuser
    assert signed_in(provider) == carla


def test_a_superuser_gives_no_login_a_name_that_is_an_unproven_address(
    root: Client, provider: Provider
) -> None:
    login = AdminUser.objects.create_user("helper", ADDRESS, is_staff=True)
    url = reverse("admin:auth_user_change", args=[login.pk])
    form = {"username": ADDRESS, "email": ADDRESS, "is_active": "on", "is_staff": "on"}
    assert "has proven that address" in root.post(url, form).content.decode()
    login.delete()
    carla = signed_in(provider)
    AdminUser.objects.filter(pk=carla.pk).update(username="carla")
    assert root.post(url.replace(str(login.pk), str(carla.pk)), form).status_code == 302


# --- Addresses that are given to others -----------------------------------------------------------


def test_the_next_person_with_an_address_does_not_get_the_login_of_the_one_before(
    provider: Provider, root: Client, caplog: pytest.LogCaptureFixture
) -> None:
    carla = signed_in(provider)
    provider.behavior.person = {**CFO, "sub": "the next CFO"}
    for _ in range(3):
        assert refusal(provider).startswith("Your email address belongs to a login of this service")
    assert "reason address of another person" in caplog.text and carla.username in caplog.text
    # The administrators are told once, until they change something.
    (entry,) = TrailEntry.objects.filter(kind="sign-in", object_id=carla.pk)
    assert entry.object_name == carla.username
    page = root.get("/admin/").content.decode()
    assert "has the email address of the login" in page
    assert reverse("admin:auth_user_change", args=[carla.pk]) in page
    assert (
        "has the email address" not in logged_in(carla).get("/admin/preferences/").content.decode()
    )
    provider.behavior.person = dict(CFO)
    assert signed_in(provider) == carla, "the first person is not shut out"
    assert "has the email address of the login" in root.get("/admin/").content.decode()
    form = {"username": "carla", "email": "", "is_active": "on", "is_staff": "on"}
    assert root.post(reverse("admin:auth_user_change", args=[carla.pk]), form).status_code == 302
    assert "has the email address of the login" not in root.get("/admin/").content.decode()
    provider.behavior.person = {**CFO, "sub": "the next CFO"}
    successor = signed_in(provider)
    assert successor != carla and successor.email == ADDRESS


def test_a_superuser_disconnects_a_login_from_the_provider(
    provider: Provider, root: Client
) -> None:
    carla = signed_in(provider)
    # The provider calls the same person something else.
    provider.behavior.person = {**CFO, "sub": "cfo-2"}
    assert "belongs to a login" in refusal(provider)
    url = reverse("admin:auth_user_reset_factors", args=[carla.pk])
    assert "Disconnect single sign-on" in root.get(url).content.decode()
    assert root.post(url, {"disconnect": "1"}).status_code == 302
    assert not LoginSession.objects.filter(user=carla).exists()
    assert signed_in(provider) == carla
    assert "has the email address" not in root.get("/admin/").content.decode()


# --- Logins from before ---------------------------------------------------------------------------


@pytest.fixture
def carla(settings: Settings) -> AdminUser:
    """A login with a password, whose address nobody has proven."""
    settings.SSO_CREATES_LOGINS = False
    return AdminUser.objects.create_user("carla", ADDRESS, PASSWORD, is_staff=True)


def test_a_person_connects_their_login_with_its_password(
    provider: Provider, carla: AdminUser
) -> None:
    assert "There is no login" in refusal(provider)
    client = Client()
    client.post("/admin/login/", {"username": "carla", "password": PASSWORD})
    page = client.get("/admin/account/").content.decode()
    (url,) = re.findall(r'href="(/admin/login/single-sign-on/\?connect=[^"]+)"', page)
    url = url.replace("&amp;", "&")
    # With the address of another person, nothing is connected.
    provider.behavior.person = {**CFO, "email": "cto@ex.example"}
    answer = client.get(
        reverse("admin:single_sign_on_callback"), come_back_parameters(provider, client, url)
    )
    assert answer.status_code == 403 and enters("carla")
    provider.behavior.person = dict(CFO)
    answer = client.get(
        reverse("admin:single_sign_on_callback"), come_back_parameters(provider, client, url)
    )
    assert answer["Location"] == "/admin/account/"
    assert client.session["_auth_user_id"] == str(carla.pk) and not enters("carla")
    assert "Connect with" not in client.get("/admin/account/").content.decode()
    assert signed_in(provider) == carla


def come_back_parameters(provider: Provider, client: Client, url: str) -> dict[str, str]:
    return provider.authorize(client.get(url)["Location"])


def test_a_login_is_connected_only_minutes_after_its_password(
    provider: Provider, carla: AdminUser
) -> None:
    client = logged_in(carla)
    session = client.session
    session["signed_in_at"] = timezone.now().timestamp() - 3600
    session.save()
    answer = client.get("/admin/login/single-sign-on/?connect=1")
    assert answer["Location"].startswith("/admin/login/?again=1&next=")
    # And not by a sign-in that only asks for a fresh one.
    answer = client.get("/admin/login/single-sign-on/?again=1")
    back = provider.authorize(answer["Location"])
    assert client.get(reverse("admin:single_sign_on_callback"), back).status_code == 403


def test_the_list_of_logins_says_whose_address_is_not_proven(
    provider: Provider, root: Client, carla: AdminUser, settings: Settings
) -> None:
    url = reverse("admin:auth_user_changelist")
    assert f"{ADDRESS} (not proven)" in root.get(url).content.decode()
    settings.HAS_EMAIL = True
    root.post(reverse("admin:auth_user_password_change", args=[carla.pk]))
    (link,) = re.findall(r"http://testserver(/invite/\?token=edi_\w+)", str(mail.outbox[0].body))
    client = Client()
    client.get(link)
    client.post("/invite/", {"new_password1": PASSWORD, "new_password2": PASSWORD})
    page = root.get(url).content.decode()
    assert ADDRESS in page and "not proven" not in page
    assert signed_in(provider) == carla


def test_the_upgrade_takes_passwords_from_connected_logins(
    carla: AdminUser, settings: Settings
) -> None:
    settings.BREAK_GLASS_LOGIN = "glass"
    others = [
        AdminUser.objects.create_user(name, password=PASSWORD, is_staff=True)
        for name in ("alone", "glass")
    ]
    for number, login in enumerate((carla, others[1])):
        ExternalIdentity.objects.create(user=login, issuer="https://x", subject=str(number))
    browsers = {login: Client() for login in (carla, *others)}
    for login, browser in browsers.items():
        browser.post("/admin/login/", {"username": login.username, "password": PASSWORD})
        second_factors.add_app(login, "Phone", second_factors.new_app_secret(), 0, timezone.now())
    migration = import_module("engagement.migrations.0042_proven_addresses")
    migration.take_local_ways_in(apps, None)
    is_in = {
        login.username: browser.get("/admin/preferences/").status_code == 200
        for login, browser in browsers.items()
    }
    assert is_in == {"carla": False, "alone": True, "glass": True}
    assert not enters("carla") and enters("glass")
    assert set(SecondFactor.objects.values_list("user", flat=True)) == {each.pk for each in others}
    assert TrailEntry.objects.filter(kind="login", object_name="carla").count() == 1
