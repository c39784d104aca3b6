"""What monitors and load balancers are told."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone

from config import health
from config.keepalive import BEAT_COUNTER
from engagement import telemetry
from engagement.models import OperationCounter, Product
from engagement.prometheus import RESCORE
from ingestion import tasks
from ingestion.inbox import group_commit
from ingestion.prometheus import ACCEPT_COUNTER, DRAIN_COUNTER
from tests.engagement.history import identify, track

SECRET = "let-the-monitor-in"


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def monitor(settings: Any) -> Client:
    settings.METRICS_TOKEN = SECRET
    return Client(headers={"authorization": f"Bearer {SECRET}"})


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that cannot be reached."""

    def refuse() -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(connection, "ensure_connection", refuse)


@pytest.fixture
def not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_migrated", set())


def drained(ago: timedelta = timedelta()) -> None:
    telemetry.add_run(DRAIN_COUNTER, 0, 0.0, timezone.now() - ago)


def test_alive_needs_no_database(client: Client) -> None:
    # The database fixture is missing on purpose: a query would fail this test.
    answer = client.get("/healthz")
    assert (answer.status_code, answer.content) == (200, b"ok\n")


@pytest.mark.django_db
def test_ready_is_a_database_with_its_tables_and_a_drain(
    client: Client, not_looked_at: None
) -> None:
    drained()
    answer = client.get("/readyz")
    assert answer.status_code == 200
    names = ("database", "migrations", "drain", "scoring", "beat")
    assert answer.json() == {"ready": True, "checks": dict.fromkeys(names, "ok")}


@pytest.mark.django_db
@pytest.mark.parametrize("ago", [None, timedelta(seconds=61)])
def test_without_a_recent_drain_it_is_not_ready(client: Client, ago: timedelta | None) -> None:
    if ago is not None:
        drained(ago)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "Check that a worker and beat are running." in answer.json()["checks"]["drain"]


SILENT = [
    (
        BEAT_COUNTER,
        timedelta(seconds=301),
        "beat",
        "Check that beat is running and reaches the broker.",
    ),
    (RESCORE, timedelta(minutes=11), "scoring", "Check that a worker of the queue scoring"),
]


@pytest.mark.django_db
@pytest.mark.parametrize(("name", "ago", "check", "advice"), SILENT)
def test_without_a_sign_of_life_of_beat_or_of_scoring_it_is_not_ready(
    client: Client, name: str, ago: timedelta, check: str, advice: str
) -> None:
    drained()
    telemetry.add_run(name, 0, 0.0, timezone.now())
    assert client.get("/readyz").status_code == 200
    OperationCounter.objects.filter(name=name).update(last_at=timezone.now() - ago)
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert advice in answer.json()["checks"][check]


@pytest.mark.django_db
@pytest.mark.parametrize("name", [DRAIN_COUNTER, BEAT_COUNTER, RESCORE])
def test_a_sign_of_life_from_a_clock_that_was_ahead_says_nothing(client: Client, name: str) -> None:
    drained()
    telemetry.add_run(name, 0, 0.0, timezone.now() + timedelta(days=40))
    assert client.get("/readyz").status_code == 503
    # The next one is from a clock that is right again.
    telemetry.add_run(name, 0, 0.0, timezone.now())
    assert client.get("/readyz").status_code == 200


@pytest.mark.django_db
def test_missing_migrations_are_named(client: Client, not_looked_at: None) -> None:
    drained()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'readapi'")
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "python manage.py migrate" in answer.json()["checks"]["migrations"]


def test_a_database_that_is_away_is_named(client: Client, away: None) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"] == {"database": "The database cannot be reached."}


def test_health_is_told_to_any_host_and_without_a_cookie(client: Client, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["eds.example.com"]
    settings.SECURE_SSL_REDIRECT = True
    answer = client.get("/healthz", headers={"host": "10.0.0.7:8000"})
    assert (answer.status_code, dict(answer.cookies)) == (200, {})


@pytest.mark.parametrize("address", ["/healthz", "/readyz", "/metrics"])
def test_they_are_only_read(client: Client, address: str) -> None:
    assert client.post(address).status_code == 405


# --- Metrics ------------------------------------------------------------------------------


def test_metrics_are_off_unless_asked_for(client: Client) -> None:
    answer = client.get("/metrics")
    assert answer.status_code == 404
    assert b"EDS_METRICS_TOKEN" in answer.content


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", SECRET, "Bearer ü"])
def test_metrics_need_the_token(given: str, settings: Any) -> None:
    settings.METRICS_TOKEN = SECRET
    answer = Client().get("/metrics", headers={"authorization": given})
    assert answer.status_code == 401
    assert SECRET.encode() not in answer.content


def read(monitor: Client) -> dict[str, float]:
    text = monitor.get("/metrics").content.decode()
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


@pytest.mark.django_db
def test_a_new_service_has_every_metric_at_zero(monitor: Client) -> None:
    found = read(monitor)
    assert set(found.values()) == {0.0}
    assert {re.sub(r"\{.*", "", name) for name in found} == {
        "eds_messages_accepted_total",
        "eds_messages_settled_total",
        "eds_messages_dropped_total",
        "eds_messages_quarantined",
        "eds_inbox_messages",
        "eds_inbox_oldest_seconds",
        "eds_drain_seconds_count",
        "eds_drain_seconds_sum",
        "eds_rescore_seconds_count",
        "eds_rescore_seconds_sum",
        "eds_stale_marks",
        "eds_score_sets_building",
        "eds_license_sync_seconds_count",
        "eds_license_sync_seconds_sum",
        "eds_license_connections",
    }


@pytest.fixture
def tallied(transactional_db: None) -> Iterator[None]:
    """Leaves what other tests had accepted out of the count, and ends the inbox's thread."""
    group_commit.stop()
    OperationCounter.objects.all().delete()
    yield
    group_commit.stop()


def test_what_is_accepted_waits_and_is_settled(
    tallied: None, monitor: Client, acme: Product, acme_key: str
) -> None:
    now = timezone.now()
    group_commit.accept([identify("ann"), track("ann")], acme_key, now - timedelta(seconds=30))
    group_commit.accept([track("ann")], "nobody's key", now)
    group_commit.stop()
    before = read(monitor)
    assert before["eds_messages_accepted_total"] == 3
    assert before["eds_inbox_messages"] == 3
    assert 30 <= before["eds_inbox_oldest_seconds"] < 90

    tasks.drain()
    after = read(monitor)
    assert after["eds_inbox_messages"] == after["eds_inbox_oldest_seconds"] == 0
    assert after["eds_messages_settled_total"] == 3
    assert after['eds_messages_dropped_total{reason="unknown_key"}'] == 1
    assert after["eds_drain_seconds_count"] == 1
    assert after["eds_drain_seconds_sum"] > 0
    assert after["eds_stale_marks"] > 0


@pytest.mark.django_db
def test_measures_add_up() -> None:
    now = timezone.now()
    telemetry.add_run(ACCEPT_COUNTER, 5, 0.5, now)
    telemetry.add_run(ACCEPT_COUNTER, 7, 0.25, now - timedelta(seconds=9))
    measure = OperationCounter.objects.get(name=ACCEPT_COUNTER)
    assert (measure.runs, measure.units, measure.seconds, measure.last_at) == (2, 12, 0.75, now)


@pytest.mark.django_db
def test_work_that_fails_is_not_measured() -> None:
    with pytest.raises(ValueError), telemetry.track_operation(DRAIN_COUNTER, timezone.now):
        raise ValueError
    assert not OperationCounter.objects.exists()
