"""What monitors and load balancers ask: is it alive, is it ready, and how is it doing?"""

import hmac
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import chain

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error, connection, connections
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from config import keepalive
from engagement import prometheus as engagement
from engagement import telemetry
from ingestion import prometheus as ingestion
from ingestion.inbox import group_commit
from marketplace import prometheus as marketplace
from readapi import prometheus as readapi
from readapi import replica
from readapi.errors import ReplicaUnavailable

# Beat asks for a drain every few seconds; without one for so long nobody records.
MAX_DRAIN_AGE = timedelta(seconds=60)
# A machine that met a full disk is out of the load balancer for so long, and then tries again.
DISK_FULL_COOLDOWN = 30.0

# Beat notes every ten seconds that it sends something. New messages are recorded without it, so an
# upgrade that restarts it slowly takes no machine out of the load balancer.
MAX_BEAT_AGE = timedelta(minutes=5)
# Scores are computed every few seconds; one statement of that may run for a minute.
MAX_SCORING_AGE = timedelta(minutes=10)
# Clocks of several machines differ by less. What is dated further ahead is from a clock that was
# wrong, and says nothing.
MAX_CLOCK_SKEW = timedelta(seconds=60)

# The entries of DATABASES that were seen with all migrations applied.
_migrated: set[str] = set()


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """This process answers. It says nothing of the database: restarting would not mend that."""
    return HttpResponse("ok\n", content_type="text/plain; charset=utf-8")


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Whether requests can be served: 200, or 503 with what is wrong in words."""
    checks = _checks(timezone.now())
    wrong = [said for said in checks.values() if said != "ok"]
    return JsonResponse({"ready": not wrong, "checks": checks}, status=503 if wrong else 200)


def _checks(now: datetime) -> dict[str, str]:
    try:
        connection.ensure_connection()
    except Error:
        return {"database": "The database cannot be reached."}
    try:
        checks = {"database": _database(), "migrations": _migrations()} | _work(now)
    except Error as error:
        return {"database": f"The database does not answer ({type(error).__name__})."}
    return checks | ({"replica": _replica()} if replica.is_configured() else {})


def _database() -> str:
    # A full disk still answers whoever only reads. Once no messages come any more, because the load
    # balancer sends them elsewhere, somebody has to try again.
    if group_commit.saw_full_disk(within=DISK_FULL_COOLDOWN):
        return "The database's disk is full: messages are answered 503."
    return "ok"


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
    """Looked at until all are applied: from then on this code has the tables it needs."""
    if alias not in _migrated:
        executor = MigrationExecutor(connections[alias])
        if not executor.migration_plan(executor.loader.graph.leaf_nodes()):
            _migrated.add(alias)
    return alias in _migrated


def _work(now: datetime) -> dict[str, str]:
    """Whether the other roles do their work, by what they note in the database: they may be on any
    machine."""
    known = telemetry.get_counters(
        ingestion.DRAIN_COUNTER, engagement.RESCORE, keepalive.BEAT_COUNTER
    )
    seen = {name: measure.last_at for name, measure in known.items()}

    def within(name: str, longest: timedelta) -> bool:
        return name in seen and now - longest <= seen[name] <= now + MAX_CLOCK_SKEW

    checks = dict.fromkeys(("drain", "scoring", "beat"), "ok")
    if not within(ingestion.DRAIN_COUNTER, MAX_DRAIN_AGE):
        checks["drain"] = (
            "The inbox has not been drained for a minute: messages are accepted and wait. "
            "Check that a worker and beat are running."
        )
    # What was never seen is starting, or of a release that does not say so.
    if engagement.RESCORE in seen and not within(engagement.RESCORE, MAX_SCORING_AGE):
        checks["scoring"] = (
            "Nothing has been scored for ten minutes: readers see old scores. "
            "Check that a worker of the queue scoring is running."
        )
    if keepalive.BEAT_COUNTER in seen and not within(keepalive.BEAT_COUNTER, MAX_BEAT_AGE):
        checks["beat"] = (
            "Beat has sent nothing for five minutes: license syncs, retention and deletion on "
            "request wait. Check that beat is running and reaches the broker."
        )
    return checks


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Counts and durations for Prometheus, of the whole service, whichever process is asked.

    It answers only where EDS_METRICS_TOKEN is set, and only to those who send it as a bearer token.
    """
    token = settings.METRICS_TOKEN
    given = request.headers.get("Authorization", "")
    if not token:
        return HttpResponse("Metrics are off: set EDS_METRICS_TOKEN.\n", status=404)
    if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        return HttpResponse(
            "Send the metrics token as `Authorization: Bearer …`.\n",
            status=401,
            headers={"WWW-Authenticate": "Bearer"},
        )
    registry = CollectorRegistry()
    registry.register(_Figures(timezone.now()))
    try:
        return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
    except Error:
        return HttpResponse("The database cannot be asked at the moment.\n", status=503)


class _Figures(Collector):
    """The figures of all apps, read from the database when they are asked for."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def collect(self) -> Iterator[Metric]:
        return chain(
            ingestion.collect_metrics(self._now),
            engagement.collect_metrics(self._now),
            marketplace.collect_metrics(self._now),
            readapi.collect_metrics(),
        )

    def describe(self) -> Iterable[Metric]:
        return []
