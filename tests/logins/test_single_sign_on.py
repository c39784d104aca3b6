"""Single sign-on: who gets in as which login, with which roles, and what a refusal says."""

import re
import time
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User as AdminUser
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from access.admin import sign_in
from access.logins import addresses, invites, sessions
from access.models import ExternalIdentity, Invite, LoginSession, RoleGrant, TrailEntry
from config.sign_in import check_ways_in, oidc, role_mapping
from engagement.models import Product, ProductMember
from tests.logins.provider import PERSON, Provider
from tests.start.running import free_port, manage

pytestmark = pytest.mark.django_db

START = "/admin/login/single-sign-on/?next=/admin/preferences/"
CALLBACK = "/admin/login/single-sign-on/callback/"


def come_back(provider: Provider, client: Client, **changed: str) -> Any:
    """Sign in at the provider, and return to the service."""
    response = client.get(START)
    assert response.status_code == 302, response.content.decode()
    return client.get(CALLBACK, {**provider.authorize(response["Location"]), **changed})


def signed_in(provider: Provider) -> Client:
    client = Client()
    response = come_back(provider, client)
    assert response.status_code == 302, response.content.decode()
    assert response["Location"] == "/admin/preferences/"
    assert client.get("/admin/preferences/").status_code == 200
    return client


def refusal(provider: Provider, client: Client | None = None, **changed: str) -> str:
    client = client or Client()
    response = come_back(provider, client, **changed)
    assert response.status_code == 403
    assert client.get("/admin/").status_code == 302
    return str(response.context["text"])


@pytest.fixture
def ada() -> AdminUser:
    """A login whose person has proven its address."""
    login = AdminUser.objects.create_user("ada", "Ada@Example.com", is_staff=True)
    addresses.prove(login, "ada@example.com")
    return login


def roles_of(login: AdminUser) -> dict[str, str]:
    members = ProductMember.objects.filter(user=login).select_related("product")
    return {member.product.name: member.role for member in members}


# --- Who gets in ----------------------------------------------------------------------------------


def test_an_existing_login_is_found_by_its_verified_email_and_then_by_its_identity(
    provider: Provider, ada: AdminUser
) -> None:
    page = Client().get("/admin/login/?next=/admin/preferences/").content.decode()
    assert (
        "Log in with Example ID" in page
        and "single-sign-on/?next=%2Fadmin%2Fpreferences%2F" in page
    )
    client = signed_in(provider)
    assert client.session["_auth_user_id"] == str(ada.pk)
    session = LoginSession.objects.get(user=ada)
    assert session.method == LoginSession.Method.PROVIDER
    # From now on, the identity decides, whatever the email address becomes.
    provider.behavior.person = {**PERSON, "email": "other@example.com", "email_verified": False}
    assert signed_in(provider).session["_auth_user_id"] == str(ada.pk)
    assert ExternalIdentity.objects.count() == 1


def test_an_unverified_email_matches_nobody(provider: Provider, ada: AdminUser) -> None:
    provider.behavior.person = {**PERSON, "email_verified": False}
    assert "Verify it there" in refusal(provider)
    provider.behavior.person = {key: PERSON[key] for key in ("sub", "email")}
    assert "does not say that your email address is verified" in refusal(provider)
    assert not ExternalIdentity.objects.exists()


def test_a_provider_that_verifies_every_email_need_not_say_so(
    provider: Provider, ada: AdminUser, settings: Settings
) -> None:
    settings.OIDC = {**settings.OIDC, "trusts_emails": True}
    provider.behavior.person = {key: PERSON[key] for key in ("sub", "email")}
    signed_in(provider)
    provider.behavior.person = {**PERSON, "sub": "2", "email_verified": False}
    assert "Verify it there" in refusal(provider)


def test_logins_are_made_on_the_first_sign_in_only_if_set(
    provider: Provider, settings: Settings
) -> None:
    assert refusal(provider) == (
        "There is no login for ada@example.com. Ask an administrator of this service."
    )
    settings.SSO_CREATES_LOGINS = True
    signed_in(provider)
    login = AdminUser.objects.get()
    assert (login.username, login.email) == ("ada@example.com", "ada@example.com")
    assert login.get_full_name() == "Ada Lovelace" and login.is_staff and not login.is_superuser
    assert not login.has_usable_password()


