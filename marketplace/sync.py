"""A worker's turn on a connection's sync: list by list, page by page, from the last position."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, TypeAlias

from engagement.core.fields import DecryptionError
from marketplace import licenses, locks, runs, scheduling, texts
from marketplace.client import (
    PAGE_SIZE,
    ClientFactory,
    Credentials,
    LicenseQuery,
    MarketplaceClient,
)
from marketplace.errors import (
    CredentialsRejected,
    MarketplaceBadRequest,
    MarketplaceError,
    MarketplaceUnavailable,
    UnexpectedResponse,
)
from marketplace.license_import import import_pages, import_pending
from marketplace.licenses import ParsedRecord
from marketplace.models import Connection, SyncRun
from marketplace.prefetch import Prefetcher
from marketplace.runs import Position, Step
from marketplace.user_names import full_user_name

logger = logging.getLogger(__name__)

# Special clouds, whose licenses come in lists of their own. Source: public clients of the API.
BOUNDARIES = ("fedramp_moderate", "isolated_cloud")
# More than any vendor's licenses fill: a longer feed does not end.
MAX_PAGES = 20_000
# Pages in a row without a new record, though more follow. Two are read again at a list's end.
MAX_REPEATED_PAGES = 5

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
    prefetch_limit: int = 4


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
    except runs.Superseded:
        return
    except MarketplaceError as failure:
        _stop(run, failure, clock())
        return
    except DecryptionError:
        runs.fail(run, texts.UNDECRYPTABLE, clock())
        return
    if is_complete:
        runs.finish(run, clock())
        logger.info("Connection %s synced: %s licenses seen.", run.connection_id, run.seen)
    elif runs.is_too_old(run, clock()):
        runs.fail(run, texts.SYNC_TIMED_OUT, clock())
    else:
        runs.release(run, clock())


# --- Reading --------------------------------------------------------------------------------


class ParsedPage(NamedTuple):
    """A page of a list: each record's fingerprint and content, whether another page follows in the
    list, and the position after it. ``is_rejected`` means that the list is left out."""

    list_name: str
    records: list[tuple[str, ParsedRecord]]
    has_more: bool
    after: Position
    is_rejected: bool = False


@dataclass(frozen=True)
class PageReader:
    """Reads a run's pages. Raises what its client raises."""

    client: MarketplaceClient
    developer_id: str
    product_id: str
    kind: str
    queries: Sequence[LicenseQuery]

    def read(self, position: Position) -> ParsedPage:
        query = self.queries[position.pass_number]
        try:
            page = self.client.licenses(self.developer_id, query, position.offset)
        except MarketplaceBadRequest:
            if position.pass_number == 0:
                raise
            after = Position(position.pass_number + 1, 0)
            return ParsedPage(query.list_name, [], False, after, is_rejected=True)
        records = licenses.parse_records(page.records, self.product_id)
        after = _after(self.kind, position, page.has_more and bool(records))
        return ParsedPage(query.list_name, records, page.has_more, after)

    def next_position(self, page: ParsedPage) -> Position | None:
        return None if self.is_end(page.after) else page.after

    def is_end(self, position: Position) -> bool:
        return position.pass_number == len(self.queries)


def _after(kind: str, position: Position, has_more: bool) -> Position:
    """The position after the page at *position*."""
    if has_more:
        return position._replace(offset=position.offset + PAGE_SIZE)
    if kind != SyncRun.Kind.RECENT and position.offset > 0 and not position.is_closing:
        # Rows that moved forward in the meantime are now on the page before the last.
        return Position(position.pass_number, position.offset - PAGE_SIZE, True)
    return Position(position.pass_number + 1, 0)


def _create_reader(run: SyncRun, create_client: ClientFactory) -> PageReader:
    """A reader for the run's connection. Only its client keeps the token."""
    connection = Connection.objects.defer(None).get(pk=run.connection_id)
    if connection.generation != run.generation or connection.api_token is None:
        raise runs.Superseded
    return PageReader(
        create_client(Credentials(full_user_name(connection), connection.api_token)),
        connection.developer_id,
        str(connection.app_product_id),
        run.kind,
        queries_for(run, connection),
    )


