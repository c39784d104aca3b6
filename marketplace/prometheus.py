"""Operational metrics of the license connections."""

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily, Metric, SummaryMetricFamily

from engagement import telemetry
from marketplace.models import Connection

# The name of an operation counter.
SYNC_COUNTER = "license sync"


def collect_metrics(now: datetime) -> Iterator[Metric]:
    counter = telemetry.get_counters(SYNC_COUNTER).get(SYNC_COUNTER)
    yield SummaryMetricFamily(
        "eds_license_sync_seconds",
        "Time spent on license syncs, waiting for the marketplace included",
        count_value=counter.runs if counter else 0,
        sum_value=counter.seconds if counter else 0.0,
    )
    connections = GaugeMetricFamily(
        "eds_license_connections", "License connections, by state", labels=["state"]
    )
    counts = dict(Connection.objects.values_list("state").annotate(Count("pk")))
    for state in Connection.State.values:
        connections.add_metric([state], counts.get(state, 0))
    yield connections
