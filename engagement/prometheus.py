"""The operational metrics of scoring."""

from collections.abc import Iterator
from datetime import datetime
from typing import LiteralString

from prometheus_client.core import GaugeMetricFamily, Metric, SummaryMetricFamily

from core import telemetry
from core.database import nodes, sql
from engagement.models import Credential, ScoreSet

# Names of operation counters.
RESCORE = "rescore"
# Keys and tokens with a metric of their own: those that expire first.
MAX_CREDENTIALS = 100

# Bounded, because counting more takes long and tells no more.
_COUNT_REQUESTS: LiteralString = f"""
    SELECT count(*) FROM (
        SELECT 1 FROM engagement_stalemark m WHERE {nodes.among_reachable("m")} LIMIT 1000000
    ) AS requests
"""


def collect_metrics(now: datetime) -> Iterator[Metric]:
    rescored = telemetry.get_counters(RESCORE).get(RESCORE)
    yield SummaryMetricFamily(
        "eds_rescore_seconds",
        "Time spent computing scores",
        count_value=rescored.runs if rescored else 0,
        sum_value=rescored.seconds if rescored else 0.0,
    )
    ((requests,),) = sql.fetch(_COUNT_REQUESTS, {"reachable": nodes.reachable_products()})
    yield GaugeMetricFamily(
        "eds_rescore_requests", "Entries in the rescore queue, counted up to 1,000,000", requests
    )
    # The old name, for one release.
    yield GaugeMetricFamily("eds_stale_marks", "Use eds_rescore_requests instead", requests)
    yield GaugeMetricFamily(
        "eds_score_sets_building",
        "Workspaces for which a new score set is being built",
        ScoreSet.objects.filter(state=ScoreSet.State.BUILDING).count(),
    )
    yield _expiries()
    yield from _missing_nodes()


def _missing_nodes() -> Iterator[Metric]:
    missing = nodes.missing_nodes()
    yield GaugeMetricFamily(
        "eds_cluster_nodes_missing", "Nodes of a cluster that cannot be reached", len(missing)
    )
    waiting = GaugeMetricFamily(
        "eds_cluster_products_waiting",
        "Products that wait for a node of a cluster that cannot be reached",
        labels=["node"],
    )
    for name, products in missing.items():
        waiting.add_metric([name], len(products))
    yield waiting


def _expiries() -> Metric:
    metric = GaugeMetricFamily(
        "eds_credential_expires_timestamp_seconds",
        "When an ingestion key or a read token expires, unless it is revoked",
        labels=["kind", "credential", "product"],
    )
    for model in Credential.__subclasses__():
        rows = model._default_manager.filter(revoked_at=None, expires_at__isnull=False)
        rows = rows.select_related("product").only("expires_at", "product__name")
        for credential in rows.order_by("expires_at")[:MAX_CREDENTIALS]:
            labels = [str(model._meta.verbose_name), str(credential.pk), credential.product.name]
            if credential.expires_at is not None:
                metric.add_metric(labels, credential.expires_at.timestamp())
    return metric
