"""/healthz, /readyz, and /metrics."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone

from config.database.keepalive import BEAT_COUNTER
from config.operations import health
from core import telemetry
from core.models import Job, OperationCounter
from core.version import VERSION
from engagement.models import Product
from engagement.prometheus import RESCORE
from ingestion import tasks
from ingestion.inbox import group_commit
from ingestion.prometheus import ACCEPT_COUNTER, DRAIN_COUNTER
from tests.database import CITUS
from tests.engagement.history import identify, track

SECRET = "metrics-token"


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def monitor(settings: Any) -> Client:
    settings.METRICS_TOKEN = SECRET
    return Client(headers={"authorization": f"Bearer {SECRET}"})


@pytest.fixture
def missing_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that cannot be reached."""

    def refuse() -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(connection, "ensure_connection", refuse)


@pytest.fixture
def unchecked_migrations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_migrated", set())


def add_drain(ago: timedelta = timedelta()) -> None:
    telemetry.add_run(DRAIN_COUNTER, 0, 0.0, timezone.now() - ago)


def test_healthz_needs_no_database(client: Client) -> None:
    # The database fixture is missing on purpose: a query would fail this test.
    response = client.get("/healthz")
    assert (response.status_code, response.content) == (200, b"ok\n")


@pytest.mark.django_db
def test_readyz_checks_the_database_its_tables_and_the_roles(
    client: Client, unchecked_migrations: None
) -> None:
    add_drain()
    response = client.get("/readyz")
    assert response.status_code == 200
    names = ("database", "migrations", "drain", "scoring", "beat", *(["nodes"] if CITUS else []))
    checks = dict.fromkeys(names, "ok")
    assert response.json() == {"ready": True, "version": VERSION, "checks": checks}


@pytest.mark.django_db
@pytest.mark.parametrize("ago", [None, timedelta(seconds=61)])
def test_without_a_recent_drain_it_is_not_ready(client: Client, ago: timedelta | None) -> None:
    if ago is not None:
        add_drain(ago)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert "Check that a worker and beat are running." in response.json()["checks"]["drain"]


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
def test_without_a_recent_heartbeat_it_is_not_ready(
    client: Client, name: str, ago: timedelta, check: str, advice: str
) -> None:
    add_drain()
    telemetry.add_run(name, 0, 0.0, timezone.now())
    assert client.get("/readyz").status_code == 200
    OperationCounter.objects.filter(name=name).update(last_at=timezone.now() - ago)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert advice in response.json()["checks"][check]


@pytest.mark.django_db
@pytest.mark.parametrize("name", [DRAIN_COUNTER, BEAT_COUNTER, RESCORE])
def test_a_heartbeat_from_a_clock_that_was_ahead_is_ignored(client: Client, name: str) -> None:
    add_drain()
    telemetry.add_run(name, 0, 0.0, timezone.now() + timedelta(days=40))
    assert client.get("/readyz").status_code == 503
    # The next one is from a clock that is right again.
    telemetry.add_run(name, 0, 0.0, timezone.now())
    assert client.get("/readyz").status_code == 200


@pytest.mark.django_db
def test_missing_migrations_are_reported(client: Client, unchecked_migrations: None) -> None:
    add_drain()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'readapi'")
    response = client.get("/readyz")
    assert response.status_code == 503
    assert "python manage.py migrate" in response.json()["checks"]["migrations"]


def test_a_missing_database_is_reported(client: Client, missing_database: None) -> None:
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["checks"] == {"database": "The database cannot be reached."}


