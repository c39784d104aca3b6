"""The manifest of a run: its files, what is in them, and what they are about.

It is written last. A folder without one belongs to a run that is not done.
"""

import json
from datetime import datetime
from typing import Any

from engagement.models import Segment
from exports import tables
from exports.models import ExportRun, Extent, ScheduledExport, Table
from exports.tables import TABLES, format_value

NAME = "manifest.json"
VERSION = 1


def build_manifest(run: ExportRun, now: datetime) -> bytes:
    export, workspace = run.export, run.export.workspace
    files = list(run.files.order_by("id"))
    content = {
        "version": VERSION,
        "export": {"id": export.pk, "name": export.name},
        "run": run.pk,
        "product": {"id": workspace.product_id, "name": workspace.product.name},
        "workspace": {"id": workspace.pk, "name": workspace.name},
        "source": _source(export),
        "format": export.format,
        "extent": Extent.CHANGES if run.since else Extent.COMPLETE,
        "complete_because": run.complete_because or None,
        # The run whose rows these changes are to be merged into.
        "changes_since_run": run.since["run"] if run.since else None,
        "since": _state(run.since),
        "until": _state(run.until),
        "started_at": _time(run.started_at),
        "written_at": _time(now),
        "rows": sum(file.rows for file in files),
        "bytes": sum(file.bytes for file in files),
        "tables": {table: _table(table, files) for table in export.tables},
    }
    return json.dumps(content, ensure_ascii=False, indent=1).encode()


def _source(export: ScheduledExport) -> dict[str, Any] | None:
    """The segment or the view whose rows were written; None for all."""
    source = tables.find_source(export)
    if source is None:
        return None
    kind = "segment" if isinstance(source, Segment) else "view"
    return {"kind": kind, "id": source.pk, "name": source.name}


def _table(table: str, files: list[Any]) -> dict[str, Any]:
    own = [file for file in files if file.table == table]
    return {
        "rows": sum(file.rows for file in own),
        "first_read_at": _time(own[0].read_at) if own else None,
        "last_read_at": _time(own[-1].read_at) if own else None,
        "columns": [column._asdict() for column in TABLES[Table(table)].columns],
        "files": [
            {"name": file.name, "rows": file.rows, "bytes": file.bytes, "sha256": file.sha256}
            for file in own
        ],
    }


def _state(cursor: dict[str, Any] | None) -> dict[str, Any] | None:
    """What a reader can use of a cursor."""
    return cursor and {name: cursor[name] for name in ("stamp", "day", "run")}


def _time(at: datetime | None) -> str | None:
    return format_value(at) or None
