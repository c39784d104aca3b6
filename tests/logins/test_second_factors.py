"""Second factors: added, asked for, required, lost, and reset. The browser tests passkeys."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyotp
import pytest
from django.contrib.auth.models import User as AdminUser
from django.core import mail
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from access.logins import invites, second_factors, sessions
from access.models import RecoveryCode, SecondFactor, TrailEntry
from engagement.models import Product, ProductMember
from tests.admin.conftest import logged_in

pytestmark = pytest.mark.django_db

PASSWORD = "quite a secret"
STEP = timedelta(seconds=30)
# Of RFC 6238, appendix B: the secret and the codes of some times, of which the last six digits.
RFC_SECRET = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
RFC_CODES = {1111111109: "081804", 1234567890: "005924", 20000000000: "353130"}


@pytest.fixture
def maya() -> AdminUser:
    return AdminUser.objects.create_user("maya", password=PASSWORD, is_staff=True)


def with_app(login: AdminUser) -> str:
    """The secret of an app that the login gets."""
    secret = second_factors.new_app_secret()
    second_factors.add_app(login, "Phone", secret, 0, timezone.now())
    return secret


def code_at(secret: str, at: datetime) -> str:
    return pyotp.TOTP(secret).at(at)


def enter_password(name: str = "maya") -> tuple[Client, Any]:
    client = Client()
    data = {"username": name, "password": PASSWORD}
    return client, client.post("/admin/login/?next=/admin/preferences/", data)


def enter_code(client: Client, code: str) -> Any:
    return client.post("/admin/login/second-factor/", {"code": code})


def is_in(client: Client) -> bool:
    return client.get("/admin/preferences/").status_code == 200


# --- Codes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", RFC_CODES)
def test_codes_are_those_of_the_standard(seconds: int) -> None:
    now = datetime.fromtimestamp(seconds, UTC)
    for shift, is_valid in ((0, True), (-30, True), (30, True), (-90, False), (90, False)):
        step = second_factors.matching_step(
            RFC_SECRET, RFC_CODES[seconds], now + timedelta(seconds=shift)
        )
        assert (step == seconds // 30) is is_valid


def test_a_code_works_once_and_an_older_one_no_more(maya: AdminUser) -> None:
    secret, now = with_app(maya), timezone.now()
    code = pyotp.TOTP(secret).at(now)
    assert second_factors.use_code(maya, f"{code[:3]} {code[3:]}", now)
    assert not second_factors.use_code(maya, code, now)
    assert not second_factors.use_code(maya, code_at(secret, now - STEP), now)
    assert second_factors.use_code(maya, code_at(secret, now + STEP), now)


def test_how_long_a_code_counts_is_a_setting(settings: Settings) -> None:
    secret = second_factors.new_app_secret()
    begins = datetime(2026, 11, 22, 12, 0, 30, tzinfo=UTC)
    code = code_at(secret, begins)

    def counts(seconds: float) -> bool:
        at = begins + timedelta(seconds=seconds)
        return second_factors.matching_step(secret, code, at) is not None

    assert [counts(seconds) for seconds in (-31, -30, 0, 59, 60)] == [False, *[True] * 3, False]
    settings.CODE_TOLERANCE_SECONDS = 0
    assert [counts(seconds) for seconds in (-1, 0, 29, 30)] == [False, True, True, False]


def test_secrets_and_recovery_codes_are_not_stored_in_the_clear(maya: AdminUser) -> None:
    secret = with_app(maya)
    codes = second_factors.new_recovery_codes(maya)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT string_agg(f::text, ' ') FROM engagement_secondfactor f)"
            " || (SELECT string_agg(c::text, ' ') FROM engagement_recoverycode c)"
        )
        (rows,) = cursor.fetchone()
    assert secret not in rows
    # One that was discarded with a lost encryption key accepts nothing.
    assert second_factors.matching_step("", "000000", timezone.now()) is None
    assert not any(code in rows or code.replace("-", "") in rows for code in codes)


# --- Signing in -----------------------------------------------------------------------------------


def test_a_password_alone_opens_nothing(maya: AdminUser) -> None:
    secret = with_app(maya)
    client, response = enter_password()
    assert response["Location"] == "/admin/login/second-factor/"
    assert not is_in(client) and client.get("/admin/account/").status_code == 302
    page = enter_code(client, "000000").content.decode()
    assert "The code is not right, or was used before." in page and not is_in(client)
    response = enter_code(client, pyotp.TOTP(secret).at(timezone.now()))
    assert response["Location"] == "/admin/preferences/" and is_in(client)


def test_a_recovery_code_works_once(maya: AdminUser) -> None:
    with_app(maya)
    codes = second_factors.new_recovery_codes(maya)
    assert len(set(codes)) == 10
    client, _ = enter_password()
    assert enter_code(client, f" {codes[0].upper()} ").status_code == 302 and is_in(client)
    again, _ = enter_password()
    assert enter_code(again, codes[0]).status_code == 200
    assert second_factors.recovery_codes_left(maya) == 9
    other = AdminUser.objects.create_user("ray", is_staff=True)
    assert not second_factors.use_code(other, codes[1], timezone.now())


def test_guessing_codes_waits_however_often_the_password_is_right(maya: AdminUser) -> None:
    secret = with_app(maya)
    for _ in range(5):
        client, _ = enter_password()
        enter_code(client, "000000")
    client, _ = enter_password()
    page = enter_code(client, pyotp.TOTP(secret).at(timezone.now())).content.decode()
    assert "Too many wrong codes. Try again in 30 seconds." in page and not is_in(client)


def guess(times: int) -> None:
    for _ in range(times):
        client, _ = enter_password()
        enter_code(client, "000000")


def later(monkeypatch: pytest.MonkeyPatch, **passed: float) -> datetime:
    """The time from now on."""
    now = timezone.now() + timedelta(**passed)
    monkeypatch.setattr("access.admin.sign_in.timezone.now", lambda: now)
    return now


def test_wrong_codes_count_until_the_right_one_however_slowly_they_come(
    maya: AdminUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = with_app(maya)
    for hours in range(5):
        later(monkeypatch, hours=1 if hours else 0)
        guess(1)
    client, _ = enter_password()
    assert "Try again in 30 seconds." in enter_code(client, "000000").content.decode()
    now = later(monkeypatch, minutes=1)
    assert enter_code(client, pyotp.TOTP(secret).at(now)).status_code == 302
    guess(4)
    client, _ = enter_password()
    page = enter_code(client, "000000").content.decode()
    assert "The code is not right" in page, "they count from the start again"


def test_a_person_is_told_of_codes_that_others_entered(maya: AdminUser) -> None:
    secret = with_app(maya)
    guess(2)
    client, _ = enter_password()
    enter_code(client, "000000")
    enter_code(client, code_at(secret, timezone.now()))
    text = "Since you last signed in, 2 wrong codes were entered after your password."
    assert text in client.get("/admin/account/").content.decode()
    assert text not in client.get("/admin/account/").content.decode(), "once"
    # Nobody is told of their own ones.
    client, _ = enter_password()
    enter_code(client, "000000")
    enter_code(client, code_at(secret, timezone.now() + STEP))
    assert "wrong code" not in client.get("/admin/account/").content.decode()


def test_the_mail_server_warns_a_person_whose_password_is_known(
    maya: AdminUser, settings: Settings
) -> None:
    with_app(maya)
    guess(5)
    assert mail.outbox == [], "without a mail server"
    second = AdminUser.objects.create_user("max", "max@example.com", PASSWORD, is_staff=True)
    with_app(second)
    settings.HAS_EMAIL = True
    for _ in range(6):
        client, _ = enter_password("max")
        enter_code(client, "000000")
    (email,) = mail.outbox
    assert email.to == ["max@example.com"] and "5 wrong codes" in str(email.body)
    assert PASSWORD not in str(email.body)


@pytest.mark.parametrize("change", ["late", "password", "turned off", "nothing"])
def test_the_second_step_ends_with_the_first(maya: AdminUser, change: str) -> None:
    secret = with_app(maya)
    client, _ = enter_password()
    if change == "late":
        session = client.session
        session["pending_sign_in"] = {**session["pending_sign_in"], "at": 1.0}
        session.save()
    elif change == "password":
        maya.set_password("another secret")
        maya.save()
    elif change == "turned off":
        AdminUser.objects.update(is_active=False)
    response = enter_code(client, pyotp.TOTP(secret).at(timezone.now()))
    assert is_in(client) is (change == "nothing")
    assert (response["Location"] == "/admin/login/") is (change != "nothing")


def test_a_link_for_a_new_password_does_not_replace_the_second_factor(maya: AdminUser) -> None:
    with_app(maya)
    elsewhere = logged_in(maya)
    root = AdminUser.objects.create_superuser("root")
    _, token = invites.create(root, timezone.now(), login=maya)
    client = Client()
    client.get(f"/invite/?token={token}", follow=True)
    data = {"new_password1": "a new long secret", "new_password2": "a new long secret"}
    assert client.post("/invite/", data)["Location"] == "/admin/login/"
    assert not is_in(client) and not is_in(elsewhere)


# --- Your account ---------------------------------------------------------------------------------


def test_an_app_is_added_with_its_first_code_and_brings_recovery_codes(maya: AdminUser) -> None:
    client = logged_in(maya)
    page = client.get("/admin/account/apps/add/").content.decode()
    secret = client.session["new_app"]
    assert secret in page and "<svg" in page and "style=" not in page
    error = client.post("/admin/account/apps/add/", {"name": "Phone", "code": "000000"})
    assert "This is not the code that the app should show now." in error.content.decode()
    assert not SecondFactor.objects.exists() and client.session["new_app"] == secret
    code = pyotp.TOTP(secret).at(timezone.now())
    response = client.post("/admin/account/apps/add/", {"name": "Phone", "code": code})
    codes = response.context["codes"]
    assert len(codes) == 10 and codes[0] in response.content.decode()
    assert "new_app" not in client.session
    page = client.get("/admin/account/").content.decode()
    assert "Authenticator app" in page and "10 left" in page
    assert secret not in page and codes[0] not in page
    notes = [entry.note for entry in TrailEntry.objects.filter(kind="login")]
    assert sorted(notes) == [
        "Added a second factor: Authenticator app.",
        "Made new recovery codes.",
    ]
    # The code that added it is used up.
    assert not second_factors.use_code(maya, code, timezone.now())


def make_old(client: Client) -> None:
    session = client.session
    session[sessions.SIGNED_IN_AT] -= 20 * 60
    session.save()


CHANGES: list[tuple[str, Callable[[Client, int], Any]]] = [
    ("add an app", lambda client, _: client.get("/admin/account/apps/add/")),
    ("add a passkey", lambda client, _: client.get("/admin/account/passkeys/add/")),
    ("recovery codes", lambda client, _: client.post("/admin/account/recovery-codes/")),
    ("end sessions", lambda client, _: client.post("/admin/account/sessions/end/")),
    ("remove", lambda client, pk: client.post(f"/admin/account/factors/{pk}/remove/")),
]


def test_changes_need_a_fresh_sign_in(maya: AdminUser) -> None:
    secret = with_app(maya)
    factor = SecondFactor.objects.get()
    client = logged_in(maya)
    make_old(client)
    for what, change in CHANGES:
        response = change(client, factor.pk)
        assert response["Location"].startswith("/admin/login/?again=1&next="), what
    again = response["Location"]
    page = client.get(again).content.decode()
    assert "show again that it is you" in page and 'value="maya"' in page
    response = client.post(again, {"username": "maya", "password": PASSWORD})
    assert response["Location"] == "/admin/login/second-factor/"
    response = enter_code(client, pyotp.TOTP(secret).at(timezone.now()))
    assert response["Location"] == "/admin/account/"
    assert client.post(f"/admin/account/factors/{factor.pk}/remove/").status_code == 302
    assert not SecondFactor.objects.exists()


def test_nobody_removes_anothers_factor(maya: AdminUser) -> None:
    with_app(maya)
    second_factors.new_recovery_codes(maya)
    ray = logged_in(AdminUser.objects.create_user("ray", is_staff=True))
    ray.post(f"/admin/account/factors/{SecondFactor.objects.get().pk}/remove/")
    ray.post("/admin/account/recovery-codes/")
    assert SecondFactor.objects.count() == 1 and RecoveryCode.objects.count() == 10


@pytest.mark.parametrize("answer", ["[" * 20_000, '{"id":' * 3_000, "{}", "[]", "x"])
def test_a_browsers_answer_that_is_no_passkey_is_refused(maya: AdminUser, answer: str) -> None:
    client = logged_in(maya)
    url = "/admin/account/passkeys/add/"
    client.get(url, headers={"Host": "localhost"})
    form = {"name": "Key", "credential": answer}
    page = client.post(url, form, headers={"Host": "localhost"}).content.decode()
    assert "The browser’s answer is not valid" in page.replace("&#x27;", "’")
    with_app(maya)
    client, _ = enter_password()
    response = client.post("/admin/login/second-factor/", {"credential": answer})
    assert "The passkey was not accepted" in response.content.decode() and not is_in(client)


def test_passkeys_are_not_offered_where_browsers_allow_none(maya: AdminUser) -> None:
    client = logged_in(maya)
    for host, problem in (
        ("127.0.0.1:8000", "Passkeys need a host name."),
        ("[::1]:8000", "Passkeys need a host name."),
        ("localhost:8000", ""),
    ):
        page = client.get("/admin/account/", headers={"Host": host}).content.decode()
        assert ("Add a passkey" in page) is not bool(problem)
        assert problem in page


# --- Required -------------------------------------------------------------------------------------


def test_a_login_that_must_have_one_is_led_to_it_before_anything_else(
    maya: AdminUser, settings: Settings
) -> None:
    settings.SECOND_FACTOR = "all"
    client, response = enter_password()
    assert response["Location"] == "/admin/preferences/"
    for url in ("/admin/", "/admin/preferences/", "/admin/password_change/", "/invite/"):
        assert client.get(url)["Location"] == "/admin/account/", url
    page = client.get("/admin/account/").content.decode()
    assert "Your login must have a second factor. Add one to continue." in page
    client.get("/admin/account/apps/add/")
    code = pyotp.TOTP(client.session["new_app"]).at(timezone.now())
    client.post("/admin/account/apps/add/", {"name": "Phone", "code": code})
    assert is_in(client)
    factor = SecondFactor.objects.get()
    refusal = client.post(f"/admin/account/factors/{factor.pk}/remove/", follow=True)
    assert "Add another one before you remove this one." in refusal.content.decode()
    assert SecondFactor.objects.count() == 1
    # A session that began without it, before it was required.
    old = logged_in(maya)
    for url in ("/admin/preferences/", "/admin/account/", "/admin/account/apps/add/"):
        assert old.get(url)["Location"].startswith("/admin/login/?again=1"), url
    assert old.post("/admin/account/recovery-codes/").status_code == 302
    assert RecoveryCode.objects.count() == 10


def test_it_may_be_required_of_managers_and_superusers_only(
    acme: Product, settings: Settings
) -> None:
    settings.SECOND_FACTOR = "managers"
    root = AdminUser.objects.create_superuser("root")
    assert not is_in(logged_in(root))
    for role, must in (("viewer", False), ("manager", True)):
        login = AdminUser.objects.create_user(role, is_staff=True)
        ProductMember.objects.create(product=acme, user=login, role=role)
        assert is_in(logged_in(login)) is not must


# --- Lost -----------------------------------------------------------------------------------------


def test_a_superuser_resets_what_somebody_lost(maya: AdminUser) -> None:
    with_app(maya)
    second_factors.new_recovery_codes(maya)
    theirs = logged_in(maya)
    root = logged_in(AdminUser.objects.create_superuser("root"))
    url = f"/admin/auth/user/{maya.pk}/second-factors/"
    assert url in root.get(f"/admin/auth/user/{maya.pk}/change/").content.decode()
    assert "Phone" in root.get(url).content.decode()
    make_old(root)
    assert root.post(url)["Location"].startswith("/admin/login/?again=1")
    assert SecondFactor.objects.count() == 1
    root = logged_in(AdminUser.objects.get(username="root"))
    assert root.post(url, {"sessions": "1"}).status_code == 302
    assert SecondFactor.objects.count() == 1 and not is_in(theirs)
    theirs = logged_in(maya)
    assert root.post(url).status_code == 302
    assert not SecondFactor.objects.exists() and not RecoveryCode.objects.exists()
    assert not is_in(theirs)
    client, response = enter_password()
    assert response.status_code == 302 and is_in(client)
    assert theirs.post(url).status_code == 302


def test_the_last_superuser_has_a_command(
    maya: AdminUser, capsys: pytest.CaptureFixture[str]
) -> None:
    with_app(maya)
    theirs = logged_in(maya)
    call_command("reset_second_factors", "maya")
    assert "1 second factor" in capsys.readouterr().out
    assert not SecondFactor.objects.exists() and not is_in(theirs)
    with pytest.raises(CommandError, match="There is no login named nobody"):
        call_command("reset_second_factors", "nobody")
