"""Operational metrics of the license connections."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time

from django.db.models import Count, F, Q
from prometheus_client.core import GaugeMetricFamily, Metric, SummaryMetricFamily

from core import telemetry
from marketplace.models import Connection
from marketplace.runs.timetable import load_timetable
from marketplace.status.health import connection_health, expiry_notice, load_last_runs

# The name of an operation counter.
SYNC_COUNTER = "license sync"
# Connections with metrics of their own: those without a success for the longest time.
MAX_CONNECTIONS = 100
# How active connections are counted whose last sync failed.
FAILING = "failing"

State = Connection.State


def collect_metrics(now: datetime) -> Iterator[Metric]:
    counter = telemetry.get_counters(SYNC_COUNTER).get(SYNC_COUNTER)
    yield SummaryMetricFamily(
        "eds_license_sync_seconds",
        "Time spent on license syncs, waiting for the marketplace included",
        count_value=counter.runs if counter else 0,
        sum_value=counter.seconds if counter else 0.0,
    )
    yield _connections_by_state()
    live = Connection.objects.exclude(state=State.DISCONNECTED)
    oldest = live.order_by(F("last_success_at").asc(nulls_first=True), "pk")
    connections = list(oldest.select_related("product")[:MAX_CONNECTIONS])
    yield _times(
        "eds_license_last_success_timestamp_seconds",
        "When the connection's last successful sync ended; when it was connected if there is none",
        [(connection, _last_success(connection)) for connection in connections],
    )
    yield _times(
        "eds_license_token_expires_timestamp_seconds",
        "The day on which the connection's API token expires, if it was entered",
        [
            (connection, datetime.combine(connection.token_expires_on, time(), UTC))
            for connection in connections
            if connection.token_expires_on is not None
        ],
    )
    yield _problems(connections, now)


def _connections_by_state() -> Metric:
    """Each connection counts once. One that fails is not counted as active."""
    metric = GaugeMetricFamily(
        "eds_license_connections", "License connections, by state", labels=["state"]
    )
    has_failed_last = Q(state=State.ACTIVE, last_error_at__isnull=False) & (
        Q(last_success_at=None) | Q(last_success_at__lt=F("last_error_at"))
    )
    counts = dict(Connection.objects.values_list("state").annotate(Count("pk")))
    failing = Connection.objects.filter(has_failed_last).count()
    counts[State.ACTIVE] = counts.get(State.ACTIVE, 0) - failing
    counts[FAILING] = failing
    for state in (*State.values, FAILING):
        metric.add_metric([state], counts.get(state, 0))
    return metric


def _last_success(connection: Connection) -> datetime:
    return connection.last_success_at or connection.created_at


def _times(
    name: str, documentation: str, rows: Sequence[tuple[Connection, datetime]]
) -> GaugeMetricFamily:
    metric = GaugeMetricFamily(name, documentation, labels=["connection", "product"])
    for connection, at in rows:
        metric.add_metric([str(connection.pk), connection.product.name], at.timestamp())
    return metric


def _problems(connections: Sequence[Connection], now: datetime) -> Metric:
    """One sample for each problem, with the sentences of the connection's page."""
    metric = GaugeMetricFamily(
        "eds_license_problem",
        "A problem of a license connection and what to do, in words",
        labels=["connection", "product", "level", "problem"],
    )
    last_runs = load_last_runs([connection.pk for connection in connections])
    timetable = load_timetable()
    for connection in connections:
        health = connection_health(connection, last_runs[connection.pk], timetable)
        notices = [(health.level, health.sentence)]
        notices += _expiry(connection, now.date())
        for level, sentence in notices:
            if level in ("warning", "bad"):
                labels = [str(connection.pk), connection.product.name, level, sentence]
                metric.add_metric(labels, 1)
    return metric


def _expiry(connection: Connection, today: date) -> list[tuple[str, str]]:
    notice = expiry_notice(connection, today)
    return [] if notice is None else [(notice.level, notice.text)]
