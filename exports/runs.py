"""Runs: request one, claim it, store its progress, and end it.

A worker holds a run by a lease, and writes only while the lease is its own. If it dies, the lease
ends, and another worker goes on after the last part that was stored.
"""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import LiteralString
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from core import retention
from core.database import clocks, nodes, sql
from core.retention import Retention, days
from engagement.models import CachedCounts
from exports import cursors, schedule
from exports.cursors import Cursor
from exports.models import ExportFile, ExportRun, Extent, ScheduledExport, Table
from exports.tables import TABLES

# A worker that reads renews it again and again.
LEASE = timedelta(seconds=60)
# Longer than a store may take for a file.
PUT_LEASE = timedelta(seconds=120)
# The pauses after failures in a row. After the last one the run fails.
BACKOFF = [timedelta(minutes=minutes) for minutes in (1, 5, 15, 60)]
CRASHED = "The worker ended in the middle of it, again and again. Its log says more."
State = ExportRun.State


class LeaseLost(Exception):
    """Another worker has the run, or somebody stopped it. Nothing is written."""


def register() -> None:
    """Register the times and the retention of runs. Their files stay in the store."""
    clocks.register(ScheduledExport, {"next_run_at": timedelta(days=8)})
    unfinished_state = {"state__in": ExportRun.UNFINISHED}
    ahead = {"due_at": 2 * BACKOFF[-1], "leased_until": 2 * PUT_LEASE}
    clocks.register(ExportRun, ahead, unfinished_state)
    lifetime = days("EXPORT_RUN_RETENTION_DAYS")
    retention.register(
        "exports",
        Retention(
            ExportFile, "run__requested_at", lifetime, ~Q(run__state__in=ExportRun.UNFINISHED)
        ),
        Retention(ExportRun, "requested_at", lifetime, ~Q(state__in=ExportRun.UNFINISHED)),
    )


# --- Requests -------------------------------------------------------------------------------


def request_run(export: ScheduledExport, now: datetime, requested_by: str = "") -> bool:
    """Add a run to the export. Returns False if one is unfinished."""
    try:
        with transaction.atomic():
            ExportRun.objects.create(
                product_id=export.product_id,
                export=export,
                requested_by=requested_by,
                requested_at=now,
                due_at=now,
            )
    except IntegrityError:
        return False
    return True


def request_due(now: datetime) -> int:
    """Add a run to each export whose time has come. Returns how many."""
    due = ScheduledExport.objects.filter(
        next_run_at__lte=now, product__deletion_requested_at__isnull=True
    )
    count = 0
    for export in due:
        with transaction.atomic():
            # Only one worker moves it on.
            same = ScheduledExport.objects.filter(pk=export.pk, next_run_at=export.next_run_at)
            if same.update(next_run_at=schedule.next_run_at(export, now)):
                count += request_run(export, now)
    return count


def stop_unfinished(export: ScheduledExport, reason: str, now: datetime) -> None:
    """End the export's unfinished run, even while a worker is busy with it."""
    runs = ExportRun.objects.filter(export=export, state__in=ExportRun.UNFINISHED)
    runs.update(state=State.STOPPED, finished_at=now, error=reason, lease=None, leased_until=None)


# --- Claims ---------------------------------------------------------------------------------

_CLAIM: LiteralString = """
    UPDATE exports_exportrun SET
        state = 'running', failures = failures + (lease IS NOT NULL)::integer,
        lease = %(lease)s, leased_until = %(until)s, started_at = COALESCE(started_at, %(now)s)
    WHERE id = (
        SELECT r.id FROM exports_exportrun r
        JOIN engagement_product p ON p.id = r.product_id AND p.deletion_requested_at IS NULL
        WHERE r.state IN ('waiting', 'running') AND r.due_at <= %(now)s
          AND (r.leased_until IS NULL OR r.leased_until <= %(now)s)
          AND r.product_id <> ALL(%(missing)b::bigint[])
        ORDER BY r.due_at, r.id
        LIMIT 1
        FOR NO KEY UPDATE OF r SKIP LOCKED)
    RETURNING id
"""


def claim(now: datetime) -> ExportRun | None:
    """Claim a run that is due, under a lease of its own.

    A run whose lease has ended lost its worker, which counts as a failure.
    """
    while True:
        with transaction.atomic():
            missing = list(nodes.missing_products())
            lease = {"lease": uuid4(), "until": now + LEASE}
            rows = sql.fetch(_CLAIM, {**lease, "now": now, "missing": missing})
        if not rows:
            return None
        run = ExportRun.objects.select_related("export__workspace__product").get(pk=rows[0][0])
        if run.failures <= len(BACKOFF):
            return run
        fail(run, run.error or CRASHED, now)