def queries_for(run: SyncRun, connection: Connection) -> list[LicenseQuery]:
    """The lists that the run reads, one after the other.

    A full sync reads all of them. A sync of recent changes reads those in which the last full sync
    found licenses, and the always free licenses unless the marketplace rejected that list.
    """
    make_query = partial(
        LicenseQuery,
        str(connection.app_product_id),
        updated_since=run.since,
        includes_staff=connection.includes_staff_licenses,
    )
    queries = [
        make_query(),
        make_query(always_free=True),
        *(make_query(boundary=boundary) for boundary in BOUNDARIES),
    ]
    if run.kind != SyncRun.Kind.RECENT or connection.lists is None:
        return queries
    findings: dict[str, str] = {**connection.lists, "all": Finding.USED}
    if findings.get("always_free") == Finding.EMPTY:
        # The first such license may come any day.
        findings["always_free"] = Finding.USED
    left_out = {Finding.REFUSED, Finding.EMPTY}
    return [query for query in queries if findings.get(query.list_name) not in left_out]


# --- Importing ------------------------------------------------------------------------------


def _import_lists(run: SyncRun, environment: SyncEnvironment) -> bool:
    """Import page after page while the next ones are being read; return whether that was all."""
    reader = _create_reader(run, environment.create_client)
    start, first = runs.position_of(run), _resume_position(run)
    if reader.is_end(first):
        return True
    repeated = 0
    with Prefetcher(
        reader.read, reader.next_position, first, environment.prefetch_limit
    ) as prefetcher:
        while True:
            pages = prefetcher.get_ready()
            after = pages[-1].after
            # A turn that made no progress continues, or the run would never end.
            is_last = environment.is_out_of_time() and after.sort_key > start.sort_key
            if not is_last:
                prefetcher.allow(len(pages))
            repeated = _import(run, pages, repeated, environment.clock())
            if repeated > MAX_REPEATED_PAGES or run.pages > MAX_PAGES:
                raise UnexpectedResponse("its list of licenses does not end")
            environment.on_pages_written()
            if reader.is_end(after) or is_last:
                return reader.is_end(after)


def _resume_position(run: SyncRun) -> Position:
    """Where to resume: at the page that was read last, because the list may have moved. The end of
    a list is being read again anyway."""
    position = runs.position_of(run)
    is_resumed = run.attempt > 1 and not run.is_closing
    return position._replace(offset=max(position.offset - PAGE_SIZE, 0)) if is_resumed else position


def _import(run: SyncRun, pages: Sequence[ParsedPage], repeated: int, now: datetime) -> int:
    """Import the records that the pages before did not contain. Return the number of pages in a
    row without such records, though more follow."""
    fingerprints: list[str] = run.recent
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
    notes = [texts.LIST_REJECTED[page.list_name] for page in pages if page.is_rejected]
    step = Step(
        pages[-1].after,
        fingerprints,
        len(pages) - len(notes),
        " ".join(notes),
        None if run.kind == SyncRun.Kind.RECENT else _update_findings(run.lists or {}, pages),
    )
    import_pages(run, run.connection.product_id, records, step, now)
    return repeated


def _update_findings(findings: dict[str, str], pages: Sequence[ParsedPage]) -> dict[str, str]:
    """The ``Finding`` for each list, updated by these pages."""
    findings = dict(findings)
    for page in pages:
        if page.is_rejected:
            findings[page.list_name] = Finding.REFUSED.value
        elif page.records:
            findings[page.list_name] = Finding.USED.value
        else:
            findings.setdefault(page.list_name, Finding.EMPTY.value)
    return findings


# --- Failures -------------------------------------------------------------------------------


def _stop(run: SyncRun, failure: MarketplaceError, now: datetime) -> None:
    """Suspend or end the run, depending on the failure."""
    reason = texts.sync_error(failure)
    logger.warning("Connection %s, sync %s: %s", run.connection_id, run.pk, reason)
    match failure:
        case CredentialsRejected():
            runs.require_authentication(run, reason, now)
        case MarketplaceUnavailable() if runs.is_exhausted(run, now):
            runs.fail(run, _unreadable_page(run, failure), now)
        case MarketplaceUnavailable():
            runs.suspend(run, reason, timedelta(seconds=failure.retry_after or 0), now)
        case _:
            runs.fail(run, reason, now)


def _unreadable_page(run: SyncRun, failure: MarketplaceUnavailable) -> str:
    query = queries_for(run, run.connection)[run.pass_number]
    page = run.offset // PAGE_SIZE + 1
    return texts.page_error(failure, query.list_name, page, run.backoff_count + 1)
