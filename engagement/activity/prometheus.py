"""The metrics of what products' activity tells."""

from collections.abc import Iterator
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric

from engagement.activity.product import silent_senders


def collect_metrics(now: datetime) -> Iterator[Metric]:
    metric = GaugeMetricFamily(
        "eds_sender_silent",
        "1 for a product with hardly any active users on its last complete day",
        labels=["product"],
    )
    for silent in silent_senders(now):
        metric.add_metric([silent.product.name], 1)
    yield metric