def test_a_person_with_an_invite_gets_a_login_and_joins(
    provider: Provider, acme: Product, settings: Settings
) -> None:
    settings.LOCAL_PASSWORDS = False
    root = AdminUser.objects.create_superuser("root")
    _, token = invites.create(root, timezone.now(), product=acme)
    client = Client()
    page = client.get(f"/invite/?token={token}", follow=True).content.decode()
    assert "Log in with single sign-on" in page and "password" not in page.lower()
    come_back(provider, client)
    assert client.post("/invite/", {"join": "Join"}).status_code == 302
    assert roles_of(AdminUser.objects.get(username="ada@example.com")) == {"Acme": "viewer"}


def test_nobody_gets_in_as_a_login_that_is_turned_off(provider: Provider, ada: AdminUser) -> None:
    AdminUser.objects.update(is_active=False)
    assert refusal(provider).startswith("Your login is turned off.")


# --- Roles ----------------------------------------------------------------------------------------


@pytest.fixture
def mapped(settings: Settings, acme: Product, globex: Product) -> None:
    settings.SSO_CREATES_LOGINS = True
    settings.SSO_GROUPS = role_mapping(
        "EDS_SSO_GROUPS",
        f"growth=Acme:manager,admins=superuser,sales={globex.pk}:viewer,sales=Acme:viewer",
    )


def test_groups_give_roles_and_take_away_what_they_gave(provider: Provider, mapped: None) -> None:
    signed_in(provider)
    ada = AdminUser.objects.get()
    assert roles_of(ada) == {"Acme": "manager"}
    provider.behavior.person = {**PERSON, "groups": ["sales", "growth", "admins"]}
    signed_in(provider)
    ada.refresh_from_db()
    assert roles_of(ada) == {"Acme": "manager", "Globex": "viewer"} and ada.is_superuser
    provider.behavior.person = {**PERSON, "groups": ["sales"]}
    signed_in(provider)
    assert roles_of(ada) == {"Acme": "viewer", "Globex": "viewer"}
    assert not AdminUser.objects.get().is_superuser
    provider.behavior.person = {**PERSON, "groups": ["canteen"]}
    assert refusal(provider).startswith("None of your groups has access to this service.")
    assert roles_of(ada) == {} and not RoleGrant.objects.exists()
    # The trail says that the groups did it.
    changes = (
        TrailEntry.objects.filter(kind="member").order_by("id").values_list("changes", flat=True)
    )
    assert [change["role"] for change in changes] == [
        ["", "manager"],
        ["", "viewer"],
        ["manager", "viewer"],
        ["viewer", ""],
        ["viewer", ""],
    ]
    entry = TrailEntry.objects.get(kind="login", action="added")
    assert entry.note == "Made a login by single sign-on." and entry.object_name == ada.username


def test_what_somebody_gave_in_the_admin_stays(
    provider: Provider, mapped: None, ada: AdminUser, acme: Product, globex: Product
) -> None:
    AdminUser.objects.update(is_superuser=True)
    ProductMember.objects.create(product=acme, user=ada, role="viewer")
    ProductMember.objects.create(product=globex, user=ada, role="manager")
    provider.behavior.person = {**PERSON, "groups": ["growth", "sales", "admins"]}
    signed_in(provider)
    assert roles_of(ada) == {"Acme": "manager", "Globex": "manager"}
    provider.behavior.person = {**PERSON, "groups": []}
    signed_in(provider)
    ada.refresh_from_db()
    # Back to what it was, and untouched where the group gave less.
    assert roles_of(ada) == {"Acme": "viewer", "Globex": "manager"} and ada.is_superuser
    # A role that somebody changed after the group gave it is theirs, too.
    provider.behavior.person = {**PERSON, "groups": ["growth"]}
    signed_in(provider)
    ProductMember.objects.filter(product=acme).update(role="viewer", may_manage_connections=True)
    provider.behavior.person = {**PERSON, "groups": []}
    signed_in(provider)
    assert roles_of(ada) == {"Acme": "viewer", "Globex": "manager"}


def test_nobody_without_a_mapped_group_gets_a_login(provider: Provider, mapped: None) -> None:
    for person in ({**PERSON, "groups": ["canteen"]}, {**PERSON, "groups": None}):
        provider.behavior.person = person
        assert refusal(provider).startswith("None of your groups")
    assert not AdminUser.objects.exists()


def test_groups_and_emails_may_come_from_the_user_information(
    provider: Provider, mapped: None
) -> None:
    provider.behavior.in_user_info = ("email", "email_verified", "name", "groups")
    signed_in(provider)
    assert roles_of(AdminUser.objects.get(username="ada@example.com")) == {"Acme": "manager"}
    # Of somebody else, it is not used.
    provider.behavior.token = {"sub": "3"}
    assert "Verify it there" in refusal(provider)