def renew(run: ExportRun, now: datetime, lease: timedelta = LEASE) -> None:
    """Keep the run for another while. Raises LeaseLost."""
    _update(run, leased_until=now + lease)


def renew_in_time(run: ExportRun, now: datetime) -> None:
    """Keep the run for another while if half of the lease is over. Raises LeaseLost."""
    if run.leased_until is None or run.leased_until < now + LEASE / 2:
        renew(run, now)


def release(run: ExportRun, now: datetime) -> None:
    """Let any worker go on with the run, after others that are due."""
    _held(run.pk, run.lease).update(lease=None, leased_until=None, due_at=now)


def _held(pk: int, lease: UUID | None) -> QuerySet[ExportRun]:
    return ExportRun.objects.filter(pk=pk, lease=lease, state=State.RUNNING)


def _update(run: ExportRun, **values: object) -> None:
    """Write the values of the run, which this worker holds, to the row and to *run*."""
    if not _held(run.pk, run.lease).update(**values):
        raise LeaseLost
    for name, value in values.items():
        setattr(run, name, value)


# --- Progress -------------------------------------------------------------------------------


def begin(run: ExportRun, until: Cursor, now: datetime) -> None:
    """Store what the run exports, before its first part."""
    export = run.export
    beginning = cursors.Beginning(None)
    if export.extent == Extent.CHANGES:
        beginning = cursors.find_beginning(export.cursor, until)
    since = beginning.since
    ExportFile.objects.filter(run=run).delete()
    _update(
        run,
        folder=f"{now.astimezone(UTC):%Y-%m-%dT%H%M%SZ}-run-{run.pk}",
        since=since and since.dump(),
        until=until.dump(),
        complete_because=beginning.complete_because,
        table_number=0,
        after=0,
        part_number=1,
        rows=0,
        bytes=0,
        expected_rows=None if since else _expected_rows(export, until.score_set),
    )


def _expected_rows(export: ScheduledExport, score_set: int) -> int | None:
    """About how many rows of users and accounts a complete run has."""
    counts = CachedCounts.objects.filter(score_set=score_set).first()
    if counts is None or not set(export.tables) <= {Table.ACCOUNTS, Table.USERS}:
        return None
    plural = {"account": counts.accounts, "user": counts.users}
    return sum(plural[TABLES[Table(table)].scope] for table in export.tables)


def store_part(
    run: ExportRun, name: str, rows: int, content: bytes, after: int | None, read_at: datetime
) -> None:
    """Store that a part was written, and where the next one begins. *read_at* is when reading its
    rows began."""
    with transaction.atomic():
        is_last = after is None
        _update(
            run,
            table_number=run.table_number + is_last,
            after=0 if is_last else after,
            part_number=1 if is_last else run.part_number + 1,
            rows=run.rows + rows,
            bytes=run.bytes + len(content),
            failures=0,
            error="",
        )
        ExportFile.objects.create(
            product_id=run.product_id,
            run=run,
            table=name.rpartition("-")[0],
            name=name,
            rows=rows,
            bytes=len(content),
            sha256=sha256(content).hexdigest(),
            read_at=read_at,
        )


def finish(run: ExportRun, now: datetime) -> None:
    """End the run, and let the next run of changes begin where it ended."""
    with transaction.atomic():
        _update(run, state=State.DONE, finished_at=now, lease=None, leased_until=None, error="")
        ScheduledExport.objects.filter(pk=run.export_id).update(cursor=run.until)


def fail(run: ExportRun, error: str, now: datetime) -> None:
    """Have the run tried again later, or end it after too many failures in a row."""
    failures = run.failures + 1
    values = {"failures": failures, "error": error, "lease": None, "leased_until": None}
    if failures > len(BACKOFF):
        values |= {"state": State.FAILED, "finished_at": now}
    else:
        values |= {"due_at": now + BACKOFF[failures - 1]}
    _held(run.pk, run.lease).update(**values)


# --- What went wrong ------------------------------------------------------------------------


def last_failures(product_ids: Collection[int] | None = None) -> list[ExportRun]:
    """The last ended runs of the products' enabled exports, as far as they have failed. Of all
    products if none are named."""
    runs = ExportRun.objects.filter(export__is_enabled=True)
    if product_ids is not None:
        runs = runs.filter(product__in=product_ids)
    runs = runs.exclude(state__in=ExportRun.UNFINISHED).select_related("export")
    last = runs.order_by("export_id", "-id").distinct("export_id")
    return [run for run in last if run.state == State.FAILED]
