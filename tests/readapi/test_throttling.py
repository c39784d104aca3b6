"""The rate limit of a token, across processes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from engagement.models import Product
from readapi import throttling
from readapi.models import ApiToken, Usage
from tests.readapi.conftest import Reads, reader

START = datetime(2026, 6, 1, 12, 0, 20, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        return self.time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(throttling, "timezone", clock)
    return clock


@pytest.fixture(autouse=True)
def three_a_minute(settings: Any) -> None:
    settings.READ_REQUESTS_PER_MINUTE = 3


def statuses(reads: Reads, number: int) -> list[int]:
    return [reads("/v2/workspaces").status_code for _ in range(number)]


def test_one_request_too_many_returns_429(acme_reads: Reads, clock: Clock) -> None:
    assert statuses(acme_reads, 3) == [200, 200, 200]
    response = acme_reads("/v2/workspaces")
    assert response.status_code == 429
    assert response.headers["Retry-After"] == "40"
    assert response.json()["error"] == {
        "code": "rate_limited",
        "message": "The limit is 3 requests a minute. Wait as many seconds as Retry-After says.",
    }


def test_the_count_restarts_every_minute(acme_reads: Reads, clock: Clock) -> None:
    assert statuses(acme_reads, 4)[-1] == 429
    clock.time += timedelta(seconds=39.9)
    response = acme_reads("/v2/workspaces")
    assert (response.status_code, response.headers["Retry-After"]) == (429, "1")
    clock.time = START + timedelta(seconds=40)
    assert statuses(acme_reads, 4) == [200, 200, 200, 429]


def test_each_token_has_its_own_count(
    acme_reads: Reads, globex_reads: Reads, acme: Product, clock: Clock
) -> None:
    assert statuses(acme_reads, 4)[-1] == 429
    assert statuses(globex_reads, 1) == [200]
    assert statuses(reader(ApiToken.create(acme, "second").secret), 1) == [200]


def test_bad_requests_count_but_unknown_tokens_do_not(acme_reads: Reads, clock: Clock) -> None:
    for _ in range(3):
        assert acme_reads("/v2/accounts").status_code == 400
    assert acme_reads("/v2/accounts").status_code == 429
    assert reader("eds_unknown")("/v2/workspaces").status_code == 401
    assert Usage.objects.count() == 1


def test_zero_is_no_limit(acme_reads: Reads, settings: Any, clock: Clock) -> None:
    settings.READ_REQUESTS_PER_MINUTE = 0
    assert set(statuses(acme_reads, 10)) == {200}
    assert not Usage.objects.exists()


def test_the_count_is_in_an_unlogged_table(acme: Product) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT relpersistence FROM pg_class WHERE relname = 'readapi_usage'")
        assert cursor.fetchone() == ("u",)
