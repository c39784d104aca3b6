"""How the license connections are doing, in numbers for monitors."""

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily, Metric, SummaryMetricFamily

from engagement import telemetry
from marketplace.models import Connection

# The name of a measure.
SYNC_COUNTER = "license sync"


def collect_metrics(now: datetime) -> Iterator[Metric]:
    synced = telemetry.get_counters(SYNC_COUNTER).get(SYNC_COUNTER)
    yield SummaryMetricFamily(
        "eds_license_sync_seconds",
        "Time spent on license syncs, waiting for the marketplace included",
        count_value=synced.runs if synced else 0,
        sum_value=synced.seconds if synced else 0.0,
    )
    connections = GaugeMetricFamily(
        "eds_license_connections", "License connections, by state", labels=["state"]
    )
    counts = dict(Connection.objects.values_list("state").annotate(Count("pk")))
    for state in Connection.State.values:
        connections.add_metric([state], counts.get(state, 0))
    yield connections
