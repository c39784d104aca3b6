"""Writes the files of a run, part after part, and the manifest last."""

import time
from contextlib import suppress
from datetime import datetime, timedelta

from core.database import nodes, retries
from core.fields import DecryptionError
from core.jobs import kinds
from core.jobs.kinds import Blocked, Done, More, Outcome, StepFailed
from core.models import Job
from engagement.models import ScoreSet, Workspace
from exports import cursors, files, manifest, runs, tables
from exports.cursors import NotScored
from exports.models import ExportRun, ScheduledExport, Table
from exports.stores import Store, StoreError, open_store
from exports.tables import TABLES, Span

QUEUE = "exports"
NOT_SCORED = "The workspace has no scores yet. They are computed in the background."


class Rescored(Exception):
    """The workspace got other scores while the run read the old ones."""


def register() -> None:
    """Have workers write the unfinished runs, a file a step."""
    kinds.register(
        runs.KIND,
        "Writes the files of scheduled exports.",
        queue=QUEUE,
        step=write_next,
        keys=runs.unfinished_ids,
        lease=runs.LEASE,
        backoff=runs.BACKOFF,
        on_give_up=runs.give_up,
        title=runs.title,
    )


def write_next(job: Job, now: datetime) -> Outcome:
    """Write the next part of the job's run, or the manifest after the last one."""
    # A missing node is no failure of the export: the run goes on once it is back.
    with retries.without_missing_nodes():
        run = runs.find_unfinished(job)
        if run is None:
            return Done()
        if run.product_id not in nodes.missing_products() and runs.take(job, run, now):
            return _Writer(job, run, now).write()
    return Blocked()


class _Writer:
    """Writes a file of the run, for the worker that has its job."""

    def __init__(self, job: Job, run: ExportRun, now: datetime) -> None:
        self._job, self._run = job, run
        self._began, self._started = now, time.monotonic()

    def _now(self) -> datetime:
        return self._began + timedelta(seconds=time.monotonic() - self._started)

    def write(self) -> Outcome:
        """Raises StepFailed and LeaseLost."""
        try:
            return self._write_next(open_store(_with_credentials(self._run.export)))
        except (
            *(StoreError, files.FormatMissing, DecryptionError),
            *(NotScored, tables.SourceLost),
        ) as error:
            text = NOT_SCORED if isinstance(error, NotScored) else str(error)
            runs.note_error(self._job, self._run, text)
            raise StepFailed(text) from error

    def _write_next(self, store: Store) -> Outcome:
        job, run = self._job, self._run
        score_set = _published_scores(run.export)
        if run.until is None or cursors.cursor_of(run.until).score_set != score_set.pk:
            until = cursors.current_cursor(run.export.workspace, run.pk, self._now())
            runs.begin(job, run, until, self._now())
        if run.table_number == len(run.export.tables):
            content = manifest.build_manifest(run, self._now())
            self._put(store, manifest.NAME, content, "application/json")
            runs.finish(job, run, self._now())
            return Done()
        # After that the next step begins again, in a folder of its own.
        with suppress(Rescored):
            self._write_part(store, score_set)
        return More(progress=run.rows, total=run.expected_rows)

    def _write_part(self, store: Store, score_set: ScoreSet) -> None:
        run, read_at = self._run, self._began
        runs.renew(self._job, run, self._now())
        since = cursors.cursor_of(run.since) if run.since else None
        until = cursors.cursor_of(run.until)
        cursors.show_scores_of(score_set, until)
        matches = tables.rows_filter(run.export, score_set)
        span = Span(score_set, since, until, tables.ROWS_PER_FETCH, matches)
        table = run.export.tables[run.table_number]
        part = files.open_part(run.export.format, TABLES[Table(table)].columns)
        rows = text_bytes = 0
        after: int | None = run.after
        while after is not None and rows < files.MAX_ROWS and text_bytes < files.MAX_BYTES:
            runs.renew_in_time(self._job, run, self._now())
            chunk = tables.read_chunk(table, span, after)
            part.add(chunk.rows)
            rows, after = rows + len(chunk.rows), chunk.after
            text_bytes += files.text_bytes(chunk.rows)
        if _published_scores(run.export).pk != score_set.pk:
            # Rows of the old set may have been deleted meanwhile.
            raise Rescored
        name = f"{table}-{run.part_number:05}{files.suffix(run.export.format)}"
        content = part.finish()
        self._put(store, name, content)
        runs.store_part(self._job, run, name, rows, content, after, read_at)

    def _put(self, store: Store, name: str, content: bytes, *type: str) -> None:
        # So that no other worker writes the same file at the same time.
        is_merge = type and self._run.export.store_kind == ScheduledExport.StoreKind.POSTGRES
        lease = runs.MERGE_LEASE if is_merge else runs.PUT_LEASE
        runs.renew(self._job, self._run, self._now(), lease)
        store.put(f"{self._run.folder}/{name}", content, *type)


def _with_credentials(export: ScheduledExport) -> ScheduledExport:
    return ScheduledExport.objects.defer(None).get(pk=export.pk)


def _published_scores(export: ScheduledExport) -> ScoreSet:
    """The scores that readers see now. Raises NotScored."""
    workspace = Workspace.objects.select_related("scores", "product").get(pk=export.workspace_id)
    export.workspace = workspace
    if workspace.scores is None:
        raise NotScored
    return workspace.scores
