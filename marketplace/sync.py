"""A worker's turn on a connection's sync: list by list, page by page, from the last position."""

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from engagement.core.fields import DecryptionError
from marketplace import insights, locks, outcomes, reading, runs, scheduling, texts
from marketplace.client import PAGE_SIZE, ClientFactory, Credentials
from marketplace.errors import (
    CredentialsRejected,
    ExportFailed,
    ExportPending,
    MarketplaceBadRequest,
    MarketplaceError,
    MarketplaceForbidden,
    MarketplaceNotFound,
    MarketplaceUnavailable,
    UnexpectedResponse,
)
from marketplace.license_import import import_pages, import_pending, mark_unlisted
from marketplace.licenses import ParsedRecord
from marketplace.models import Connection, Report, SyncRun
from marketplace.prefetch import Prefetcher
from marketplace.queries import queries_for
from marketplace.reading import ExportReader, PageReader, ParsedPage, RequestedExport, RunLists
from marketplace.runs import ListTotal, PageMarker, Position, Step
from marketplace.user_names import full_user_name

logger = logging.getLogger(__name__)

# More than any vendor's licenses fill: a longer feed does not end.
MAX_PAGES = 20_000
# Pages in a row without a new record, though more follow. Two are read again at a list's end.
MAX_REPEATED_PAGES = 5
# How often a page may come again before the list is taken for a circle.
MAX_PAGE_REPEATS = 2
# Failures in a row at a page before other ways to read the list are tried.
MIN_FAILURES_BEFORE_TRIAL = 2
EXPORT_POLL_INTERVAL = timedelta(seconds=30)

Finding = SyncRun.Finding

Clock: TypeAlias = Callable[[], datetime]


@dataclass(frozen=True)
class SyncEnvironment:
    """What a sync needs from outside; ``is_out_of_time`` ends the turn after the next page.

    Pages that arrive while others are being written are written together, up to
    ``prefetch_limit``. A marketplace that is slower than this service gets each page written as it
    arrives.
    """

    create_client: ClientFactory
    clock: Clock
    is_out_of_time: Callable[[], bool] = lambda: False
    on_pages_written: Callable[[], None] = lambda: None
    prefetch_limit: int = 12


def run_sync(connection_id: int, environment: SyncEnvironment) -> None:
    """Work on the connection's sync, if it is due and no other worker does.

    Returns when the sync has ended, was suspended, or is out of time; in the last case it wakes a
    worker to resume it. Raises database errors; the run then resumes from its last position.
    """
    with locks.try_lock_connection(connection_id) as is_locked:
        if not is_locked:
            return
        run = runs.claim(connection_id, environment.clock())
        if run is not None:
            _work_on(run, environment)
    # The same run if it is out of time, or one that replaced it meanwhile.
    if connection_id in scheduling.due_connection_ids(environment.clock()):
        scheduling.wake_workers([connection_id])


def _work_on(run: SyncRun, environment: SyncEnvironment) -> None:
    """Take the run as far as possible in this turn, and set its new state."""
    clock = environment.clock
    try:
        is_complete = _import_lists(run, environment)
        if is_complete:
            import_pending(run, run.connection.product_id, clock())
            outcomes.check_usable(run)
            if outcomes.is_exhaustive(run):
                mark_unlisted(run, run.connection.product_id, clock())
    except runs.Superseded:
        return
    except outcomes.NothingUsable as outcome:
        runs.fail(run, str(outcome), clock())
        return
    except insights.InsightsHidden:
        runs.start_over_in_halves(run, texts.READ_IN_HALVES)
        return
    except ExportPending:
        runs.wait(run, EXPORT_POLL_INTERVAL, clock())
        return
    except MarketplaceError as failure:
        _stop(run, failure, clock())
        return
    except DecryptionError:
        runs.fail(run, texts.UNDECRYPTABLE, clock())
        return
    if is_complete:
        runs.finish(run, clock(), outcomes.describe_missing(run))
        logger.info("Connection %s synced: %s licenses seen.", run.connection_id, run.seen)
    elif runs.is_too_old(run, clock()):
        runs.fail(run, texts.SYNC_TIMED_OUT, clock())
    else:
        runs.release(run, clock())


