"""How a run reads its lists: page by page, as an export, or by start date; and what it tries
when that does not work.
"""

from datetime import datetime

from django.db import transaction

from marketplace import texts
from marketplace.models import FailedRecord, Report, SyncRun
from marketplace.runs import lifecycle, progress, run_exports
from marketplace.runs.progress import Position
from marketplace.source.errors import (
    ExportFailed,
    MarketplaceBadRequest,
    MarketplaceError,
    MarketplaceForbidden,
    MarketplaceNotFound,
    MarketplaceUnavailable,
)

State = SyncRun.State

# Failures in a row at a page before other ways to read the list are tried.
MIN_FAILURES_BEFORE_TRIAL = 2
# Failures after which an export will not come.
_NO_EXPORT = (ExportFailed, MarketplaceBadRequest, MarketplaceForbidden, MarketplaceNotFound)


def current_report(run: SyncRun) -> str:
    """The way in which the run reads, or tries to read."""
    return run.trial_report or run.report


def other_report(run: SyncRun, failure: MarketplaceError, now: datetime) -> Report | None:
    """The way to try next; None if this failure does not ask for one, or all were tried."""
    is_overloaded = isinstance(failure, MarketplaceUnavailable) and (
        failure.is_overloaded and run.backoff_count >= MIN_FAILURES_BEFORE_TRIAL
    )
    is_without_export = run.report == Report.EXPORT and isinstance(failure, _NO_EXPORT)
    if not (run.trial_report or is_overloaded or is_without_export) or lifecycle.is_too_old(
        run, now
    ):
        return None
    reports = list(Report)
    candidate = reports[(reports.index(Report(current_report(run))) + 1) % len(reports)]
    return None if candidate == run.connection.report else candidate


def has_started_over(run: SyncRun) -> bool:
    """Whether the run may read licenses again that it has written, and counts them again."""
    before = run.connection
    is_read_otherwise = run.report != before.report or run.splits_insights != before.splits_insights
    return is_read_otherwise or bool(run.export and run.export.get("is_repeated"))


def try_report(run: SyncRun, report: Report, reason: str) -> None:
    """Have any worker try another way at once. The run keeps its position until that brings a
    page."""
    lifecycle.leave(
        *(run, State.WAITING),
        trial_report=report,
        trial_reason=reason,
        export=run_exports.without_export(run),
    )


def adopt_trial(run: SyncRun) -> None:
    """Start *run* over in the way that was tried; the caller stores it. What was imported stays,
    and accounts stay counted."""
    if run.trial_report != Report.EXPORT:
        run.export = None
    run.report, run.trial_report = run.trial_report, ""
    for name, value in progress.start_values().items():
        setattr(run, name, value)


def can_split_insights(run: SyncRun) -> bool:
    """Whether the first request of the run failed, which asks for licenses of all times."""
    is_first = bool(run.trial_report) or progress.position_of(run) == Position(0, 0)
    return is_first and not run.splits_insights and current_report(run) != Report.DATES


def split_insights(run: SyncRun) -> None:
    """Have any worker request licenses from before data insights separately."""
    lifecycle.leave(run, State.WAITING, splits_insights=True, export=None)


def start_over_in_halves(run: SyncRun, note: str) -> None:
    """Have any worker do the same from the beginning. What was imported stays."""
    values = {**progress.start_values(), "note": texts.join_sentences(run.note, note)}
    with transaction.atomic():
        FailedRecord.objects.filter(run=run).delete()
        lifecycle.leave(run, State.WAITING, splits_insights=True, export=None, **values)
