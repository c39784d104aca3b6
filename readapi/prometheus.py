"""The operational metric of the read API: how far the replica lags behind."""

from collections.abc import Iterator

from django.db import Error
from prometheus_client.core import GaugeMetricFamily, Metric

from readapi import replica


def collect_metrics() -> Iterator[Metric]:
    """The replica's lag; without a value if there is no replica or it cannot be reached."""
    is_unreachable = False
    lag = GaugeMetricFamily(
        "eds_replica_lag_seconds", "How far the replica lags behind the primary, in seconds"
    )
    if replica.is_configured():
        # An unreachable replica must not hide the other metrics.
        try:
            lag.add_metric([], replica.lag_seconds())
        except Error:
            is_unreachable = True
    yield lag
    yield GaugeMetricFamily(
        "eds_replica_unreachable", "Whether EDS_REPLICA_URL cannot be reached", int(is_unreachable)
    )
