"""The operational metrics of scheduled exports."""

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily, Metric, SummaryMetricFamily

from engagement import telemetry
from exports.models import ExportRun

# The name of an operation counter.
RUN_COUNTER = "scheduled exports"


def collect_metrics(now: datetime) -> Iterator[Metric]:
    run = telemetry.get_counters(RUN_COUNTER).get(RUN_COUNTER)
    yield SummaryMetricFamily(
        "eds_export_seconds",
        "Time spent writing scheduled exports",
        count_value=run.runs if run else 0,
        sum_value=run.seconds if run else 0.0,
    )
    metric = GaugeMetricFamily(
        "eds_export_runs", "Runs of scheduled exports that are kept, by state", labels=["state"]
    )
    counts = dict(ExportRun.objects.order_by().values_list("state").annotate(Count("pk")))
    for state in ExportRun.State.values:
        metric.add_metric([state], counts.get(state, 0))
    yield metric
