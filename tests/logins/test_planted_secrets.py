"""What people sign in with is found nowhere: in no column, session, page, or line of the log."""

import logging
from urllib.parse import parse_qs, urlsplit

import pyotp
import pytest
from django.contrib.auth.models import User as AdminUser
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from access.logins import sessions
from access.models import LoginSession, SecondFactor
from tests.logins.provider import CLIENT_SECRET, Provider
from tests.pipeline.waiting import places_of

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery staple"


@pytest.mark.slow
@pytest.mark.whole
def test_what_signs_in_is_found_nowhere(
    provider: Provider, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    settings.SSO_CREATES_LOGINS = True
    ada = AdminUser.objects.create_superuser("ada", "ada@example.com", PASSWORD)
    pages = []

    # At the provider, and once refused there.
    client = Client()
    location = client.get("/admin/login/single-sign-on/")["Location"]
    parameters = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
    back = provider.authorize(location)
    client.get("/admin/login/single-sign-on/callback/", back)
    pages.append(client.get("/admin/login/single-sign-on/callback/", back))

    # With a password and an app.
    client = Client()
    client.post("/admin/login/", {"username": "ada", "password": PASSWORD})
    client.get("/admin/account/apps/add/")
    secret = client.session["new_app"]
    form = {"name": "Phone", "code": pyotp.TOTP(secret).at(timezone.now())}
    codes = client.post("/admin/account/apps/add/", form).context["codes"]
    again = Client()
    pages.append(again.post("/admin/login/", {"username": "ada", "password": "wrong " + PASSWORD}))
    again.post("/admin/login/", {"username": "ada", "password": PASSWORD})
    pages.append(again.post("/admin/login/second-factor/", {"code": "wrong " + codes[0]}))
    again.post("/admin/login/second-factor/", {"code": codes[1]})
    addresses = ("account/", "auth/user/", f"auth/user/{ada.pk}/change/", "login/?again=1", "")
    pages += [again.get(f"/admin/{address}") for address in addresses]
    pages.append(Client().get("/openapi.json"))

    stored = " ".join(str(row.get_decoded()) for row in Session.objects.all())
    content = " ".join(page.content.decode() for page in pages)
    key = str(again.session.session_key)
    planted = [PASSWORD, CLIENT_SECRET, secret, codes[1], back["code"], "an access token", key]
    planted += [parameters[name] for name in ("state", "nonce", "code_challenge")]
    for value in planted:
        assert value not in content and value not in stored and value not in caplog.text
        assert places_of(value) - {"django_session.session_key"} == set()
    assert SecondFactor.objects.get().secret == secret, "it was there to be found"
    assert places_of(key) and LoginSession.objects.filter(pk=sessions.digest(key)).exists()
