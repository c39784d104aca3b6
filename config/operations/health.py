"""The endpoints for monitors and load balancers: /healthz, /readyz, and /metrics."""

import hmac
import platform
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import chain

import django
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error, connection, connections
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from rest_framework.exceptions import AuthenticationFailed

from config.database import keepalive, role_rights
from config.database.pending_migrations import has_pending_migrations
from core import prometheus_requests, telemetry
from core.database import distribution, nodes, sql
from core.jobs import prometheus as jobs
from core.version import VERSION
from engagement import prometheus as engagement
from engagement.activity import prometheus as activity
from exports import prometheus as exports
from ingestion import prometheus as ingestion
from ingestion import prometheus_products
from ingestion.inbox import group_commit
from marketplace.status import prometheus as marketplace
from notifications import prometheus as notifications
from readapi import authentication, replica, rights
from readapi import prometheus as readapi
from readapi.errors import Forbidden, ReplicaUnavailable

# Beat asks for a drain every few seconds.
MAX_DRAIN_AGE = timedelta(seconds=60)
# Seconds for which a machine that met a full disk stays out of the load balancer.
DISK_FULL_COOLDOWN = 30.0

# Beat saves a heartbeat every ten seconds. New messages are recorded without it, so a slow restart
# in an upgrade takes no machine out of the load balancer.
MAX_BEAT_AGE = timedelta(minutes=5)
# Scores are computed every few seconds. A statement may run for a minute.
MAX_SCORING_AGE = timedelta(minutes=10)
# Clocks of machines differ by less. A time further ahead is from a wrong clock, and is ignored.
MAX_CLOCK_SKEW = timedelta(seconds=60)

# The part of a cluster's nodes. Without one of them, messages of all products are accepted, and
# those of the other nodes are recorded and read, so the machine stays in the load balancer.
NODES = "nodes"

CLOCK_AHEAD = (
    "It last worked at a time that is still to come: the clock of its machine was ahead of the "
    "database's. Synchronize the clocks (NTP). If this stays, check that it is running."
)

# The database aliases on which all migrations are applied.
_migrated: set[str] = set()


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer 200 if this process works. Ignore the database: a restart would not repair it."""
    return HttpResponse("ok\n", content_type="text/plain; charset=utf-8")


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Answer 200 if requests can be served, or else 503 with what is wrong."""
    checks = _checks()
    is_ready = all(result == "ok" for name, result in checks.items() if name != NODES)
    answer = {"ready": is_ready, "version": VERSION, "checks": checks}
    return JsonResponse(answer, status=200 if is_ready else 503)


def _checks() -> dict[str, str]:
    try:
        connection.ensure_connection()
    except Error:
        return {"database": "The database cannot be reached."}
    try:
        checks = {"database": _database(), "migrations": _migrations()}
        checks |= check_roles(database_time())
    except Error as error:
        return {"database": f"The database does not answer ({type(error).__name__})."}
    if distribution.is_distributed():
        checks[NODES] = nodes.describe(nodes.missing_nodes()) or "ok"
    return checks | ({"replica": _replica()} if replica.is_configured() else {})


def _database() -> str:
    # A database with a full disk still answers reads. When the load balancer sends messages
    # elsewhere, no message shows that there is room again, so try again after a while.
    if group_commit.saw_full_disk(within=DISK_FULL_COOLDOWN):
        return "The database's disk is full: messages are answered 503."
    if lacking := role_rights.describe(role_rights.tables_without_rights()):
        return f"{lacking} Messages are answered 503."
    return "ok"


def database_time() -> datetime:
    """The time by the database's clock. That of this machine may be wrong, which is no fault of the
    other roles."""
    ((now,),) = sql.fetch("SELECT clock_timestamp()")
    assert isinstance(now, datetime)
    return now


def _migrations() -> str:
    if _is_migrated(DEFAULT_DB_ALIAS):
        return "ok"
    return "Migrations are not applied: run `python manage.py migrate`."


def _replica() -> str:
    try:
        connections[replica.ALIAS].ensure_connection()
        replica.verify_replica()
        if _is_migrated(replica.ALIAS):
            return "ok"
    except Error:
        return "The replica cannot be reached: the read API answers 503 until it can."
    except ReplicaUnavailable as error:
        return f"The replica is not read from: {error}"
    return "The replica has not got the migrations yet."


def _is_migrated(alias: str) -> bool:
    """Return whether all migrations are applied. A positive answer is kept for good."""
    if alias not in _migrated and not has_pending_migrations(connections[alias]):
        _migrated.add(alias)
    return alias in _migrated


