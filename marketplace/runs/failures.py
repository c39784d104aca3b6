"""What a failure of the marketplace means for a run: another way, a pause, or its end."""

import logging
from datetime import datetime, timedelta

from marketplace import texts
from marketplace.models import SyncRun
from marketplace.runs import lifecycle, reports, run_exports
from marketplace.source.client import PAGE_SIZE
from marketplace.source.errors import (
    CredentialsRejected,
    ExportFailed,
    MarketplaceBadRequest,
    MarketplaceError,
    MarketplaceUnavailable,
)
from marketplace.source.queries import queries_for

logger = logging.getLogger(__name__)


def stop(run: SyncRun, failure: MarketplaceError, now: datetime) -> None:
    """Suspend or end the run, or have it try another way, depending on the failure."""
    logger.warning(
        "Connection %s, sync %s: %s", run.connection_id, run.pk, texts.sync_error(failure)
    )
    if isinstance(failure, CredentialsRejected):
        lifecycle.require_authentication(run, texts.sync_error(failure), now)
    elif isinstance(failure, MarketplaceBadRequest) and reports.can_split_insights(run):
        reports.split_insights(run)
    elif report := reports.other_report(run, failure, now):
        # Why another way is tried; ends a sentence.
        reason = run.trial_reason if run.trial_report else failure.reason
        reports.try_report(run, report, reason or "it rejects the request")
    elif run.trial_report:
        # The failure that led to the trial, not what other ways meet.
        _give_up_attempt(run, MarketplaceUnavailable(run.trial_reason), now)
    elif isinstance(failure, MarketplaceUnavailable | ExportFailed):
        _give_up_attempt(run, failure, now)
    else:
        lifecycle.fail(run, texts.sync_error(failure), now)


def _give_up_attempt(
    run: SyncRun, failure: MarketplaceUnavailable | ExportFailed, now: datetime
) -> None:
    """Suspend the run, or end it if this was the last attempt."""
    if lifecycle.is_exhausted(run, now):
        lifecycle.fail(run, _unreadable_page(run, failure.reason), now)
        return
    is_unavailable = isinstance(failure, MarketplaceUnavailable)
    retry_after = getattr(failure, "retry_after", None) or 0.0
    keeps_export = is_unavailable and not run.trial_report
    export = run.export if keeps_export else run_exports.without_export(run)
    delay = timedelta(seconds=retry_after)
    lifecycle.suspend(run, texts.sync_error(failure), delay, now, export=export)


def _unreadable_page(run: SyncRun, reason: str) -> str:
    # The run's own lists, not those of a trial.
    run.trial_report = ""
    query = queries_for(run, run.connection)[run.pass_number]
    page = run.offset // PAGE_SIZE + 1
    return texts.page_error(reason, query.list_name, page, run.backoff_count + 1)