# --- Reading --------------------------------------------------------------------------------


def _import_lists(run: SyncRun, environment: SyncEnvironment) -> bool:
    """Import list after list, from the run's position; return whether that was all."""
    lists = _run_lists(run, environment.create_client)
    is_trial = bool(run.trial_report)
    start = Position(0, 0) if is_trial else runs.position_of(run)
    position = start if is_trial else _resume_position(run)
    while not lists.is_end(position):
        if _report(run) == Report.EXPORT:
            position = _import_export(run, lists, position, environment)
            if environment.is_out_of_time():
                break
        else:
            reader = PageReader(lists)
            position = _import_with(reader, run, lists, position, start, environment)
            break
    if not lists.is_end(position):
        return False
    insights.check_complete(run, lists)
    return True


def _report(run: SyncRun) -> str:
    return run.trial_report or run.report


def _run_lists(run: SyncRun, create_client: ClientFactory) -> RunLists:
    """The run's lists. Only their client keeps the token."""
    connection = Connection.objects.defer(None).get(pk=run.connection_id)
    if connection.generation != run.generation or connection.api_token is None:
        raise runs.Superseded
    return RunLists(
        create_client(Credentials(full_user_name(connection), connection.api_token)),
        connection.developer_id,
        str(connection.app_product_id),
        run.kind,
        queries_for(run, connection),
    )


def _resume_position(run: SyncRun) -> Position:
    """Where to resume: at the page that was read last, because the list may have moved. The end of
    a list is being read again anyway, and an export does not change."""
    position = runs.position_of(run)
    if run.attempt == 1 or run.is_closing or run.report == Report.EXPORT:
        return position
    return position._replace(offset=max(position.offset - PAGE_SIZE, 0))


def _import_export(
    run: SyncRun, lists: RunLists, position: Position, environment: SyncEnvironment
) -> Position:
    """Import the list's export, in one turn because it is one response; return the position after
    it. Raises ExportPending."""
    now = environment.clock()
    try:
        export, position = _completed_export(run, lists, position, now)
        with closing(ExportReader(lists, export.id)) as reader:
            return _import_with(reader, run, lists, position, None, environment)
    except ExportPending:
        if run.export is None or msgspec.convert(run.export, RequestedExport).is_late(now):
            raise ExportFailed("it does not become ready") from None
        raise
    except (MarketplaceBadRequest, MarketplaceForbidden) as refusal:
        page = lists.refused_page(position, refusal)
        _import(run, [page], 0, environment)
        return page.after


def _completed_export(
    run: SyncRun, lists: RunLists, position: Position, now: datetime
) -> tuple[RequestedExport, Position]:
    """The complete export of the list, and where to continue in it. Raises ExportPending."""
    export = msgspec.convert(run.export, RequestedExport) if run.export else None
    while export is None or not export.id or not reading.check_export(lists, export):
        counters = export.counters if export else _counters_before(run, position)
        export = reading.request_export(lists, position, export, counters, now)
        # A new export may have another order.
        is_restart = position.offset > 0
        position = position._replace(offset=0)
        runs.store_export(run, export, counters if is_restart else None)
    return export, position


def _counters_before(run: SyncRun, position: Position) -> dict[str, int] | None:
    """The run's license counters from before the list at the position; None if its beginning has
    been counted already."""
    if run.trial_report:
        return dict.fromkeys(runs.LICENSE_COUNTERS, 0)
    return runs.license_counters(run) if position.offset == 0 else None


# --- Importing ------------------------------------------------------------------------------


