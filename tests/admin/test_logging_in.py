"""Logging in: guesses are throttled, and other people's guesses lock nobody out."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client, RequestFactory
from django.urls import reverse
from pytest_django import Settings

from access.admin.login import format_wait
from access.logins import throttle
from access.logins.security_log import client_address
from access.logins.throttle import SignInAttempt
from access.models import LoginAttempts
from engagement.removal.maintenance import maintain

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
WAIT = re.compile(r"Too many failed attempts to log in\. Try again in \d+ seconds?\.")
HOME, ELSEWHERE = "198.51.100.7", "203.0.113.9"


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def fail(times: int, name: str = "maya", address: str = HOME, at: datetime = NOON) -> None:
    for _ in range(times):
        assert not throttle.register_attempt(SignInAttempt(name, address), at)


def wait(name: str = "maya", address: str = HOME, at: datetime = NOON) -> float:
    return throttle.register_attempt(SignInAttempt(name, address), at).total_seconds()


# --- The rules ----------------------------------------------------------------------------------


def test_some_failures_are_free_and_each_further_one_costs_more() -> None:
    fail(5)
    assert wait() == 30
    after = NOON + seconds(30)
    fail(1, at=after)
    assert wait(at=after) == 60
    after += seconds(60)
    fail(1, at=after)
    assert wait(at=after + seconds(20)) == 100


def test_no_wait_is_longer_than_five_minutes() -> None:
    now = NOON
    for _ in range(40):
        now += timedelta(minutes=5)
        fail(1, at=now)
    assert wait(at=now) == 300


def test_attempts_during_a_wait_do_not_prolong_it() -> None:
    fail(5)
    for second in range(29):
        assert wait(at=NOON + seconds(second)) == 30 - second
    fail(1, at=NOON + seconds(30))


def test_failures_are_forgotten_after_a_quarter_of_an_hour() -> None:
    fail(5)
    fail(5, at=NOON + timedelta(minutes=15))


def test_a_success_makes_up_for_earlier_failures() -> None:
    fail(5)
    throttle.register_success(SignInAttempt("maya", HOME), NOON)
    fail(5)


@pytest.mark.parametrize("name", ["Maya", " maya ", "MAYA"])
def test_another_spelling_is_the_same_name(name: str) -> None:
    fail(5)
    assert wait(name=name) == 30


def test_one_names_failures_are_not_anothers() -> None:
    fail(5)
    fail(1, name="ray")
    fail(1, address=ELSEWHERE)


def test_many_names_from_one_address_wait_for_each_other() -> None:
    for number in range(50):
        fail(1, name=f"guess {number}")
    assert wait(name="one more") == 15
    fail(1, name="one more", address=ELSEWHERE)


def test_one_name_from_many_addresses_waits_half_a_minute_at_most() -> None:
    for number in range(30):
        fail(1, address=f"10.0.0.{number}")
    assert wait(address="10.0.1.1") == 15
    now = NOON
    for number in range(20):
        now += seconds(30)
        fail(1, address=f"10.0.2.{number}", at=now)
    assert wait(address="10.0.3.1", at=now) == 30


def test_a_login_from_a_known_address_is_not_kept_out_by_others() -> None:
    fail(1)
    throttle.register_success(SignInAttempt("maya", HOME), NOON - timedelta(days=30))
    for number in range(30):
        fail(1, address=f"10.0.0.{number}")
    for number in range(60):
        if wait(name=f"guess {number}"):
            break
    assert wait(address=ELSEWHERE) > 0
    fail(5)
    # Their own failures still count.
    assert wait() == 30


def test_an_address_is_no_longer_known_after_ninety_days() -> None:
    fail(1, at=NOON - timedelta(days=91))
    throttle.register_success(SignInAttempt("maya", HOME), NOON - timedelta(days=91))
    for number in range(30):
        fail(1, address=f"10.0.0.{number}")
    assert wait() == 15


def test_an_ipv6_customer_has_one_place_however_many_addresses() -> None:
    fail(5, address="2001:db8:1:2::1")
    assert wait(address="2001:db8:1:2:ffff::9") == 30
    fail(1, address="2001:db8:1:3::1")


def test_neither_names_nor_addresses_are_stored() -> None:
    # People type their password into the name field.
    fail(1, name="correct horse battery staple")
    with connection.cursor() as cursor:
        cursor.execute("SELECT string_agg(a::text, ' ') FROM engagement_loginattempts a")
        (row,) = cursor.fetchone()
    assert "horse" not in row and HOME not in row


def test_a_flood_of_names_leaves_a_bounded_number_of_rows() -> None:
    for number in range(50):
        fail(1, name=f"guess {number}")
    row_count = LoginAttempts.objects.count()
    for number in range(200):
        assert wait(name=f"another {number}") == 15
    assert LoginAttempts.objects.count() == row_count


def test_what_counts_no_more_and_sessions_that_expired_are_deleted_by_the_maintenance() -> None:
    fail(1, name="guess")
    fail(1)
    throttle.register_success(SignInAttempt("maya", HOME), NOON)
    later = NOON + timedelta(minutes=16)
    for name, expires in (("old", NOON), ("live", later + timedelta(hours=1))):
        Session.objects.create(session_key=name, session_data="", expire_date=expires)
    maintain(later)
    assert [row.succeeded_at for row in LoginAttempts.objects.all()] == [NOON]
    assert [session.session_key for session in Session.objects.all()] == ["live"]


# --- The form -----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def quickly_checked(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def maya() -> AdminUser:
    return AdminUser.objects.create_user("maya", password="quite a secret", is_staff=True)


def log_in(password: str, name: str = "maya", **headers: Any) -> Any:
    data = {"username": name, "password": password}
    return Client().post(reverse("admin:login") + "?next=/admin/", data, **headers)


def test_the_right_password_logs_in(maya: AdminUser) -> None:
    for _ in range(4):
        assert log_in("wrong").status_code == 200
    assert log_in("quite a secret").status_code == 302


def test_after_some_failures_even_the_right_password_waits(maya: AdminUser) -> None:
    for _ in range(5):
        page = log_in("wrong").content.decode()
        assert "enter the correct username and password" in page
    for password in ("wrong", "quite a secret"):
        assert WAIT.search(log_in(password).content.decode())
    assert log_in("wrong", name="ray").status_code == 200


def test_unknown_names_get_the_same_message(maya: AdminUser) -> None:
    for _ in range(5):
        log_in("wrong", name="nobody")
    assert WAIT.search(log_in("wrong", name="nobody").content.decode())


def test_a_user_who_is_not_staff_counts_as_a_failure() -> None:
    AdminUser.objects.create_user("norm", password="quite a secret")
    for _ in range(5):
        log_in("quite a secret", name="norm")
    assert WAIT.search(log_in("quite a secret", name="norm").content.decode())


def test_an_empty_form_counts_as_nothing() -> None:
    log_in("")
    assert not LoginAttempts.objects.exists()


@pytest.mark.parametrize(
    ("key", "headers", "address"),
    [
        ("REMOTE_ADDR", {"REMOTE_ADDR": HOME}, HOME),
        # Without a proxy, anyone can send this header.
        ("REMOTE_ADDR", {"REMOTE_ADDR": HOME, "HTTP_X_FORWARDED_FOR": ELSEWHERE}, HOME),
        ("HTTP_X_FORWARDED_FOR", {"HTTP_X_FORWARDED_FOR": f"made up, {HOME}"}, HOME),
        ("HTTP_X_FORWARDED_FOR", {}, ""),
    ],
)
def test_an_address_is_taken_from_whom_we_trust(
    settings: Settings, key: str, headers: dict[str, Any], address: str
) -> None:
    settings.CLIENT_ADDRESS_KEY = key
    assert client_address(RequestFactory().get("/", **headers)) == address


@pytest.mark.parametrize(
    ("wait", "words"),
    [
        (seconds(0.2), "1 second"),
        (seconds(29.5), "30 seconds"),
        (seconds(60), "1 minute"),
        (seconds(61), "2 minutes"),
        (timedelta(minutes=5), "5 minutes"),
    ],
)
def test_a_wait_is_shown_in_words(wait: timedelta, words: str) -> None:
    assert format_wait(wait) == words
