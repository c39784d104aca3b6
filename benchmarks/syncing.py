"""What the license benchmark does inside the service: ``python -m benchmarks.syncing COMMAND …``.

A process of its own, so that only the service's code shares its interpreter. Prints JSON.
"""

import json
import math
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

import django
import psutil
import requests
from django.db import connection as database
from django.utils import timezone

django.setup()

# The apps must be loaded first.
from django.conf import settings  # noqa: E402

from core.jobs import kinds, run  # noqa: E402
from engagement.models import Account, Product  # noqa: E402
from harness.marketplace.feed import Feed  # noqa: E402
from harness.marketplace.long_history import LongHistory  # noqa: E402
from harness.marketplace.server import Simulator  # noqa: E402
from harness.marketplace.vendor import create_vendor  # noqa: E402
from marketplace import connecting  # noqa: E402
from marketplace.connecting import ConnectionDetails  # noqa: E402
from marketplace.ledger import recomputation  # noqa: E402
from marketplace.models import (  # noqa: E402
    Connection,
    LedgerLicense,
    License,
    LicenseEvent,
    ReportReading,
    SyncRun,
)
from marketplace.runs import report_sources, scheduling, sync  # noqa: E402
from marketplace.source import client  # noqa: E402
from marketplace.source.client import BACKGROUND_RETRY_POLICY, Credentials, MarketplaceClient  # noqa: E402

_MEGABYTE = 1024 * 1024
# The whole sync is one turn of one worker here.
_PATIENCE = replace(BACKGROUND_RETRY_POLICY, total_timeout=math.inf)


class Latency:
    """The seconds that the marketplace took to answer: from each request to its first byte."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def client(self, credentials: Credentials) -> MarketplaceClient:
        session = client.new_session()
        session.hooks["response"].append(self._add)
        return MarketplaceClient(session, settings.MARKETPLACE_API_URL, credentials, _PATIENCE)

    def _add(self, response: requests.Response, **_: Any) -> None:
        self.seconds += response.elapsed.total_seconds()


def simulate(licenses: str, port: str, rows: str = "0", door: str = "export") -> None:
    """Serve a simulated marketplace until the end of the process. With *rows*, the history of each
    license has as many, and comes by this *door*."""
    if not int(rows):
        today = date(2026, 9, 24)
        Simulator.with_licenses(int(licenses), today=today, port=int(port)).serve_forever()
    # Terms that go on when the service looks.
    today, vendor = timezone.now().date(), create_vendor()
    history = LongHistory(vendor.app, int(licenses), int(rows), today, has_export=door == "export")
    simulator = Simulator(Feed(history.current()), vendor, port=int(port))
    simulator.other_reports = history
    simulator.serve_forever()


def connect(report: str = "pages") -> dict[str, Any]:
    """A new product that is connected to the simulated marketplace; its first sync is due and
    reads the lists in this way."""
    owner = create_vendor()
    product = Product.create_with_workspace("Benchmark")
    details = ConnectionDetails(owner.user_name, owner.token, owner.vendor_id, owner.app.product_id)
    checked = connecting.verify_details(details, client.create_client)
    connection = connecting.save_connection(product, checked, timezone.now())
    Connection.objects.filter(pk=connection.pk).update(report=report)
    return {"connection": connection.pk}


def work(connection: str, *options: str) -> dict[str, Any]:
    """Sync to the end; what it took. "full" asks for a full sync first."""
    if "full" in options:
        row = Connection.objects.get(pk=int(connection))
        scheduling.request_sync(row, SyncRun.Kind.FULL, timezone.now())
    latency = Latency()
    environment = sync.SyncEnvironment(latency.client, timezone.now)
    costs = _measure(lambda: sync.run_sync(int(connection), environment))
    return {**latest(connection), **costs, "marketplace, s": latency.seconds}


def ledger(connection: str) -> dict[str, Any]:
    """Compute the events of all licenses; what it took, and what came of it."""
    product = Connection.objects.get(pk=int(connection)).product_id
    costs = _measure(lambda: _run_jobs(recomputation.KIND))
    events = LicenseEvent.objects.filter(product=product, withdrawn_at=None)
    return {
        "licenses": LedgerLicense.objects.filter(product=product).count(),
        **{type: events.filter(type=type).count() for type in ("purchased", "renewed", "churned")},
        **costs,
    }


def read(connection: str, report: str) -> dict[str, Any]:
    """Read a report of the marketplace to its end; what it took."""
    row = Connection.objects.get(pk=int(connection))
    if report == ReportReading.Report.HISTORY:
        report_sources.request_history(row, timezone.now())
    kind = report_sources.KINDS[ReportReading.Report(report)]
    costs = _measure(lambda: _run_jobs(kind))
    reading = ReportReading.objects.get(connection=row, report=report)
    complete = LedgerLicense.objects.filter(product=row.product_id, has_history=True).count()
    return {"rows": reading.rows, "complete": complete, "problem": reading.problem, **costs}


def _run_jobs(kind: str) -> None:
    """Give the jobs of this kind turns until none is due."""
    own_kind = kinds.get(kind)
    assert own_kind is not None
    while run.run_kinds([own_kind], timezone.now, lambda: False):
        pass


def _measure(task: Callable[[], object]) -> dict[str, float]:
    """What the task takes. The first task of a process shows how much memory it needs at most."""
    backend = _backend()
    before = psutil.Process().memory_info().rss
    wall, processor = time.monotonic(), time.process_time()
    task()
    seconds = time.monotonic() - wall
    times = backend.cpu_times()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "seconds": seconds,
        "PostgreSQL, s": times.user + times.system,
        "Python, s": time.process_time() - processor,
        "memory growth, MB": (peak - before) / _MEGABYTE,
    }


def _backend() -> psutil.Process:
    """PostgreSQL's process for this process's connection."""
    database.ensure_connection()
    return psutil.Process(database.connection.info.backend_pid)


def latest(connection: str) -> dict[str, Any]:
    """The connection's latest sync, and what is stored."""
    run = SyncRun.objects.filter(connection=int(connection))[0]
    names = ("state", "attempt", "pages", "seen", "imported", "unchanged", "skipped", "failed")
    stored = {"product": run.connection.product_id}
    return {
        **{name: getattr(run, name) for name in names},
        "licenses": License.objects.filter(**stored).count(),
        "accounts": Account.objects.filter(**stored, is_identified=True).count(),
    }


COMMANDS = {"simulate": simulate, "connect": connect, "work": work, "latest": latest}
COMMANDS |= {"ledger": ledger, "read": read}

if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    print(json.dumps(COMMANDS[command](*arguments)))  # type: ignore[operator]
