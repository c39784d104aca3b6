"""Sessions are listed, ended one by one or all at once, and end by themselves."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from access.logins import sessions
from access.models import LoginSession
from engagement.removal.maintenance import maintain

pytestmark = pytest.mark.django_db

PASSWORD = "quite a secret"


@pytest.fixture
def maya() -> AdminUser:
    return AdminUser.objects.create_user("maya", password=PASSWORD, is_staff=True)


def sign_in(address: str, agent: str = "Firefox", client: Client | None = None) -> Client:
    client = client or Client()
    data = {"username": "maya", "password": PASSWORD}
    response = client.post(
        "/admin/login/", data, REMOTE_ADDR=address, headers={"User-Agent": agent}
    )
    assert response.status_code == 302
    return client


def is_in(client: Client) -> bool:
    return client.get("/admin/preferences/").status_code == 200


def end(client: Client, **data: str) -> Any:
    return client.post("/admin/account/sessions/end/", data)


def test_sessions_are_listed_and_ended_one_by_one_or_all(maya: AdminUser) -> None:
    here, phone, other = (
        sign_in(f"198.51.100.{n}", agent)
        for n, agent in ((1, "Firefox"), (2, "Phone"), (3, "Curl <b>"))
    )
    page = here.get("/admin/account/").content.decode()
    for text in ("198.51.100.1", "198.51.100.2", "Phone", "Curl &lt;b&gt;", "This session"):
        assert text in page
    # A session's key signs in who has it, so pages and tables have only its digest.
    key = str(phone.session.session_key)
    assert key not in page and not LoginSession.objects.filter(pk=key).exists()
    end(here, session=sessions.digest(key))
    assert not is_in(phone) and is_in(other)
    end(here)
    assert not is_in(other) and is_in(here)
    assert LoginSession.objects.count() == 1 == Session.objects.count()


def test_nobody_ends_anothers_session(maya: AdminUser) -> None:
    theirs = sign_in("198.51.100.1")
    ray = Client()
    ray.force_login(AdminUser.objects.create_user("ray", is_staff=True))
    end(ray, session=sessions.digest(theirs.session.session_key))
    end(ray)
    assert is_in(theirs) and is_in(ray)


def test_a_new_password_signs_out_everywhere_else(maya: AdminUser) -> None:
    here, phone = sign_in("198.51.100.1"), sign_in("198.51.100.2")
    new = "another long secret"
    data = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    assert here.post("/admin/password_change/", data).status_code == 302
    assert is_in(here) and not is_in(phone)
    assert Session.objects.filter(pk=phone.session.session_key).count() == 0
    assert [row.pk for row in LoginSession.objects.all()] == [
        sessions.digest(here.session.session_key)
    ]


def test_signing_in_again_or_out_leaves_no_row_behind(maya: AdminUser) -> None:
    client = sign_in("198.51.100.1")
    sign_in("198.51.100.1", client=client)
    assert LoginSession.objects.count() == 1
    answer = client.post("/admin/logout/")
    assert not LoginSession.objects.exists()
    # Nor a page behind the back button.
    assert answer.headers["Clear-Site-Data"] == '"cache"'
    page = answer.content.decode()
    assert "You are logged out" in page and "Search accounts" not in page


def test_a_session_lasts_twelve_hours_whatever_is_stored_in_it(maya: AdminUser) -> None:
    client = sign_in("198.51.100.1")
    session = client.session
    session[sessions.SIGNED_IN_AT] -= 12 * 3600 + 1
    session.save()
    assert not is_in(client)
    assert not LoginSession.objects.exists()


def test_a_clock_that_was_ahead_makes_no_session_last_longer(maya: AdminUser) -> None:
    client = sign_in("198.51.100.1")
    session = client.session
    session[sessions.SIGNED_IN_AT] += 3600
    session.save()
    assert not is_in(client)
    # The next sign-in is as good as any.
    assert is_in(sign_in("198.51.100.1", client=client))


def test_a_session_of_an_older_release_is_ended_with_the_others(maya: AdminUser) -> None:
    client = sign_in("198.51.100.1")
    LoginSession.objects.all().delete()
    assert sessions.end_all(maya) == 1 and not is_in(client)


def test_an_idle_session_ends_if_set(maya: AdminUser, settings: Settings) -> None:
    settings.SESSION_IDLE_MINUTES = 60
    client = sign_in("198.51.100.1")
    for minutes, is_still_in in ((59, True), (61, False)):
        # Another process, or the same one minutes later.
        sessions._write_times.clear()
        LoginSession.objects.update(last_used_at=timezone.now() - timedelta(minutes=minutes))
        assert is_in(client) is is_still_in


def test_the_last_use_is_written_down_at_most_every_five_minutes(maya: AdminUser) -> None:
    client = sign_in("198.51.100.1")
    sessions._write_times.clear()
    before = timezone.now() - timedelta(minutes=6)
    LoginSession.objects.update(last_used_at=before)
    client.get("/admin/preferences/", REMOTE_ADDR="198.51.100.9")
    row = LoginSession.objects.get()
    assert row.last_used_at > before and row.address == "198.51.100.9"
    LoginSession.objects.update(last_used_at=before)
    client.get("/admin/preferences/")
    assert LoginSession.objects.get().last_used_at == before


def test_old_rows_are_deleted_by_the_maintenance(maya: AdminUser) -> None:
    sign_in("198.51.100.1")
    maintain(timezone.now() + timedelta(hours=11))
    assert LoginSession.objects.count() == 1
    maintain(timezone.now() + timedelta(hours=13))
    assert not LoginSession.objects.exists()