def _import_with(
    reader: PageReader | ExportReader,
    run: SyncRun,
    lists: RunLists,
    first: Position,
    start: Position | None,
    environment: SyncEnvironment,
) -> Position:
    """Import page after page while the next ones are being read; return the position after them.

    Stops when the turn that began at *start* is out of time, if that is not None.
    """
    repeated = 0
    position = first
    with Prefetcher(
        reader.read, reader.next_position, first, environment.prefetch_limit
    ) as prefetcher:
        while True:
            pages = prefetcher.get_ready()
            position = pages[-1].after
            # A turn that made no progress continues, or the run would never end.
            is_last = (
                start is not None
                and environment.is_out_of_time()
                and position.sort_key > start.sort_key
            )
            if not is_last:
                prefetcher.allow(len(pages))
            repeated = _import(run, pages, repeated, environment)
            if is_last or reader.next_position(pages[-1]) is None:
                return position


def _import(
    run: SyncRun, pages: Sequence[ParsedPage], repeated: int, environment: SyncEnvironment
) -> int:
    """Import the records that the pages before did not contain. Return the number of pages in a
    row without such records, though more follow."""
    notes = []
    if starts_over := bool(run.trial_report):
        runs.adopt_trial(run)
        notes.append(texts.read_otherwise(run.trial_reason, run.report))
    fingerprints: list[str] = run.recent_fingerprints
    records: list[ParsedRecord] = []
    for page in pages:
        known_fingerprints = set(fingerprints)
        new: dict[str, ParsedRecord] = {}
        for fingerprint, record in page.records:
            if fingerprint not in known_fingerprints:
                new.setdefault(fingerprint, record)
        records += new.values()
        fingerprints = [*fingerprints, *new][-2 * PAGE_SIZE :]
        repeated = repeated + 1 if page.has_more and not new else 0
    refused = {page.list_name: page.refusal for page in pages if page.refusal}
    notes += [texts.refused_list(name, refusal) for name, refusal in refused.items()]
    step = Step(
        pages[-1].after,
        fingerprints,
        len(pages) - len(refused),
        " ".join(notes),
        None if run.kind == SyncRun.Kind.RECENT else _update_findings(run.lists or {}, pages),
        _update_totals(run.totals or {}, pages),
        _update_marker(run.page_marker, pages, runs.position_of(run)),
        starts_over,
    )
    import_pages(run, run.connection.product_id, records, step, environment.clock())
    is_circle = step.page_marker is not None and step.page_marker.repeats > MAX_PAGE_REPEATS
    if repeated > MAX_REPEATED_PAGES or is_circle or run.pages > MAX_PAGES:
        raise UnexpectedResponse("its list of licenses does not end")
    environment.on_pages_written()
    return repeated


def _update_findings(findings: dict[str, str], pages: Sequence[ParsedPage]) -> dict[str, str]:
    """The ``Finding`` for each list, updated by these pages."""
    findings = dict(findings)
    for page in pages:
        if page.refusal:
            findings[page.list_name] = Finding.REFUSED.value
        elif page.records:
            findings[page.list_name] = Finding.USED.value
        else:
            findings.setdefault(page.list_name, Finding.EMPTY.value)
    return findings


def _update_totals(
    totals: dict[str, Sequence[Any]], pages: Sequence[ParsedPage]
) -> dict[str, ListTotal]:
    """The ``ListTotal`` of each list, updated by the lists or parts that end with these pages."""
    updated = {name: ListTotal(*total) for name, total in totals.items()}
    for page in pages:
        if not page.ends_list:
            continue
        total = updated.get(page.list_name, ListTotal())
        is_reported = page.total is not None or total.reported is not None
        updated[page.list_name] = ListTotal(
            (page.total or 0) + (total.reported or 0) if is_reported else None,
            total.received + page.end,
            total.is_cut or page.is_cut,
        )
    return updated


