"""How old what the read API answers is, in numbers for monitors."""

from collections.abc import Iterator
from contextlib import suppress

from django.db import Error
from prometheus_client.core import GaugeMetricFamily, Metric

from readapi import replica


def collect_metrics() -> Iterator[Metric]:
    """The replica's lag, with no value where there is no replica, or none that can be asked."""
    lag = GaugeMetricFamily(
        "eds_replica_lag_seconds", "How much older the replica's state is than the primary's"
    )
    if replica.is_configured():
        # A replica that is away hides no other figure.
        with suppress(Error):
            lag.add_metric([], replica.lag_seconds())
    yield lag