# --- What is refused ------------------------------------------------------------------------------


def test_a_stolen_or_repeated_answer_is_refused(provider: Provider, ada: AdminUser) -> None:
    assert "does not belong to this browser" in refusal(provider, state="another")
    assert "Another provider" in refusal(provider, iss="https://elsewhere.example.com")
    client = Client()
    parameters = provider.authorize(client.get(START)["Location"])
    assert (
        "took too long, or began in another browser"
        in (Client().get(CALLBACK, parameters).context["text"])
    )
    assert client.get(CALLBACK, parameters).status_code == 302
    assert client.get(CALLBACK, parameters).status_code == 403
    # The code of one sign-in with the state of another: PKCE and the nonce do not fit.
    victim = Client()
    state = provider.authorize(victim.get(START)["Location"])["state"]
    stolen = provider.authorize(Client().get(START)["Location"])["code"]
    answer = victim.get(CALLBACK, {"code": stolen, "state": state})
    assert "Start again" in answer.context["text"] and answer.status_code == 403


@pytest.mark.parametrize(
    ("token", "signs_with"),
    [
        ({"nonce": "another"}, "own"),
        ({"aud": "another service"}, "own"),
        ({"aud": ["eds", "other"], "azp": "other"}, "own"),
        ({"aud": ["eds", "other"]}, "own"),
        ({"sub": ""}, "own"),
        ({"sub": "x" * 256}, "own"),
        ({"sub": "2489\0"}, "own"),
        ({"name": "Ada\0Lovelace"}, "own"),
        ({"email": "ada@example.com\0"}, "own"),
        ({"email": "\ud800@example.com"}, "own"),
        ({"iss": "https://elsewhere.example.com"}, "own"),
        ({}, "other"),
        ({}, "nothing"),
        ({}, "the client secret"),
    ],
)
def test_a_token_that_is_not_for_this_sign_in_is_refused(
    provider: Provider, ada: AdminUser, token: dict[str, Any], signs_with: str
) -> None:
    provider.behavior.token, provider.behavior.signs_with = token, signs_with
    assert (
        refusal(provider) == "The answer of Example ID is not valid for this sign-in. Start again."
    )


def test_an_audience_may_be_a_list(provider: Provider, ada: AdminUser) -> None:
    for token in ({"aud": ["eds"]}, {"aud": ["eds", "other"], "azp": "eds"}):
        provider.behavior.token = token
        signed_in(provider)


@pytest.mark.parametrize("verified", [1, 1.0, "1", "yes", [True], {"a": 1}, False, "false"])
def test_only_true_says_that_an_address_is_verified(
    provider: Provider, ada: AdminUser, verified: object
) -> None:
    provider.behavior.person = {**PERSON, "email_verified": verified}
    assert "Verify it there" in refusal(provider)


def test_an_address_is_verified_by_the_document_that_has_it(
    provider: Provider, ada: AdminUser
) -> None:
    behavior = provider.behavior
    # An address that the person typed at the provider, and another one that is verified.
    behavior.in_user_info, behavior.token = ("email", "email_verified"), {"email": PERSON["email"]}
    behavior.user_info = {"email": "mallory@example.com"}
    assert refusal(provider).startswith("There is no login for mallory@example.com.")
    behavior.token = {"email_verified": True}
    behavior.user_info = {"email": PERSON["email"], "email_verified": False}
    assert "Verify it there" in refusal(provider)
    behavior.token = {"email": PERSON["email"], "email_verified": False}
    behavior.user_info = {"email_verified": True}
    assert "Verify it there" in refusal(provider)
    behavior.token, behavior.user_info = {"email": PERSON["email"]}, {}
    signed_in(provider)


def test_a_request_to_the_provider_is_answered_once(provider: Provider, ada: AdminUser) -> None:
    client = Client()
    location = client.get(START)["Location"]
    cookie = client.cookies["eds-sign-on"].value
    assert client.get(CALLBACK, provider.authorize(location)).status_code == 302
    # The same request, with another code of the provider.
    again = Client()
    again.cookies["eds-sign-on"] = cookie
    answer = again.get(CALLBACK, provider.authorize(location))
    assert answer.status_code == 403 and "used before" in answer.context["text"]


