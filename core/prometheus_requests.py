"""The operational metrics of HTTP requests and of database connections."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import LiteralString

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from core import telemetry
from core.database import sql
from core.models import RequestCount
from core.request_counts import BOUNDS

# Of the pools of database connections in web processes.
POOL_REQUESTS = "pool requests"
POOL_WAITS = "pool waits"
POOL_FAILURES = "pool failures"
CONNECTION_STATES = ("active", "idle", "idle in transaction", "other")
_CONNECTIONS: LiteralString = """
    SELECT CASE WHEN state = ANY(%(states)b::text[]) THEN state ELSE 'other' END, count(*)
    FROM pg_stat_activity WHERE datname = current_database() GROUP BY 1
"""
_MAX_CONNECTIONS: LiteralString = "SELECT current_setting('max_connections')::int"


def collect_metrics() -> Iterator[Metric]:
    counts = list(RequestCount.objects.all())
    yield _requests(counts)
    yield _refused(counts)
    yield _durations(counts)
    yield from _connections()
    yield from _pool()


def _requests(counts: Sequence[RequestCount]) -> Metric:
    metric = CounterMetricFamily(
        "eds_http_requests",
        "Requests that were answered, counted seconds later",
        labels=["endpoint", "status"],
    )
    totals: Counter[tuple[str, int]] = Counter()
    for each in counts:
        totals[each.endpoint, each.status] += each.requests
    for (endpoint, status), total in sorted(totals.items()):
        metric.add_metric([endpoint, str(status)], total)
    return metric


def _refused(counts: Sequence[RequestCount]) -> Metric:
    metric = CounterMetricFamily(
        "eds_http_requests_refused",
        "Requests to the APIs that got an error, by its code",
        labels=["endpoint", "code"],
    )
    totals: Counter[tuple[str, str]] = Counter()
    for each in counts:
        if each.code:
            totals[each.endpoint, each.code] += each.requests
    for labels, total in sorted(totals.items()):
        metric.add_metric(labels, total)
    return metric


def _durations(counts: Sequence[RequestCount]) -> Metric:
    metric = HistogramMetricFamily(
        "eds_http_request_duration_seconds",
        "Time until the response began",
        labels=["endpoint"],
    )
    buckets: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BOUNDS) + 1))
    seconds: defaultdict[str, float] = defaultdict(float)
    for each in counts:
        buckets[each.endpoint][min(each.bucket, len(BOUNDS))] += each.requests
        seconds[each.endpoint] += each.seconds
    bounds = [*map(str, BOUNDS), "+Inf"]
    for endpoint, numbers in sorted(buckets.items()):
        cumulative = list(zip(bounds, accumulate(numbers), strict=True))
        metric.add_metric([endpoint], cumulative, sum_value=seconds[endpoint])
    return metric


def _connections() -> Iterator[Metric]:
    metric = GaugeMetricFamily(
        "eds_database_connections",
        "Connections to the service's database, by state",
        labels=["state"],
    )
    counts: dict[str, int] = dict(sql.fetch(_CONNECTIONS, {"states": list(CONNECTION_STATES)}))
    for state in CONNECTION_STATES:
        metric.add_metric([state], counts.get(state, 0))
    yield metric
    ((maximum,),) = sql.fetch(_MAX_CONNECTIONS)
    yield GaugeMetricFamily(
        "eds_database_connections_max", "The connections that PostgreSQL permits", maximum
    )


def _pool() -> Iterator[Metric]:
    counters = telemetry.get_counters(POOL_REQUESTS, POOL_WAITS, POOL_FAILURES)

    def units(name: str) -> int:
        return counters[name].units if name in counters else 0

    yield CounterMetricFamily(
        "eds_database_pool_requests",
        "Connections that requests took from the pools of web processes",
        units(POOL_REQUESTS),
    )
    yield CounterMetricFamily(
        "eds_database_pool_waits",
        "Requests that waited because all connections of their pool were in use",
        units(POOL_WAITS),
    )
    yield CounterMetricFamily(
        "eds_database_pool_wait_seconds",
        "How long they waited together",
        counters[POOL_WAITS].seconds if POOL_WAITS in counters else 0.0,
    )
    yield CounterMetricFamily(
        "eds_database_pool_failures",
        "Requests that got no connection from their pool",
        units(POOL_FAILURES),
    )
