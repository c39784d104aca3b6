"""Runs: request one, store its progress, and end it.

Each unfinished run has a job, whose lease says which worker writes it. If that worker dies, another
one goes on after the last part that was stored.
"""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Q

from core import retention
from core.database import clocks, nodes
from core.jobs import run as jobs
from core.jobs.backoff import Backoff
from core.jobs.run import LeaseLost
from core.models import Job
from core.retention import Retention, days
from engagement.models import CachedCounts, Workspace
from exports import cursors, schedule, tables
from exports.cursors import Cursor
from exports.models import ExportFile, ExportRun, Extent, ScheduledExport, Table
from exports.tables import TABLES

# The kind of the jobs. A job's key is its run's id.
KIND = "write exports"
# A worker that reads renews it again and again.
LEASE = timedelta(seconds=60)
# Longer than a store may take for a file.
PUT_LEASE = timedelta(seconds=120)
# Longer than a database may take for the merge of all parts.
MERGE_LEASE = timedelta(seconds=640)
# Pauses of 1, 4, 16, and 60 minutes. After the fifth failure in a row the run fails.
BACKOFF = Backoff(timedelta(minutes=1), 4, timedelta(hours=1), give_up=5)
CRASHED = "The worker ended in the middle of it, again and again. Its log says more."
State = ExportRun.State


def register() -> None:
    """Register the times and the retention of runs. Their files stay in the store."""
    clocks.register(ScheduledExport, {"next_run_at": timedelta(days=8)})
    ahead = {"due_at": clocks.NOW, "leased_until": 2 * MERGE_LEASE}
    clocks.register(ExportRun, ahead, {"state__in": ExportRun.UNFINISHED})
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
    return ExportRun.request(
        product_id=export.product_id,
        export=export,
        requested_by=requested_by,
        requested_at=now,
        due_at=now,
    )


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
    with transaction.atomic():
        for run in ExportRun.objects.filter(export=export, state__in=ExportRun.UNFINISHED):
            jobs.end(KIND, run.pk)
            ended = ExportRun.objects.filter(pk=run.pk, state__in=ExportRun.UNFINISHED)
            ended.update(state=State.STOPPED, finished_at=now, error=reason, lease=None)


def write_everything(export: ScheduledExport, now: datetime, requested_by: str) -> None:
    """End what is under way, and request a complete run."""
    stop_unfinished(export, "Somebody asked for a complete run.", now)
    ScheduledExport.objects.filter(pk=export.pk).update(cursor={})
    request_run(export, now, requested_by)


class Preview(NamedTuple):
    """The first rows of a file of the table, as texts."""

    table: Table
    columns: list[str]
    rows: list[list[str]]


def preview(export: ScheduledExport, table: str, now: datetime) -> Preview | None:
    """What a file of one of the export's tables would begin with. None without scores. Raises
    SourceLost."""
    workspace = Workspace.objects.select_related("scores").get(pk=export.workspace_id)
    if workspace.scores is None or workspace.scores.scored_day is None:
        return None
    name = Table(table if table in export.tables else export.tables[0])
    until = cursors.current_cursor(workspace, 0, now)
    matches = tables.rows_filter(export, workspace.scores)
    rows = tables.preview(name, workspace.scores, until, matches)
    return Preview(name, [column.name for column in TABLES[name].columns], rows)


# --- Jobs -----------------------------------------------------------------------------------


def unfinished_ids() -> list[int]:
    """The runs to go on with, the oldest first."""
    return list(nodes.reachable(ExportRun.unfinished()).order_by("id").values_list("id", flat=True))


def title(run_id: int) -> str:
    """Which run it is, for the page of jobs."""
    run = ExportRun.objects.filter(pk=run_id).select_related("export__product").first()
    return f"{run.export} of {run.export.product}, run {run_id}" if run else f"run {run_id}"


def find_unfinished(job: Job) -> ExportRun | None:
    """The job's run, with its export; None if it has ended."""
    runs = ExportRun.unfinished().select_related("export__workspace__product")
    return runs.filter(pk=job.key).first()