def _update_marker(
    stored: Sequence[Any] | None, pages: Sequence[ParsedPage], position: Position
) -> PageMarker | None:
    """The marker of the list that the last of these pages belongs to. Pages before *position* were
    read again on purpose."""
    marker = PageMarker(*stored) if stored else None
    for page in pages:
        if not page.records or page.at.is_closing or page.at.sort_key < position.sort_key:
            continue
        fingerprint = page.fingerprint
        if marker is None or marker.pass_number != page.at.pass_number:
            marker = PageMarker(page.at.pass_number, fingerprint)
            continue
        repeats = marker.repeats + (fingerprint == marker.fingerprint)
        marker = marker._replace(pages=marker.pages + 1, repeats=repeats)
        if marker.pages == marker.limit and repeats <= MAX_PAGE_REPEATS:
            marker = PageMarker(page.at.pass_number, fingerprint, 2 * marker.limit)
    return marker


# --- Failures -------------------------------------------------------------------------------


def _stop(run: SyncRun, failure: MarketplaceError, now: datetime) -> None:
    """Suspend or end the run, or have it try another way, depending on the failure."""
    logger.warning(
        "Connection %s, sync %s: %s", run.connection_id, run.pk, texts.sync_error(failure)
    )
    if isinstance(failure, CredentialsRejected):
        runs.require_authentication(run, texts.sync_error(failure), now)
    elif isinstance(failure, MarketplaceBadRequest) and _can_split_insights(run):
        runs.split_insights(run)
    elif report := _other_report(run, failure, now):
        runs.try_report(run, report, run.trial_reason if run.trial_report else _cause(failure))
    elif run.trial_report:
        # The failure that led to the trial, not what other ways meet.
        _give_up_attempt(run, MarketplaceUnavailable(run.trial_reason), now)
    elif isinstance(failure, MarketplaceUnavailable | ExportFailed):
        _give_up_attempt(run, failure, now)
    else:
        runs.fail(run, texts.sync_error(failure), now)


def _give_up_attempt(
    run: SyncRun, failure: MarketplaceUnavailable | ExportFailed, now: datetime
) -> None:
    """Suspend the run, or end it if this was the last attempt."""
    if runs.is_exhausted(run, now):
        runs.fail(run, _unreadable_page(run, failure.reason), now)
        return
    is_unavailable = isinstance(failure, MarketplaceUnavailable)
    retry_after = getattr(failure, "retry_after", None) or 0.0
    export = None if run.trial_report else run.export
    if export is not None and not is_unavailable:
        export = {**export, "id": "", "requests": 0}
    delay = timedelta(seconds=retry_after)
    runs.suspend(run, texts.sync_error(failure), delay, now, export=export)


def _can_split_insights(run: SyncRun) -> bool:
    """Whether the first request of the run failed, which asks for licenses of all times."""
    is_first = bool(run.trial_report) or runs.position_of(run) == Position(0, 0)
    return is_first and not run.splits_insights and _report(run) != Report.DATES


def _other_report(run: SyncRun, failure: MarketplaceError, now: datetime) -> Report | None:
    """The way to try next; None if this failure does not ask for one, or all were tried."""
    is_overloaded = isinstance(failure, MarketplaceUnavailable) and (
        failure.is_overloaded and run.backoff_count >= MIN_FAILURES_BEFORE_TRIAL
    )
    is_without_export = run.report == Report.EXPORT and isinstance(failure, _NO_EXPORT)
    if not (run.trial_report or is_overloaded or is_without_export) or runs.is_too_old(run, now):
        return None
    reports = list(Report)
    candidate = reports[(reports.index(Report(_report(run))) + 1) % len(reports)]
    return None if candidate == run.connection.report else candidate


# Failures after which an export will not come.
_NO_EXPORT = (ExportFailed, MarketplaceBadRequest, MarketplaceForbidden, MarketplaceNotFound)


def _cause(failure: MarketplaceError) -> str:
    """Why another way is tried; ends a sentence."""
    return getattr(failure, "reason", "it rejects the request")


def _unreadable_page(run: SyncRun, reason: str) -> str:
    # The run's own lists, not those of a trial.
    run.trial_report = ""
    query = queries_for(run, run.connection)[run.pass_number]
    page = run.offset // PAGE_SIZE + 1
    return texts.page_error(reason, query.list_name, page, run.backoff_count + 1)
