"""The operational metrics of notifications."""

from collections.abc import Iterator
from datetime import datetime
from typing import LiteralString

from django.db.models import Count
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from core import telemetry
from core.database import sql
from notifications.models import Delivery, Destination

# The names of operation counters.
SWEEP_COUNTER = "notification sweep"
DELIVER_COUNTER = "notification delivery"

_WAITING: LiteralString = """
    SELECT count(*), min(created_at) FROM notifications_outboxmessage
    WHERE state = 'waiting'
"""


def attempts_counter(outcome: str) -> str:
    """The name of the operation counter of the attempts with this outcome."""
    return f"notification {outcome}"


def collect_metrics(now: datetime) -> Iterator[Metric]:
    counters = telemetry.get_counters(SWEEP_COUNTER, DELIVER_COUNTER)
    for name, counter, text in (
        ("eds_notification_sweep_seconds", SWEEP_COUNTER, "Time spent looking for changes"),
        ("eds_notification_delivery_seconds", DELIVER_COUNTER, "Time spent delivering messages"),
    ):
        run = counters.get(counter)
        yield SummaryMetricFamily(
            name,
            text,
            count_value=run.runs if run else 0,
            sum_value=run.seconds if run else 0.0,
        )
    ((waiting, oldest),) = sql.fetch(_WAITING)
    yield GaugeMetricFamily(
        "eds_notifications_waiting", "Messages in the outbox that are not delivered yet", waiting
    )
    yield GaugeMetricFamily(
        "eds_notifications_oldest_seconds",
        "The age of the oldest message that is not delivered yet",
        max(0.0, (now - oldest).total_seconds()) if oldest else 0.0,
    )
    yield _attempts()
    yield _destinations()


def _attempts() -> Metric:
    metric = CounterMetricFamily(
        "eds_notification_attempts",
        "Attempts to deliver a message, by outcome",
        labels=["outcome"],
    )
    names = {outcome: attempts_counter(outcome) for outcome in Delivery.Outcome.values}
    counters = telemetry.get_counters(*names.values())
    for outcome, name in names.items():
        metric.add_metric([outcome], counters[name].units if name in counters else 0)
    return metric


def _destinations() -> Metric:
    metric = GaugeMetricFamily(
        "eds_notification_destinations", "Destinations of notifications, by state", labels=["state"]
    )
    counts = dict(Destination.objects.values_list("state").annotate(Count("pk")))
    for state in Destination.State.values:
        metric.add_metric([state], counts.get(state, 0))
    return metric
