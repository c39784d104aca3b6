"""What is noted of each request that a web process answers."""

from django.db import DEFAULT_DB_ALIAS
from django.db.backends.postgresql.base import DatabaseWrapper
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone

from engagement import telemetry
from engagement.prometheus import POOL_FAILURES, POOL_REQUESTS, POOL_WAITS
from engagement.request_counts import Collector

# Requests that no URL of ours matches.
STATIC, UNMATCHED = "static", "unmatched"


def observe(request: HttpRequest, response: HttpResponseBase, seconds: float) -> None:
    """Count the request, with the time until its response began."""
    status = response.status_code
    code = _error_code(response) if status >= 400 else ""
    collector.add(endpoint_name(request), status, code, seconds)


def endpoint_name(request: HttpRequest) -> str:
    """The name of the URL's pattern. So no label holds what a client sent."""
    match = request.resolver_match
    if match is not None:
        return match.view_name
    return STATIC if request.path_info.startswith("/static/") else UNMATCHED


def _error_code(response: HttpResponseBase) -> str:
    """The code of an error of the APIs, or an empty string."""
    data = getattr(response, "data", None)
    error = data.get("error") if isinstance(data, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) else ""


def save_pool_use() -> None:
    """Add what this process asked of its pool of database connections to the operation counters."""
    pool = DatabaseWrapper._connection_pools.get(DEFAULT_DB_ALIAS)
    if pool is None:
        return
    stats, now = pool.pop_stats(), timezone.now()
    if requests := stats.get("requests_num", 0):
        telemetry.add_run(POOL_REQUESTS, requests, 0.0, now)
    if waits := stats.get("requests_queued", 0):
        telemetry.add_run(POOL_WAITS, waits, stats.get("requests_wait_ms", 0) / 1000, now)
    if failures := stats.get("requests_errors", 0):
        telemetry.add_run(POOL_FAILURES, failures, 0.0, now)


collector = Collector(save_pool_use)