def test_each_failure_has_a_sentence(
    provider: Provider, ada: AdminUser, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    hour = 3600
    for shift in (hour, -hour):
        now = int(time.time()) + shift
        provider.behavior.token = {"iat": now, "nbf": now, "exp": now + 60}
        assert refusal(provider).startswith("The clocks of this service and of Example ID differ")
    provider.behavior.token = {}
    assert refusal(provider, code="used before") == "The sign-in took too long. Start again."
    visitor = Client()
    state = provider.authorize(visitor.get(START)["Location"])["state"]
    denied = visitor.get(CALLBACK, {"error": "access_denied", "state": state})
    assert denied.context["text"] == "Example ID refused the sign-in. Start again."
    provider.behavior.auth_methods = ("client_secret_post",)
    settings.OIDC = {**settings.OIDC, "client_secret": "wrong"}
    assert "client id or secret" in refusal(provider)
    # The log has the reason, and neither the person nor a secret.
    assert "reason clock" in caplog.text and "reason invalid_client" in caplog.text
    assert "ada@" not in caplog.text and "wrong" not in caplog.text


def test_the_client_may_also_be_named_in_the_form(provider: Provider, ada: AdminUser) -> None:
    provider.behavior.auth_methods = ("client_secret_post",)
    signed_in(provider)


def test_a_provider_that_is_down_or_wrong_is_named(
    provider: Provider, ada: AdminUser, settings: Settings
) -> None:
    provider.behavior.is_down = True
    answer = Client().get(START)
    assert answer.status_code == 403
    assert answer.context["text"].startswith("Example ID does not answer as it should. Try again")
    provider.behavior.is_down = False
    provider.behavior.named_issuer = f"{provider.issuer}/"
    assert "a slash at the end counts" in Client().get(START).context["text"]
    settings.OIDC = {**settings.OIDC, "issuer": "http://127.0.0.1:9"}
    assert "does not answer" in Client().get(START).context["text"]


def test_keys_that_the_provider_changed_are_fetched_again(
    provider: Provider, ada: AdminUser
) -> None:
    signed_in(provider)
    provider.key_id = "two"
    signed_in(provider)
    provider.key_id = "one"


def test_a_key_that_changed_under_its_old_id_is_fetched_once_a_minute(
    provider: Provider, ada: AdminUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_in(provider)
    now = time.monotonic()
    monkeypatch.setattr(sign_in.provider(), "_clock", lambda: now)
    provider.behavior.signs_with = provider.behavior.publishes = "other"
    before = provider.keys_fetched
    signed_in(provider)
    assert provider.keys_fetched == before + 1
    # With tokens that nobody signs, nobody makes the service ask all the time.
    provider.behavior.signs_with = "own"
    for _ in range(3):
        assert "not valid for this sign-in" in refusal(provider)
    assert provider.keys_fetched == before + 1
    now += 61
    for _ in range(3):
        assert "not valid for this sign-in" in refusal(provider)
    assert provider.keys_fetched == before + 2


def test_another_site_cannot_begin_it(provider: Provider) -> None:
    answer = Client().get(START, headers={"Sec-Fetch-Site": "cross-site"})
    assert answer["Location"] == "/admin/login/"


def test_it_leads_nowhere_else(provider: Provider, ada: AdminUser) -> None:
    client = Client()
    start = client.get("/admin/login/single-sign-on/?next=https://evil.example.com/")
    response = client.get(CALLBACK, provider.authorize(start["Location"]))
    assert response["Location"] == reverse("admin:index")


# --- Passwords ------------------------------------------------------------------------------------


def test_passwords_can_be_turned_off_except_for_a_named_login(
    provider: Provider, settings: Settings
) -> None:
    settings.LOCAL_PASSWORDS, settings.BREAK_GLASS_LOGIN = False, "glass"
    for name in ("root", "glass"):
        AdminUser.objects.create_superuser(name, password="quite a secret")
    page = Client().get("/admin/login/").content.decode()
    assert "Emergency login" in page
    for name in ("root", "nobody"):
        data = {"username": name, "password": "quite a secret"}
        answer = Client().post("/admin/login/", data).content.decode()
        assert "Passwords are turned off. Log in with single sign-on." in answer
    data = {"username": "glass", "password": "quite a secret"}
    assert Client().post("/admin/login/", data).status_code == 302
    root = Client()
    root.force_login(AdminUser.objects.get(username="root"))
    assert root.get("/admin/password_change/")["Location"] == "/admin/account/"
    settings.BREAK_GLASS_LOGIN = ""
    assert "id_password" not in Client().get("/admin/login/").content.decode()


def test_while_passwords_are_off_no_link_offers_a_new_one(
    provider: Provider, settings: Settings, root: Client
) -> None:
    settings.LOCAL_PASSWORDS, settings.BREAK_GLASS_LOGIN = False, "glass"
    ada, glass = (AdminUser.objects.create_user(name, is_staff=True) for name in ("ada", "glass"))
    url = reverse("admin:auth_user_password_change", args=[ada.pk])
    for response in (root.get(url), root.post(url)):
        assert response["Location"] == reverse("admin:auth_user_change", args=[ada.pk])
    page = root.get(response["Location"]).content.decode()
    assert "Passwords are turned off, so ada cannot have one." in page
    assert not Invite.objects.exists()
    url = reverse("admin:auth_user_password_change", args=[glass.pk])
    (link,) = re.findall(r"/invite/\?token=edi_\w+", root.post(url).content.decode())
    client = Client()
    client.get(link)
    password = "quite a secret"
    client.post("/invite/", {"new_password1": password, "new_password2": password})
    glass.refresh_from_db()
    assert glass.check_password(password)


# --- Proxies, which are gone ----------------------------------------------------------------------


def test_no_header_signs_anybody_in(ada: AdminUser) -> None:
    forged = {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "admins", "Remote-User": "ada"}
    assert Client().get("/admin/preferences/", headers=forged).status_code == 302


def test_a_session_that_a_proxy_began_is_over(ada: AdminUser) -> None:
    client = Client()
    client.force_login(ada)
    assert client.get("/admin/preferences/").status_code == 200
    session = client.session
    session[sessions.METHOD] = "proxy"
    session.save()
    assert client.get("/admin/preferences/").status_code == 302


def test_settings_of_proxies_are_named_at_the_start(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("os.execv", lambda *_: None)
    call_command("serve", "--port", str(free_port()))
    assert not caplog.records
    settings.RETIRED_SETTINGS = ["EDS_PROXY_LOGIN_HEADER", "EDS_PROXY_LOGIN_NETWORKS"]
    call_command("serve", "--port", str(free_port()))
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("EDS_PROXY_LOGIN_HEADER, EDS_PROXY_LOGIN_NETWORKS: proxies that sign")


# --- Settings -------------------------------------------------------------------------------------


def test_the_mapping_is_read_from_text_and_json() -> None:
    expected = {"CN=admins": [("superuser", "")], "growth": [("manager", "Acme"), ("viewer", "7")]}
    text = "CN=admins=superuser, growth=Acme:manager,growth=7:viewer"
    assert role_mapping("X", text) == expected
    json_text = '{"CN=admins": ["superuser"], "growth": ["Acme:manager", "7:viewer"]}'
    assert role_mapping("X", json_text) == expected
    assert role_mapping("X", "") == {}
    for text in ("growth", "growth=manager", "growth=Acme:owner", "=superuser", "{", '{"a": 1}'):
        with pytest.raises(ImproperlyConfigured, match="X "):
            role_mapping("X", text)


def test_settings_that_would_let_nobody_or_everybody_in_are_refused() -> None:
    fine = {"scopes": "openid", "client_id": "eds", "client_secret": "secret"}
    assert oidc(issuer="", client_id="", client_secret="", scopes="openid") == {}
    for issuer, problem in (
        ("", "EDS_OIDC_ISSUER must be set, too"),
        ("http://login.example.com", "must look like https://"),
        ("login.example.com", "must look like https://"),
    ):
        with pytest.raises(ImproperlyConfigured, match=problem):
            oidc(issuer=issuer, **fine)
    with pytest.raises(ImproperlyConfigured, match="must contain openid"):
        oidc(issuer="https://login.example.com", **{**fine, "scopes": "email"})
    with pytest.raises(ImproperlyConfigured, match="needs another way to sign in"):
        check_ways_in(False, "glass", None)
    with pytest.raises(ImproperlyConfigured, match="has no effect"):
        check_ways_in(True, "glass", True)
    check_ways_in(False, "", True)


@pytest.mark.slow
def test_check_deploy_is_clean_with_everything_set() -> None:
    variables = {
        "EDS_HTTPS": "true",
        "EDS_ALLOWED_HOSTS": "eds.example.com",
        "EDS_OIDC_ISSUER": "https://login.example.com",
        "EDS_OIDC_CLIENT_ID": "eds",
        "EDS_OIDC_CLIENT_SECRET": "secret",
        "EDS_SSO_GROUPS": "admins=superuser",
        "EDS_LOCAL_PASSWORDS": "false",
        "EDS_BREAK_GLASS_LOGIN": "glass",
        "EDS_SECOND_FACTOR": "all",
    }
    options = ("--deploy", "--fail-level", "WARNING")
    ended = manage(django_settings.DATA_DIR, "check", *options, **variables)
    assert ended.returncode == 0 and "no issues" in ended.stdout, ended.stderr
