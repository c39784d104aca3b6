"""A worker's turn on a connection's sync: list by list, page by page, from the last position."""

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from core.fields import DecryptionError
from core.garbage import pause_gc
from marketplace import texts
from marketplace.ledger import observations
from marketplace.models import Connection, Report, SyncRun
from marketplace.runs import (
    failures,
    insights,
    lifecycle,
    outcomes,
    progress,
    reports,
    run_exports,
    scheduling,
    steps,
)
from marketplace.runs.license_import import import_pages, import_pending, mark_unlisted
from marketplace.runs.progress import Position
from marketplace.runs.reading import ExportReader, PageReader, ParsedPage, RunLists
from marketplace.source.client import PAGE_SIZE, ClientFactory, Credentials
from marketplace.source.errors import (
    ExportFailed,
    ExportPending,
    MarketplaceBadRequest,
    MarketplaceError,
    MarketplaceForbidden,
)
from marketplace.source.prefetch import Prefetcher
from marketplace.source.queries import queries_for
from marketplace.user_names import full_user_name

logger = logging.getLogger(__name__)

EXPORT_POLL_INTERVAL = timedelta(seconds=30)

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
    prefetch_limit: int = 24


def run_sync(connection_id: int, environment: SyncEnvironment) -> None:
    """Work on the connection's sync, if it is due and no other worker does.

    Returns when the sync has ended, was suspended, or is out of time; in the last case it wakes a
    worker to resume it. Raises database errors; the run then resumes from its last position.
    """
    with lifecycle.try_lock_connection(connection_id) as is_locked:
        if not is_locked:
            return
        run = lifecycle.claim(connection_id, environment.clock())
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
            elif run.kind != SyncRun.Kind.RECENT:
                observations.note_seen(run, run.connection.product_id)
    except lifecycle.Superseded:
        return
    except outcomes.NothingUsable as outcome:
        lifecycle.fail(run, str(outcome), clock())
        return
    except insights.InsightsHidden:
        reports.start_over_in_halves(run, texts.READ_IN_HALVES)
        return
    except ExportPending:
        lifecycle.wait(run, EXPORT_POLL_INTERVAL, clock())
        return
    except MarketplaceError as failure:
        failures.stop(run, failure, clock())
        return
    except DecryptionError:
        lifecycle.fail(run, texts.UNDECRYPTABLE, clock())
        return
    if is_complete:
        lifecycle.finish(run, clock(), outcomes.describe_missing(run))
        logger.info("Connection %s synced: %s licenses seen.", run.connection_id, run.seen)
    elif lifecycle.is_too_old(run, clock()):
        lifecycle.fail(run, texts.SYNC_TIMED_OUT, clock())
    else:
        lifecycle.release(run, clock())


# --- Reading --------------------------------------------------------------------------------


def _import_lists(run: SyncRun, environment: SyncEnvironment) -> bool:
    """Import list after list, from the run's position; return whether that was all."""
    lists = _run_lists(run, environment.create_client)
    is_trial = bool(run.trial_report)
    start = Position(0, 0) if is_trial else progress.position_of(run)
    position = start if is_trial else _resume_position(run)
    while not lists.is_end(position):
        if reports.current_report(run) == Report.EXPORT:
            position = _import_export(run, lists, position, environment)
            if environment.is_out_of_time():
                break
        else:
            reader = PageReader(lists)
            position = _import_with(reader, run, lists, position, start, environment)
            break
    if not lists.is_end(position):
        return False
    _add_note(run, insights.check_complete(run, lists))
    return True


def _add_note(run: SyncRun, sentence: str) -> None:
    """Add the sentence to *run*, which the caller stores. The attempt before may have added it."""
    if sentence not in run.note:
        run.note = texts.join_sentences(run.note, sentence)


def _run_lists(run: SyncRun, create_client: ClientFactory) -> RunLists:
    """The run's lists. Only their client keeps the token."""
    connection = Connection.objects.defer(None).get(pk=run.connection_id)
    if connection.generation != run.generation or connection.api_token is None:
        raise lifecycle.Superseded
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
    position = progress.position_of(run)
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
        export, position = run_exports.completed_export(run, lists, position, now)
        with closing(ExportReader(lists, export.id)) as reader:
            return _import_with(reader, run, lists, position, None, environment)
    except ExportPending:
        if run_exports.is_late(run, now):
            raise ExportFailed("it does not become ready") from None
        raise
    except (MarketplaceBadRequest, MarketplaceForbidden) as refusal:
        page = lists.refused_page(position, refusal)
        _import(run, [page], 0, environment)
        return page.after


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
    note = ""
    if starts_over := bool(run.trial_report):
        reports.adopt_trial(run)
        note = texts.read_otherwise(run.trial_reason, run.report)
    records, fingerprints, repeated = steps.new_records(pages, run.recent_fingerprints, repeated)
    step = steps.make_step(run, pages, fingerprints, note, starts_over)
    with pause_gc():
        import_pages(run, run.connection.product_id, records, step, environment.clock())
    steps.check_end(run, step, repeated)
    environment.on_pages_written()
    return repeated
