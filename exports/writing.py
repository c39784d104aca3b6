"""Writes the files of a run, part after part, and the manifest last."""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from django.db import Error

from core.database import retries
from core.fields import DecryptionError
from core.outbound.addresses import Resolver
from engagement.models import ScoreSet, Workspace
from exports import cursors, files, manifest, runs, tables
from exports.cursors import NotScored
from exports.models import ExportRun, ScheduledExport, Table
from exports.runs import LeaseLost
from exports.stores import Store, StoreError, open_store
from exports.tables import TABLES, Span

NOT_SCORED = "The workspace has no scores yet. They are computed in the background."


class Rescored(Exception):
    """The workspace got other scores while the run read the old ones."""


def write_due(
    clock: Callable[[], datetime],
    *,
    out_of_time: Callable[[], bool] = lambda: False,
    resolve: Resolver | None = None,
) -> int:
    """Go on with the runs that are due. Returns how many parts were written."""
    parts = 0
    while not out_of_time():
        run = runs.claim(clock())
        if run is None:
            break
        parts += _Writer(run, clock, out_of_time, resolve).write()
    return parts


class _Writer:
    """Writes parts of one run until it is done, or time runs out."""

    def __init__(
        self,
        run: ExportRun,
        clock: Callable[[], datetime],
        out_of_time: Callable[[], bool],
        resolve: Resolver | None,
    ) -> None:
        self._run, self._clock, self._out_of_time = run, clock, out_of_time
        self._resolve = resolve

    def write(self) -> int:
        """Returns how many parts were written."""
        parts = 0
        try:
            store = open_store(_with_credentials(self._run.export), self._resolve)
            while self._write_next(store):
                parts += 1
                if self._out_of_time():
                    runs.release(self._run, self._clock())
                    break
        except LeaseLost:
            pass
        except (StoreError, files.FormatMissing, DecryptionError) as error:
            runs.fail(self._run, str(error), self._clock())
        except NotScored:
            runs.fail(self._run, NOT_SCORED, self._clock())
        except Error as error:
            if not retries.is_missing_node(error):
                raise
            # No failure of the export: another worker goes on once the node is back.
            runs.release(self._run, self._clock())
        return parts

    def _write_next(self, store: Store) -> bool:
        """Write a part, or the manifest after the last one. Returns whether there is more to do."""
        run = self._run
        score_set = _published_scores(run.export)
        if run.until is None or cursors.cursor_of(run.until).score_set != score_set.pk:
            runs.begin(run, cursors.current_cursor(run.export.workspace, run.pk), self._clock())
        if run.table_number == len(run.export.tables):
            content = manifest.build_manifest(run, self._clock())
            self._put(store, manifest.NAME, content, "application/json")
            runs.finish(run, self._clock())
            return False
        # After that the next call begins again, in a folder of its own.
        with suppress(Rescored):
            self._write_part(store, score_set)
        return True

    def _write_part(self, store: Store, score_set: ScoreSet) -> None:
        run, read_at = self._run, self._clock()
        runs.renew(run, read_at)
        since = cursors.cursor_of(run.since) if run.since else None
        until = cursors.cursor_of(run.until)
        cursors.show_scores_of(score_set, until)
        span = Span(score_set, since, until)
        table = run.export.tables[run.table_number]
        part = files.open_part(run.export.format, TABLES[Table(table)].columns)
        rows = text_bytes = 0
        after: int | None = run.after
        while after is not None and rows < files.MAX_ROWS and text_bytes < files.MAX_BYTES:
            runs.renew_in_time(run, self._clock())
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
        runs.store_part(run, name, rows, content, after, read_at)

    def _put(self, store: Store, name: str, content: bytes, *type: str) -> None:
        # So that no other worker writes the same file at the same time.
        runs.renew(self._run, self._clock(), runs.PUT_LEASE)
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
