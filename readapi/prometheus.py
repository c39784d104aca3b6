"""The operational metric of the read API: how far the replica lags behind."""

from collections.abc import Iterator
from contextlib import suppress

from django.db import Error
from prometheus_client.core import GaugeMetricFamily, Metric

from readapi import replica


def collect_metrics() -> Iterator[Metric]:
    """The replica's lag; without a value if there is no replica or it cannot be reached."""
    lag = GaugeMetricFamily(
        "eds_replica_lag_seconds", "How far the replica lags behind the primary, in seconds"
    )
    if replica.is_configured():
        # An unreachable replica must not hide the other metrics.
        with suppress(Error):
            lag.add_metric([], replica.lag_seconds())
    yield lag
