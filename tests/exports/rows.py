"""Exports, their stores, and what a reader of their files has."""

import csv
import gzip
import io
import json
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from typing import Any

from core.jobs import kinds
from core.jobs.run import run_kinds
from engagement.models import Product, Segment, Workspace
from exports import runs
from exports.models import ExportRun, Extent, ScheduledExport, Table
from exports.stores import StoreError
from tests.engagement.history import NOON
from tests.notifications.rows import Clock

SUBJECTS = [Table.ACCOUNTS, Table.USERS]


def an_export(product: Product, **fields: Any) -> ScheduledExport:
    values = {
        "workspace": Workspace.objects.filter(product=product).order_by("pk").first(),
        "name": "Warehouse",
        "tables": SUBJECTS,
        "store_kind": ScheduledExport.StoreKind.FOLDER,
        "folder": "warehouse",
        "verified_at": NOON,
        **fields,
    }
    return ScheduledExport.objects.create(product=product, **values)


class MemoryStore:
    """A store that keeps what is put into it, and can fail."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.put_names: list[str] = []
        self.error: Exception | None = None

    def put(self, name: str, content: bytes, type: str = "") -> None:
        if self.error is not None:
            raise self.error
        self.put_names.append(name)
        self.files[name] = content

    def delete(self, name: str) -> None:
        del self.files[name]

    def refuse(self, text: str) -> None:
        self.error = StoreError(text)

    def manifests(self) -> list[dict[str, Any]]:
        """All of them, in the order in which they were written."""
        return [
            json.loads(self.files[name])
            for name in self.put_names
            if name.endswith("/manifest.json")
        ]


def write_due(clock: Clock, out_of_time: Callable[[], bool] = lambda: False) -> int:
    """Go on with the runs that are due, as a worker does. Returns how many parts were written."""
    kind = kinds.get(runs.KIND)
    assert kind is not None
    return run_kinds([kind], clock, out_of_time)


def run_now(export: ScheduledExport, clock: Clock) -> ExportRun:
    """Request a run, and go on until it rests."""
    assert runs.request_run(export, clock.step())
    write_due(clock)
    return ExportRun.objects.filter(export=export).first() or ExportRun()


def read_csv(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(gzip.decompress(content).decode(), newline="")))


class Reader:
    """Somebody who loads what the manifests name, as the documentation says."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.tables: dict[str, dict[str, dict[str, str]]] = {}
        self.last_run = 0

    def load(self, run: ExportRun) -> dict[str, int]:
        """Load a run; return how many rows of each table it had."""
        manifest = json.loads(self.store.files[f"{run.folder}/manifest.json"])
        if manifest["extent"] == Extent.COMPLETE:
            self.tables = {}
        else:
            assert manifest["changes_since_run"] == self.last_run
        counts = {}
        for table, info in manifest["tables"].items():
            rows = self.tables.setdefault(table, {})
            loaded = [row for file in info["files"] for row in self._file(run, file)]
            assert len(loaded) == info["rows"]
            for row in loaded:
                rows.pop(row["id"], None)
                if row["deleted"] == "false":
                    rows[row["id"]] = row
            counts[table] = len(loaded)
        self.last_run = manifest["run"]
        return counts

    def _file(self, run: ExportRun, file: dict[str, Any]) -> list[dict[str, str]]:
        content = self.store.files[f"{run.folder}/{file['name']}"]
        assert (len(content), sha256(content).hexdigest()) == (file["bytes"], file["sha256"])
        rows = read_csv(content)
        assert len(rows) == file["rows"]
        return rows


def a_segment(workspace: Workspace, scope: str, name: str, **condition: Any) -> Segment:
    return Segment.objects.create(
        workspace=workspace, scope=scope, name=name, conditions=[{"kind": "trait", **condition}]
    )


def at_hour(hour: int, day: int = 24) -> datetime:
    return NOON.replace(day=day, hour=hour)