def test_healthz_responses_any_host_without_a_cookie(client: Client, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["eds.example.com"]
    settings.SECURE_SSL_REDIRECT = True
    response = client.get("/healthz", headers={"host": "10.0.0.7:8000"})
    assert (response.status_code, dict(response.cookies)) == (200, {})


@pytest.mark.parametrize("address", ["/healthz", "/readyz", "/metrics"])
def test_the_endpoints_are_read_only(client: Client, address: str) -> None:
    assert client.post(address).status_code == 405


# --- Metrics ------------------------------------------------------------------------------


def test_metrics_are_off_by_default(client: Client) -> None:
    response = client.get("/metrics")
    assert response.status_code == 404
    assert b"EDS_METRICS_TOKEN" in response.content


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer wrong", SECRET, "Bearer ü"])
def test_metrics_need_the_token(authorization: str, settings: Any) -> None:
    settings.METRICS_TOKEN = SECRET
    response = Client().get("/metrics", headers={"authorization": authorization})
    assert response.status_code == 401
    assert SECRET.encode() not in response.content


def read(monitor: Client) -> dict[str, float]:
    text = monitor.get("/metrics").content.decode()
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


@pytest.mark.django_db
def test_a_new_service_has_every_metric_at_zero(monitor: Client) -> None:
    metrics = read(monitor)
    # What is there without any work.
    present = ("eds_build_info", "eds_database_connections")
    assert {metrics.pop(name) for name in list(metrics) if name.startswith(present)} > {0.0, 1.0}
    assert set(metrics.values()) == {0.0}
    assert {re.sub(r"\{.*", "", name) for name in metrics} == {
        "eds_messages_accepted_total",
        "eds_messages_processed_total",
        "eds_messages_settled_total",
        "eds_messages_dropped_total",
        "eds_messages_quarantined",
        "eds_inbox_messages",
        "eds_inbox_oldest_seconds",
        "eds_drain_seconds_count",
        "eds_drain_seconds_sum",
        "eds_rescore_seconds_count",
        "eds_rescore_seconds_sum",
        "eds_rescore_requests",
        "eds_stale_marks",
        "eds_score_sets_building",
        "eds_license_sync_seconds_count",
        "eds_license_sync_seconds_sum",
        "eds_license_connections",
        "eds_notification_sweep_seconds_count",
        "eds_notification_sweep_seconds_sum",
        "eds_notification_delivery_seconds_count",
        "eds_notification_delivery_seconds_sum",
        "eds_notifications_waiting",
        "eds_notifications_oldest_seconds",
        "eds_notification_attempts_total",
        "eds_notification_destinations",
        "eds_export_seconds_count",
        "eds_export_seconds_sum",
        "eds_exports_failing",
        "eds_replica_unreachable",
        "eds_cluster_nodes_missing",
        "eds_database_pool_requests_total",
        "eds_database_pool_waits_total",
        "eds_database_pool_wait_seconds_total",
        "eds_database_pool_failures_total",
    }


@pytest.fixture
def clean_counters(transactional_db: None) -> Iterator[None]:
    """Remove the counters of other tests, and end the inbox's thread."""
    group_commit.stop()
    OperationCounter.objects.all().delete()
    yield
    group_commit.stop()


def test_metrics_follow_a_message_from_the_inbox_to_its_end(
    clean_counters: None, monitor: Client, acme: Product, acme_key: str
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
    assert after["eds_messages_processed_total"] == after["eds_messages_settled_total"] == 3
    assert after['eds_messages_dropped_total{reason="unknown_key"}'] == 1
    assert after["eds_drain_seconds_count"] == 1
    assert after["eds_drain_seconds_sum"] > 0
    assert after["eds_rescore_requests"] == after["eds_stale_marks"] > 0


@pytest.mark.django_db
def test_metrics_say_which_jobs_fail_or_rest(monitor: Client) -> None:
    Job.objects.create(kind="deletes", key="1", failures=4)
    Job.objects.create(kind="deletes", key="2", is_paused=True)
    metrics = read(monitor)
    assert metrics['eds_jobs{kind="deletes"}'] == 2
    assert metrics['eds_jobs_paused{kind="deletes"}'] == 1
    assert metrics['eds_job_failures{kind="deletes"}'] == 4


@pytest.mark.django_db
def test_operation_counters_add_up() -> None:
    now = timezone.now()
    telemetry.add_run(ACCEPT_COUNTER, 5, 0.5, now)
    telemetry.add_run(ACCEPT_COUNTER, 7, 0.25, now - timedelta(seconds=9))
    counter = OperationCounter.objects.get(name=ACCEPT_COUNTER)
    assert (counter.runs, counter.units, counter.seconds, counter.last_at) == (2, 12, 0.75, now)


@pytest.mark.django_db
def test_failed_operations_are_not_counted() -> None:
    with pytest.raises(ValueError), telemetry.track_operation(DRAIN_COUNTER, timezone.now):
        raise ValueError
    assert not OperationCounter.objects.exists()
