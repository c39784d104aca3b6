"""Operational metrics of the busiest products: what became of their messages, and their limits."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import LiteralString, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from core.database import sql
from engagement.limits import limits
from engagement.limits.limits import ProductState, Usage

# Products with metrics of their own: those with the most messages and refused requests today.
MAX_PRODUCTS = 100

_TODAY: LiteralString = """
    SELECT p.id, p.name, sum(c.recorded)::bigint, sum(c.dropped)::bigint, sum(c.refused)::bigint
    FROM (
        SELECT product_id, CASE reason WHEN '' THEN count ELSE 0 END AS recorded,
               CASE reason WHEN '' THEN 0 ELSE count END AS dropped, 0 AS refused
        FROM ingestion_hourcount WHERE hour >= %(day)s
        UNION ALL
        SELECT product_id, 0, 0, count FROM ingestion_refusedcount WHERE hour >= %(day)s) AS c
    JOIN engagement_product p ON p.id = c.product_id
    GROUP BY p.id, p.name
    ORDER BY sum(c.recorded + c.dropped + c.refused) DESC, p.id LIMIT %(limit)s
"""


class ProductCounts(NamedTuple):
    id: int
    name: str
    recorded: int
    dropped: int
    refused: int

    @property
    def labels(self) -> list[str]:
        return [str(self.id), self.name]


def collect_metrics(now: datetime) -> Iterator[Metric]:
    """Counters of the UTC day. Prometheus takes the start of a day for that of a process."""
    day = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    rows = sql.fetch(_TODAY, {"day": day, "limit": MAX_PRODUCTS})
    products = [ProductCounts._make(row) for row in rows]
    yield _messages(products)
    yield _refused(products)
    yield from _limits(products, limits.load([product.id for product in products]))


def _messages(products: list[ProductCounts]) -> Metric:
    metric = CounterMetricFamily(
        "eds_product_messages",
        "What became of the messages that a product sent on this UTC day",
        labels=["product_id", "product", "outcome"],
    )
    for product in products:
        metric.add_metric([*product.labels, "recorded"], product.recorded)
        metric.add_metric([*product.labels, "dropped"], product.dropped)
    return metric


def _refused(products: list[ProductCounts]) -> Metric:
    metric = CounterMetricFamily(
        "eds_product_requests_refused",
        "Requests with a key of the product that got an error on this UTC day",
        labels=["product_id", "product"],
    )
    for product in products:
        metric.add_metric(product.labels, product.refused)
    return metric


def _limits(products: list[ProductCounts], states: Mapping[int, ProductState]) -> Iterator[Metric]:
    usage_family = GaugeMetricFamily(
        "eds_product_limit_used",
        "What the product uses of a limit, as last counted",
        labels=["product_id", "product", "limit"],
    )
    allowed = GaugeMetricFamily(
        "eds_product_limit", "The limit of a product", labels=["product_id", "product", "limit"]
    )
    for product in products:
        state = states[product.id]
        usage = {name: getattr(state.usage, name) for name in Usage._fields}
        for name, value in {"messages_per_day": product.recorded, **usage}.items():
            labels = [*product.labels, name]
            usage_family.add_metric(labels, value)
            allowed.add_metric(labels, getattr(state.limits, name))
    yield usage_family
    yield allowed
