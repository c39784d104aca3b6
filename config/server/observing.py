"""What is noted of each request that a web process answers."""

import logging
from typing import Any, Protocol

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS
from django.db.backends.postgresql.base import DatabaseWrapper
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone

from core import telemetry
from core.prometheus_requests import POOL_FAILURES, POOL_REQUESTS, POOL_WAITS
from core.request_counts import Collector

logger = logging.getLogger("config.access")

# Requests that no URL of ours matches.
STATIC, UNMATCHED = "static", "unmatched"


class RequestTracer(Protocol):
    """Records requests as spans, for example of OpenTelemetry."""

    def begin(self, request: HttpRequest) -> Any: ...
    def end(
        self, span: Any, request: HttpRequest, response: HttpResponseBase, endpoint: str
    ) -> None: ...


request_tracer: RequestTracer | None = None


def begin(request: HttpRequest) -> Any:
    """Begin the request's span, if spans are recorded."""
    return None if request_tracer is None else request_tracer.begin(request)


def observe(
    request: HttpRequest, response: HttpResponseBase, seconds: float, span: Any = None
) -> None:
    """Count the request, with the time until its response began."""
    status = response.status_code
    endpoint = endpoint_name(request)
    code = _error_code(response) if status >= 400 else ""
    collector.add(endpoint, status, code, seconds)
    if request_tracer is not None and span is not None:
        request_tracer.end(span, request, response, endpoint)
    if settings.ACCESS_LOG:
        _log(request, response, endpoint, seconds)


def _log(request: HttpRequest, response: HttpResponseBase, endpoint: str, seconds: float) -> None:
    """Write a line about the request, without anything from its query or body, or of an id."""
    fields = {
        "method": request.method,
        "endpoint": endpoint,
        "path": _path_template(request),
        "status": response.status_code,
        "seconds": round(seconds, 4),
        "bytes": len(response.content) if isinstance(response, HttpResponse) else None,
    }
    logger.info(
        "%s %s %d in %.1f ms",
        request.method,
        endpoint,
        response.status_code,
        seconds * 1000,
        extra={"fields": fields, "request": request},
    )


def _path_template(request: HttpRequest) -> str | None:
    """The path with names instead of what a client chose; None if it is not known."""
    match = request.resolver_match
    if match is None:
        return None
    if not match.route.startswith("^"):
        return f"/{match.route}"
    # A regular expression without groups matches paths of ours.
    is_fixed = not match.kwargs and match.view_name != "unknown_path"
    return request.path_info if is_fixed else None


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
    pool = DatabaseWrapper._connection_pools.get(DEFAULT_DB_ALIAS)  # type: ignore[attr-defined]
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
