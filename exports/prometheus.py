"""The operational metrics of scheduled exports."""

from collections.abc import Iterator
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric, SummaryMetricFamily

from core import telemetry
from exports import runs

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
    yield GaugeMetricFamily(
        "eds_exports_failing",
        "Scheduled exports whose last run has failed",
        len(runs.last_failures()),
    )
