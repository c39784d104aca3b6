"""Forecasts of past months, as the service would have made them then: what was not known on the
first day of a month is taken out of the outcomes, chances are looked at and renewals forecast by
the service's own jobs, and the outcomes are put back.

A start that dies in between leaves a revision that differs from that of the ledger: the outcomes
are then computed again from their events.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from functools import partial
from time import sleep

from core.jobs import run
from core.models import Job
from engagement.models import Product
from marketplace.ledger import recomputation
from marketplace.models import Connection, Ledger, ReportReading
from marketplace.runs.report_sources import KINDS
from outcomes.chances import storage as chances
from outcomes.forecasts import storage as forecasts
from outcomes.forecasts.results import month_after
from outcomes.kinds import Exclusion
from outcomes.models import LicenseOutcome
from outcomes.sources import licenses
from outcomes.sources.licenses import OutcomeRow

# How many past months get a forecast.
MONTHS_BACK = 8
EXPORT_WAITS, EXPORT_WAIT_SECONDS = 40, 0.25
_OPEN = str(Exclusion.OPEN)
_READ = (
    ReportReading.Report.HISTORY,
    ReportReading.Report.TRANSACTIONS,
    ReportReading.Report.FEEDBACK,
)


def read_ledger(connection: Connection, clock: Callable[[], datetime]) -> None:
    """Read the history of the connection's licenses, what was sold, and why customers left, and
    compute the ledger."""
    # The history of a license that the ledger does not know is left out.
    run.finish(recomputation.KIND, connection.product_id, clock)
    for report in _READ:
        _read(KINDS[report], connection.pk, clock)
    run.finish(recomputation.KIND, connection.product_id, clock)


def _read(kind: str, connection_id: int, clock: Callable[[], datetime]) -> None:
    """Read a report, whose export may be ready only after some moments."""
    for _ in range(EXPORT_WAITS):
        run.finish(kind, connection_id, clock)
        if not Job.objects.filter(kind=kind, key=connection_id, cursor__isnull=False).exists():
            return
        sleep(EXPORT_WAIT_SECONDS)


def forecast_past_months(product: Product, now: datetime, stopping: Callable[[], bool]) -> None:
    """Store the forecasts of past months in the first workspace."""
    workspace = product.workspaces.earliest("id")
    own = LicenseOutcome.objects.filter(product=product)
    names = sorted(set(own.values_list("license", flat=True)))
    rows = licenses.stored_rows(product.pk, names)
    revision = Ledger.objects.values_list("revision", flat=True).get(product=product)
    today = now.astimezone(UTC).date()
    days = [month_after(today, -back) for back in range(MONTHS_BACK, -1, -1)]
    for day in days:
        if stopping():
            break
        licenses.replace(product.pk, names, filter(None, map(partial(_as_of, day), rows)))
        licenses.follow(product.pk, revision - 1)
        _look(workspace.pk, datetime.combine(day, time(5), UTC))
    licenses.replace(product.pk, names, rows)
    licenses.follow(product.pk, revision)
    _look(workspace.pk, now)


def _look(workspace_id: int, at: datetime) -> None:
    """Look at chances and forecast renewals as of that time."""
    for job in (chances.JOB, forecasts.JOB):
        run.finish(job, workspace_id, lambda: at)


def _as_of(day: date, row: OutcomeRow) -> OutcomeRow | None:
    """The row as it was known on the morning of the day; None if there was nothing yet."""
    if row.began_on >= day:
        return None
    is_said = row.answered_on is not None and row.answered_on < day
    if row.known_on is None or row.known_on >= day:
        is_decided = row.known_on is not None
        return row._replace(
            known_on=None,
            decided_on=None,
            answered_on=row.answered_on if is_said else None,
            result=_OPEN if is_decided else row.result,
            exclusion=_OPEN if is_decided and not row.exclusion else row.exclusion,
        )
    return row
