"""Requests are counted by endpoint, status, and code, and /metrics adds up all processes."""

import io
import subprocess
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from django.db import Error, connection
from django.test import Client
from django.urls import get_resolver
from django.utils import timezone

from config.server import observing
from config.server.handler import LenientRequest, WebHandler
from core.models import RequestCount
from core.request_counts import Collector
from core.version import VERSION
from engagement.models import Product, ProductLimits
from ingestion import prometheus_products, tasks
from ingestion.inbox import group_commit
from ingestion.models import RefusedCount
from tests.config.test_alerts import promtool
from tests.config.test_operations import clean_counters, monitor, read
from tests.engagement.history import identify, track

__all__ = ["clean_counters", "monitor"]

Get = Callable[..., int]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Collector:
    collector = Collector()
    monkeypatch.setattr(observing, "collector", collector)
    return collector


@pytest.fixture
def send(collector: Collector) -> Get:
    def send(method: str, path: str, body: bytes = b"", **headers: str) -> int:
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "HTTP_HOST": "localhost",
            "CONTENT_LENGTH": str(len(body)),
            "CONTENT_TYPE": "application/json",
            "wsgi.input": io.BytesIO(body),
            **headers,
        }
        setup_testing_defaults(environ)
        return WebHandler().get_response(LenientRequest(environ)).status_code

    return send


@pytest.mark.django_db
def test_requests_are_counted_by_endpoint_status_and_code(
    send: Get, collector: Collector, monitor: Client
) -> None:
    assert send("GET", "/healthz") == send("GET", "/healthz") == 200
    assert send("POST", "/v2/track", b"{") == 400
    assert send("GET", "/v2/accounts") == 401
    assert send("GET", "/v2/accounts/7123") == 401
    assert send("GET", "/v2/nothing-like-this") == 404
    assert send("GET", "/wp-login.php") == 404
    collector.save()
    metrics = read(monitor)
    counted = {name: n for name, n in metrics.items() if name.startswith("eds_http_requests_total")}
    assert counted == {
        f'eds_http_requests_total{{endpoint="{endpoint}",status="{status}"}}': number
        for endpoint, status, number in (
            ("healthz", 200, 2),
            ("v2_track", 400, 1),
            ("v2_accounts", 401, 1),
            ("v2_account", 401, 1),
            ("unknown_path", 404, 1),
            ("unmatched", 404, 1),
        )
    }
    refused = 'eds_http_requests_refused_total{code="invalid_json",endpoint="v2_track"}'
    assert metrics[refused] == 1
    histogram = "eds_http_request_duration_seconds"
    assert metrics[f'{histogram}_count{{endpoint="healthz"}}'] == 2
    assert metrics[f'{histogram}_bucket{{endpoint="healthz",le="+Inf"}}'] == 2


@pytest.mark.django_db
def test_buckets_are_cumulative_and_processes_add_up(monitor: Client) -> None:
    for seconds in (0.001, 0.005, 0.03, 60.0):
        # Each collector is one of a process.
        process = Collector()
        process.add("v2_batch", 200, "", seconds)
        process.save()
        process.save()
    metrics = read(monitor)
    histogram = "eds_http_request_duration_seconds"
    buckets = [
        metrics[f'{histogram}_bucket{{endpoint="v2_batch",le="{bound}"}}']
        for bound in (0.005, 0.025, 0.05, 10.0, "+Inf")
    ]
    assert buckets == [2, 2, 3, 3, 4]
    assert metrics[f'{histogram}_sum{{endpoint="v2_batch"}}'] == pytest.approx(60.036)
    assert RequestCount.objects.count() == 3


@pytest.mark.django_db
def test_counts_wait_while_the_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise Error

    collector = Collector()
    collector.add("mcp", 200, "", 0.1)
    with monkeypatch.context() as patch:
        patch.setattr("core.database.sql.execute", refuse)
        with pytest.raises(Error):
            collector.save()
    collector.add("mcp", 200, "", 0.1)
    collector.save()
    assert RequestCount.objects.get().requests == 2


def test_every_url_has_a_name_for_its_metrics() -> None:
    for pattern in get_resolver().url_patterns:
        if not hasattr(pattern, "url_patterns"):
            assert pattern.name, f"Name the URL {pattern.pattern} in config/urls.py."


def test_products_are_counted_within_a_bound(
    clean_counters: None,
    monitor: Client,
    acme: Product,
    acme_key: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = timezone.now()
    group_commit.accept([identify("ann"), track("ann"), track("ann")], acme_key, now)
    group_commit.stop()
    tasks.drain()
    ProductLimits.objects.create(product=acme, messages_per_day=50)
    hour = now.replace(minute=0, second=0, microsecond=0)
    RefusedCount.objects.create(product=acme, hour=hour, code="missing_field", count=2)
    RefusedCount.objects.create(
        product=acme, hour=hour - timedelta(days=1), code="missing_field", count=9
    )
    quiet = Product.objects.create(name="Quiet")
    RefusedCount.objects.create(product=quiet, hour=hour, code="missing_field", count=1)
    labels = f'product="{acme.name}",product_id="{acme.pk}"'
    metrics = read(monitor)
    assert (
        metrics[f'eds_product_messages_total{{outcome="recorded",{labels}}}'],
        metrics[f'eds_product_messages_total{{outcome="dropped",{labels}}}'],
        metrics[f"eds_product_requests_refused_total{{{labels}}}"],
        metrics[f'eds_product_limit_used{{limit="messages_per_day",{labels}}}'],
        metrics[f'eds_product_limit{{limit="messages_per_day",{labels}}}'],
    ) == (3, 0, 2, 3, 50)
    assert any('product="Quiet"' in name for name in metrics)
    monkeypatch.setattr(prometheus_products, "MAX_PRODUCTS", 1)
    assert not any('product="Quiet"' in name for name in read(monitor))


@pytest.mark.django_db
def test_the_build_and_the_connections_are_told(monitor: Client) -> None:
    metrics = read(monitor)
    (build,) = (name for name in metrics if name.startswith("eds_build_info"))
    assert f'version="{VERSION}"' in build
    assert metrics['eds_database_connections{state="active"}'] >= 1
    with connection.cursor() as cursor:
        cursor.execute("SHOW max_connections")
        assert metrics["eds_database_connections_max"] == int(cursor.fetchone()[0])


@pytest.mark.slow
@pytest.mark.django_db
@promtool
def test_promtool_finds_nothing_to_improve(
    send: Get, collector: Collector, monitor: Client
) -> None:
    send("POST", "/v2/track", b"{")
    collector.save()
    text = monitor.get("/metrics").content
    check = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    assert (check.returncode, check.stdout, check.stderr) == (0, b"", b"")
