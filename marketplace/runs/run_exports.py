"""The export of a list that a run reads: it is requested, waited for, and requested again if it
disappears.
"""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from django.db import transaction

from marketplace.models import FailedRecord, Report, SyncRun
from marketplace.runs import lifecycle, progress
from marketplace.runs.progress import Position
from marketplace.runs.reading import RunLists
from marketplace.source.errors import (
    ExportFailed,
    ExportPending,
    MarketplaceNotFound,
    UnexpectedResponse,
)
from marketplace.source.exports import ExportState

# Requests for the export of one list, if exports disappear.
MAX_REQUESTS: Final = 3
MAX_WAIT: Final = timedelta(hours=2)


class RequestedExport(msgspec.Struct):
    """The export of the list that a run reads. ``requests`` counts the exports of this list.

    ``counters`` are the run's license counters from before the list, if that is known: another
    export may have another order, so that the list is read and counted from its beginning. The
    ``id`` is empty if another export has to be requested, and ``is_repeated`` says that there was
    one before.
    """

    id: str
    requested_at: datetime
    requests: int = 1
    counters: dict[str, int] | None = None
    is_repeated: bool = False


def is_late(run: SyncRun, now: datetime) -> bool:
    """Whether the run has waited too long for its export."""
    if run.export is None:
        return True
    return now - msgspec.convert(run.export, RequestedExport).requested_at > MAX_WAIT


def completed_export(
    run: SyncRun, lists: RunLists, position: Position, now: datetime
) -> tuple[RequestedExport, Position]:
    """The complete export of the list, and where to continue in it. Raises ExportPending."""
    export = msgspec.convert(run.export, RequestedExport) if run.export else None
    while export is None or not export.id or not _check(lists, export):
        counters = export.counters if export else _counters_before(run, position)
        export = _request(lists, position, export, counters, now)
        # A new export may have another order.
        is_restart = position.offset > 0
        position = position._replace(offset=0)
        _store(run, export, counters if is_restart else None)
    return export, position


def _counters_before(run: SyncRun, position: Position) -> dict[str, int] | None:
    """The run's license counters from before the list at the position; None if its beginning has
    been counted already."""
    if run.trial_report:
        return dict.fromkeys(progress.LICENSE_COUNTERS, 0)
    return progress.license_counters(run) if position.offset == 0 else None


def _request(
    lists: RunLists,
    position: Position,
    previous: RequestedExport | None,
    counters: dict[str, int] | None,
    now: datetime,
) -> RequestedExport:
    """Request an export of the list at the position, in place of the *previous* one; *counters* are
    those from before the list. Raises ExportFailed after several ones."""
    requests = previous.requests + 1 if previous else 1
    if requests > MAX_REQUESTS:
        raise ExportFailed("it disappeared several times")
    query = lists.queries[position.pass_number]
    try:
        export_id = lists.client.start_export(lists.developer_id, query)
    except (MarketplaceNotFound, UnexpectedResponse):
        raise ExportFailed("it is not offered") from None
    return RequestedExport(export_id, now, requests, counters, previous is not None)


def _check(lists: RunLists, export: RequestedExport) -> bool:
    """Whether the marketplace still knows the export, which is then complete. Raises ExportPending
    and ExportFailed."""
    try:
        state = lists.client.export_state(lists.developer_id, export.id)
    except MarketplaceNotFound:
        return False
    if state == ExportState.FAILED:
        raise ExportFailed("the marketplace says that it failed")
    if state == ExportState.PENDING:
        raise ExportPending
    return True


def _store(run: SyncRun, export: RequestedExport, counters: dict[str, int] | None = None) -> None:
    """Note the export that the run waits for, in the row and in *run*.

    With *counters*, its list is read again from the beginning: they are from before the list.
    """
    values: dict[str, Any] = {"export": msgspec.to_builtins(export)}
    if counters is not None:
        values |= {**counters, "offset": 0, "recent_fingerprints": [], "page_marker": None}
    with transaction.atomic():
        lifecycle.lock_run(run)
        for name, value in values.items():
            setattr(run, name, value)
        run.save(update_fields=list(values))
        if counters is not None:
            failed_records = FailedRecord.objects.filter(run=run).values("pk")
            FailedRecord.objects.filter(pk__in=failed_records[counters["failed"] :]).delete()


def without_export(run: SyncRun) -> dict[str, Any] | None:
    """What to note of an export that is given up: the counters from before its list. None if the
    run does not read exports, but tries to."""
    if run.report != Report.EXPORT or run.export is None:
        return None
    return {**run.export, "id": "", "requests": 0}
