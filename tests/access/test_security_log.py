"""The log names who signs in and out and who is refused, and contains no secret."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from access.logins import security_log
from access.logins.security_log import MAX_LINES_PER_MINUTE, LogRateLimiter
from config.logging.logs import JsonFormatter
from core import credentials
from engagement.models import Product
from readapi.models import ApiToken

pytestmark = pytest.mark.django_db

HOME = "198.51.100.7"
SECRET = "correct horse battery staple"


@pytest.fixture(autouse=True)
def quickly_checked(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    # Other tests may have written this minute's lines.
    monkeypatch.setattr(security_log, "_throttled", LogRateLimiter())
    monkeypatch.setattr(security_log, "_rejected", LogRateLimiter())
    monkeypatch.setattr(security_log, "_refused_pages", LogRateLimiter())


@pytest.fixture
def maya() -> AdminUser:
    return AdminUser.objects.create_user("maya", password=SECRET, is_staff=True)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator["Logged"]:
    with caplog.at_level(logging.INFO, security_log.__name__):
        yield Logged(caplog)


class Logged:
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    @property
    def text(self) -> str:
        return self._caplog.text

    def fields(self) -> list[dict[str, Any]]:
        """The lines in JSON, without the fields that every line has."""
        lines = [
            json.loads(JsonFormatter().format(record))
            for record in self._caplog.records
            if record.name == security_log.__name__
        ]
        for line in lines:
            for name in ("time", "level", "logger", "message"):
                del line[name]
        return lines


def log_in(client: Client, password: str, name: str = "maya", **headers: str) -> None:
    data = {"username": name, "password": password}
    client.post(reverse("admin:login"), data, REMOTE_ADDR=HOME, headers=headers)


def test_signing_in_and_out_is_logged(client: Client, maya: AdminUser, logged: Logged) -> None:
    log_in(client, SECRET, **{"x-request-id": "r-1"})
    client.post(reverse("admin:logout"), REMOTE_ADDR=HOME)
    assert logged.fields() == [
        {"event": "sign_in", "address": HOME, "login": "maya", "request_id": "r-1"},
        {"event": "sign_out", "address": HOME, "login": "maya"},
    ]
    assert f"Signed in: address {HOME}, login maya." in logged.text
    assert SECRET not in logged.text


def test_a_failed_sign_in_names_a_login_that_exists_and_no_other(
    client: Client, maya: AdminUser, logged: Logged
) -> None:
    log_in(client, "wrong horse")
    log_in(client, "wrong horse", name=SECRET)
    assert logged.fields() == [
        {"event": "sign_in_failed", "address": HOME, "login": "maya"},
        {"event": "sign_in_failed", "address": HOME},
    ]
    assert "horse" not in logged.text


def test_a_page_that_a_login_may_not_open_is_logged_once_a_minute(
    client: Client, maya: AdminUser, logged: Logged
) -> None:
    client.force_login(maya)
    page = reverse("admin:engagement_trailentry_changelist")
    for _ in range(3):
        assert client.get(page, {"q": "secret"}, REMOTE_ADDR=HOME).status_code == 403
    refused = {"event": "page_refused", "address": HOME, "login": "maya", "page": page}
    assert [line for line in logged.fields() if line["event"] == "page_refused"] == [refused]


def test_a_throttled_sign_in_is_logged_once_a_minute(
    client: Client, maya: AdminUser, logged: Logged
) -> None:
    for _ in range(9):
        log_in(client, "wrong horse")
    events = [line["event"] for line in logged.fields()]
    assert events == ["sign_in_failed"] * 5 + ["sign_in_slowed"]


def test_a_forged_address_adds_nothing_to_the_log(
    client: Client, maya: AdminUser, logged: Logged, settings: Settings
) -> None:
    settings.CLIENT_ADDRESS_KEY = "HTTP_X_FORWARDED_FOR"
    log_in(client, SECRET, **{"x-forwarded-for": f"\x1b[31m<{SECRET}>" + "1" * 1000})
    (line,) = logged.fields()
    assert set(line["address"]) <= set("0123456789abcdefABCDEF.:[]")
    assert len(line["address"]) <= 64


def refused(client: Client, token: str) -> None:
    answer = client.get(
        "/v2/workspaces", headers={"authorization": f"Bearer {token}"}, REMOTE_ADDR=HOME
    )
    assert answer.status_code == 401


def test_a_refused_token_is_logged_once_a_minute_without_the_token(
    client: Client, acme: Product, logged: Logged
) -> None:
    token = ApiToken.create(acme, "test")
    secret = token.secret
    ApiToken.objects.filter(pk=token.pk).update(revoked_at=timezone.now())
    for _ in range(3):
        refused(client, secret)
    for _ in range(3):
        refused(client, SECRET)
    stranger = credentials.generate("eds")
    refused(client, stranger)
    assert logged.fields() == [
        {
            "event": "token_refused",
            "address": HOME,
            "reason": "unknown or revoked",
            "token_id": token.pk,
        },
        {
            "event": "token_refused",
            "address": HOME,
            "reason": "not a read token",
            "left_out": 2,
        },
        {
            "event": "token_refused",
            "address": HOME,
            "reason": "unknown or revoked",
            "left_out": 2,
        },
    ]
    for token_text in (secret, SECRET, stranger):
        assert token_text not in logged.text


def test_a_flood_of_tokens_writes_a_bounded_number_of_lines(
    client: Client, acme: Product, logged: Logged
) -> None:
    for _ in range(MAX_LINES_PER_MINUTE + 10):
        refused(client, credentials.generate("eds"))
    assert len(logged.fields()) == MAX_LINES_PER_MINUTE


def test_skipped_lines_are_counted_in_the_next_minute() -> None:
    now = 1000.0
    lines = LogRateLimiter(lambda: now)
    skipped = [lines.register_line(f"subject {n}") for n in range(MAX_LINES_PER_MINUTE + 7)]
    assert skipped == [0] * MAX_LINES_PER_MINUTE + [None] * 7
    now += 60
    assert lines.register_line("subject 1") == 7
    assert lines.register_line("subject 2") == 0
