"""The operational metrics of background jobs, by kind."""

from collections.abc import Iterator

from django.db.models import Count, Max, Q
from prometheus_client.core import GaugeMetricFamily, Metric

from core.models.jobs import Job


def collect_metrics() -> Iterator[Metric]:
    open_jobs = GaugeMetricFamily("eds_jobs", "Background jobs, by kind", labels=["kind"])
    paused = GaugeMetricFamily(
        "eds_jobs_paused", "Background jobs that somebody has paused", labels=["kind"]
    )
    failures = GaugeMetricFamily(
        "eds_job_failures",
        "The failures in a row of the kind's job that has the most",
        labels=["kind"],
    )
    rows = Job.objects.values("kind").annotate(
        total=Count("pk"), paused=Count("pk", filter=Q(is_paused=True)), most=Max("failures")
    )
    for row in rows.order_by("kind"):
        open_jobs.add_metric([row["kind"]], row["total"])
        paused.add_metric([row["kind"]], row["paused"])
        failures.add_metric([row["kind"]], row["most"])
    yield from (open_jobs, paused, failures)