def take(job: Job, run: ExportRun, now: datetime) -> bool:
    """Mark the run as running. Returns False while a worker of the release before has it.

    That one claims a run by ``lease`` and ``leased_until``. A worker of this release has the job's
    lease instead, and sets only ``leased_until``, which keeps the other one away.
    """
    run.started_at = run.started_at or now
    run.leased_until = now + LEASE
    with jobs.holding(job):
        free = ExportRun.unfinished().filter(Q(lease=None) | Q(leased_until__lte=now), pk=run.pk)
        return bool(
            free.update(
                state=State.RUNNING,
                started_at=run.started_at,
                lease=None,
                leased_until=run.leased_until,
            )
        )


def renew(job: Job, run: ExportRun, now: datetime, lease: timedelta = LEASE) -> None:
    """Keep the run for another while. Raises LeaseLost."""
    _update(job, run, leased_until=now + lease)


def renew_in_time(job: Job, run: ExportRun, now: datetime) -> None:
    """Keep the run for another while if half of the lease is over. Raises LeaseLost."""
    if run.leased_until is None or run.leased_until < now + LEASE / 2:
        renew(job, run, now)


def _update(job: Job, run: ExportRun, **values: Any) -> None:
    """Write the values of the run, whose job this worker holds, to the row and to *run*."""
    with jobs.holding(job, values.get("leased_until")):
        own = ExportRun.objects.filter(pk=run.pk, state=State.RUNNING, lease=None)
        if not own.update(**values):
            raise LeaseLost
    for name, value in values.items():
        setattr(run, name, value)


# --- Progress -------------------------------------------------------------------------------


def begin(job: Job, run: ExportRun, until: Cursor, now: datetime) -> None:
    """Store what the run exports, before its first part."""
    export = run.export
    beginning = cursors.Beginning(None)
    if export.extent == Extent.CHANGES:
        beginning = cursors.find_beginning(export.cursor, until)
    since = beginning.since
    with transaction.atomic():
        _update(
            job,
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
        ExportFile.objects.filter(run=run).delete()


def _expected_rows(export: ScheduledExport, score_set: int) -> int | None:
    """About how many rows of users and accounts a complete run has."""
    if tables.is_narrowed(export) or not set(export.tables) <= {Table.ACCOUNTS, Table.USERS}:
        return None
    counts = CachedCounts.objects.filter(score_set=score_set).first()
    if counts is None:
        return None
    plural = {"account": counts.accounts, "user": counts.users}
    return sum(plural[TABLES[Table(table)].scope] for table in export.tables)


def store_part(
    job: Job,
    run: ExportRun,
    name: str,
    rows: int,
    content: bytes,
    after: int | None,
    read_at: datetime,
) -> None:
    """Store that a part was written, and where the next one begins. *read_at* is when reading its
    rows began."""
    with transaction.atomic():
        is_last = after is None
        _update(
            job,
            run,
            table_number=run.table_number + is_last,
            after=0 if is_last else after,
            part_number=1 if is_last else run.part_number + 1,
            rows=run.rows + rows,
            bytes=run.bytes + len(content),
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


def finish(job: Job, run: ExportRun, now: datetime) -> None:
    """End the run, and let the next run of changes begin where it ended."""
    with transaction.atomic():
        _update(job, run, state=State.DONE, finished_at=now, leased_until=None, error="")
        ScheduledExport.objects.filter(pk=run.export_id).update(cursor=run.until)


def note_error(job: Job, run: ExportRun, error: str) -> None:
    """Store why the run is tried again later."""
    _update(job, run, error=error)


def give_up(job: Job) -> None:
    """End the run, which has failed too often in a row."""
    for run in ExportRun.unfinished().filter(pk=job.key):
        error = run.error or CRASHED
        ExportRun.unfinished().filter(pk=run.pk).update(
            state=State.FAILED, finished_at=job.failed_at, error=error
        )


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