def check_roles(now: datetime) -> dict[str, str]:
    """Check by their operation counters whether the other roles work, on any machine."""
    counters = telemetry.get_counters(
        ingestion.DRAIN_COUNTER, engagement.RESCORE, keepalive.BEAT_COUNTER
    )
    last_runs = {name: counter.last_at for name, counter in counters.items()}

    def is_recent(name: str, max_age: timedelta) -> bool:
        return name in last_runs and now - max_age <= last_runs[name] <= now + MAX_CLOCK_SKEW

    checks = dict.fromkeys(("drain", "scoring", "beat"), "ok")
    names = {ingestion.DRAIN_COUNTER: "drain", engagement.RESCORE: "scoring"}
    names[keepalive.BEAT_COUNTER] = "beat"
    ahead = {names[name] for name, at in last_runs.items() if at > now + MAX_CLOCK_SKEW}
    if not is_recent(ingestion.DRAIN_COUNTER, MAX_DRAIN_AGE):
        checks["drain"] = (
            "The inbox has not been drained for a minute: messages are accepted, and wait. "
            "Check that a worker and beat are running."
        )
    # A role without a counter is starting, or is of a release that does not save one.
    if engagement.RESCORE in last_runs and not is_recent(engagement.RESCORE, MAX_SCORING_AGE):
        checks["scoring"] = (
            "Nothing has been scored for ten minutes: readers see old scores. "
            "Check that a worker of the queue scoring is running."
        )
    if keepalive.BEAT_COUNTER in last_runs and not is_recent(keepalive.BEAT_COUNTER, MAX_BEAT_AGE):
        checks["beat"] = (
            "Beat has sent nothing for five minutes: license syncs, retention, and deletion on "
            "request wait. Check that beat is running and reaches the broker."
        )
    # Nobody can say how long ago that was.
    return checks | dict.fromkeys(ahead, CLOCK_AHEAD)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the whole service's operational metrics for Prometheus.

    This requires a request with EDS_METRICS_TOKEN, or with a read token that may read metrics, as a
    bearer token.
    """
    token = settings.METRICS_TOKEN
    authorization = request.headers.get("Authorization", "")
    is_token = hmac.compare_digest(authorization.encode(), f"Bearer {token}".encode())
    if not (token and is_token) and (refusal := _refuse_metrics(request)):
        return refusal
    registry = CollectorRegistry()
    registry.register(_MetricsCollector(timezone.now()))
    try:
        return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
    except Error:
        return _text("The database is unavailable. Try again later.", 503)


def _refuse_metrics(request: HttpRequest) -> HttpResponse | None:
    """Return why the request may not read metrics; None for a read token that may."""
    if not authentication.carries_read_token(request):
        if not settings.METRICS_TOKEN:
            return _text("Metrics are off: set EDS_METRICS_TOKEN.", 404)
        return _text("Send the metrics token as `Authorization: Bearer …`.", 401)
    try:
        rights.require_metrics(authentication.authenticate(request))
    except Forbidden as error:
        return _text(str(error), 403)
    except AuthenticationFailed as error:
        return _text(str(error.detail), 401)
    except Error:
        return _text("The database is unavailable. Try again later.", 503)
    return None


def _text(line: str, status: int) -> HttpResponse:
    # Not a page, which would need a page's headers.
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return HttpResponse(f"{line}\n", "text/plain; charset=utf-8", status, headers=headers)


class _MetricsCollector(Collector):
    """The operational metrics of all apps, read from the database on each scrape."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def collect(self) -> Iterator[Metric]:
        return chain(
            _build_info(),
            prometheus_requests.collect_metrics(),
            jobs.collect_metrics(),
            ingestion.collect_metrics(self._now),
            prometheus_products.collect_metrics(self._now),
            engagement.collect_metrics(self._now),
            activity.collect_metrics(self._now),
            marketplace.collect_metrics(self._now),
            notifications.collect_metrics(self._now),
            exports.collect_metrics(self._now),
            readapi.collect_metrics(),
        )

    def describe(self) -> Iterable[Metric]:
        return []


def _build_info() -> Iterator[Metric]:
    """The versions of the process that answers: during an upgrade, there are two."""
    version = connection.pg_version  # type: ignore[attr-defined]
    info = GaugeMetricFamily(
        "eds_build_info",
        "The versions of the service and of what it runs on",
        labels=["version", "python", "django", "postgresql"],
    )
    postgresql = f"{version // 10_000}.{version % 10_000}"
    info.add_metric([VERSION, platform.python_version(), django.__version__, postgresql], 1)
    yield info
