"""Only live tokens can read."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from core import credentials
from engagement.models import Product
from ingestion.models import IngestionKey
from readapi.authentication import record_use
from readapi.models import ApiToken
from tests.cases import each
from tests.readapi.conftest import Reads

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOME = "198.51.100.7"


def status_with(header: str | None) -> int:
    headers = {} if header is None else {"authorization": header}
    return Client().get("/v2/workspaces", headers=headers).status_code


def test_a_live_token_reads(acme_token: str) -> None:
    assert status_with(f"Bearer {acme_token}") == 200


def test_the_scheme_is_case_insensitive(acme_token: str) -> None:
    assert status_with(f"bearer  {acme_token} ") == 200


@pytest.mark.django_db
@each(
    "header",
    [
        None, "", "Bearer", "Bearer ", "Basic eds_abc", "eds_abc", "Bearer eds_abc",
        "Bearer eds_" + "0" * 33, "Bearer eds_\xe9\xe9", "Bearer \x00", "Bearer a b c",
        "Bearer " + "x" * 10_000,
    ],
)  # fmt: skip
def test_anything_else_returns_401(header: str | None) -> None:
    headers = {} if header is None else {"authorization": header}
    response = Client().get("/v2/workspaces", headers=headers)
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert response.json()["error"]["code"] == "invalid_token"


@pytest.mark.django_db
def test_an_unknown_token_returns_401() -> None:
    assert status_with(f"Bearer {credentials.generate('eds')}") == 401


def test_an_ingestion_key_cannot_read(acme: Product) -> None:
    assert status_with(f"Bearer {IngestionKey.create(acme, 'test').secret}") == 401


def test_a_revoked_token_returns_401(acme_token: str) -> None:
    ApiToken.objects.update(revoked_at=NOON)
    assert status_with(f"Bearer {acme_token}") == 401


def test_several_tokens_of_a_product_are_live_at_once(acme: Product, acme_token: str) -> None:
    second = ApiToken.create(acme, "second").secret
    assert status_with(f"Bearer {acme_token}") == status_with(f"Bearer {second}") == 200


@pytest.mark.django_db
def test_a_malformed_token_costs_no_query(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        status_with("Bearer eds_mistyped")


def test_use_is_recorded_once_a_minute(acme: Product, django_assert_num_queries: Any) -> None:
    token = ApiToken.create(acme, "test")

    def last_used_at() -> datetime | None:
        token.refresh_from_db()
        return token.last_used_at

    record_use(token, HOME, NOON)
    assert last_used_at() == NOON
    with django_assert_num_queries(0):
        record_use(token, HOME, NOON + timedelta(seconds=59))
    assert last_used_at() == NOON
    record_use(token, HOME, NOON + timedelta(seconds=61))
    assert last_used_at() == NOON + timedelta(seconds=61)


def test_one_of_two_concurrent_requests_records_the_use(acme: Product) -> None:
    first = ApiToken.create(acme, "test")
    second = ApiToken.objects.get()
    record_use(first, HOME, NOON)
    record_use(second, HOME, NOON + timedelta(seconds=1))
    assert ApiToken.objects.get().last_used_at == NOON


def test_a_request_records_the_use(acme_reads: Reads) -> None:
    acme_reads("/v2/workspaces")
    token = ApiToken.objects.get()
    assert token.last_used_at is not None and token.last_used_from == "127.0.0.1"
    assert timezone.now() - token.last_used_at < timedelta(minutes=1)


def test_no_token_reaches_the_log(acme_token: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    mistyped = acme_token[:-1] + ("a" if acme_token[-1] != "a" else "b")
    status_with(f"Bearer {acme_token}")
    status_with(f"Bearer {mistyped}")
    logged = "\n".join(
        record.getMessage() for record in caplog.records if record.name != "django.db.backends"
    )
    assert acme_token not in logged and mistyped not in logged
