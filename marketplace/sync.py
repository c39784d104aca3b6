"""Working on a connection's sync: pass by pass, page by page, from where it was left."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, TypeAlias

from engagement.core.fields import DecryptionError
from marketplace import licenses, locks, runs, scheduling, texts
from marketplace.client import PAGE_SIZE, Credentials, LicenseQuery, MarketplaceClient
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

logger = logging.getLogger(__name__)

# Asked for on their own, because they come with nothing else. Source: public clients of the API.
BOUNDARIES = ("fedramp_moderate", "isolated_cloud")
# More than any vendor has licenses; a feed that goes on for longer does not end.
MAX_PAGES = 20_000
# Pages in a row without anything new, though there are more. Two are read again at a pass's end.
MAX_REPEATED_PAGES = 5

Finding = SyncRun.Finding

ClientFactory: TypeAlias = Callable[[Credentials], MarketplaceClient]
Clock: TypeAlias = Callable[[], datetime]


@dataclass(frozen=True)
class SyncEnvironment:
    """What a sync needs from outside; *out_of_time* says that another worker's turn has come.

    Pages that were read while others were written are written together, up to *pages_at_once*: a
    marketplace that is slower than this service gets each page written as it comes.
    """

    client_for: ClientFactory
    clock: Clock
    is_out_of_time: Callable[[], bool] = lambda: False
    on_pages_written: Callable[[], None] = lambda: None
    prefetch_limit: int = 4


def run_sync(connection_id: int, worker: SyncEnvironment) -> None:
    """Work on the connection's sync, if one is due and nobody else does.

    It ends when the sync is over, was put down, or *out_of_time* says so: then somebody is asked
    to go on. Raises what the database raises; the run then waits where its last page ended.
    """
    with locks.try_lock_connection(connection_id) as is_free:
        if not is_free:
            return
        run = runs.claim(connection_id, worker.clock())
        if run is not None:
            _work_on(run, worker)
    # The same one where time ran out, or another one that took its place meanwhile.
    scheduling.wake_workers(
        id for id in scheduling.due_connection_ids(worker.clock()) if id == connection_id
    )


def _work_on(run: SyncRun, worker: SyncEnvironment) -> None:
    """Take the run as far as it goes now."""
    try:
        is_over = _read_on(run, worker)
        if is_over:
            import_pending(run, run.connection.product_id, worker.clock())
    except runs.Superseded:
        return
    except MarketplaceError as failure:
        _stop(run, failure, worker.clock())
        return
    except DecryptionError:
        runs.fail(run, texts.UNDECRYPTABLE, worker.clock())
        return
    if is_over:
        runs.finish(run, worker.clock())
        logger.info("Connection %s synced: %s licenses seen.", run.connection_id, run.seen)
    elif runs.is_too_old(run, worker.clock()):
        runs.fail(run, texts.SYNC_TIMED_OUT, worker.clock())
    else:
        runs.release(run, worker.clock())


# --- Reading --------------------------------------------------------------------------------


class ParsedPage(NamedTuple):
    """A page of a list that was read *at* a position: each record's fingerprint and what it says,
    whether there are more, and the position after it. ``is_refused`` is a pass that is left out."""

    at: Position
    list_name: str
    records: list[tuple[str, ParsedRecord]]
    has_more: bool
    after: Position
    is_refused: bool = False


@dataclass(frozen=True)
class PageReader:
    """Reads a run's pages. Raises what its client raises."""

    client: MarketplaceClient
    developer_id: str
    product_id: str
    kind: str
    queries: Sequence[LicenseQuery]

    def read(self, at: Position) -> ParsedPage:
        query = self.queries[at.pass_number]
        try:
            page = self.client.licenses(self.developer_id, query, at.offset)
        except MarketplaceBadRequest:
            if at.pass_number == 0:
                raise
            return ParsedPage(
                at, query.list_name, [], False, Position(at.pass_number + 1, 0), is_refused=True
            )
        found = [
            (_fingerprint(one), licenses.parse_record(one, self.product_id)) for one in page.records
        ]
        has_more = page.has_more and bool(page.records)
        return ParsedPage(
            at, query.list_name, found, page.has_more, _after(self.kind, at, has_more)
        )

    def following(self, page: ParsedPage) -> Position | None:
        return None if self.is_end(page.after) else page.after

    def is_end(self, at: Position) -> bool:
        return at.pass_number == len(self.queries)


def _fingerprint(record: bytes) -> str:
    return hashlib.blake2b(record, digest_size=8).hexdigest()


def _after(kind: str, at: Position, has_more: bool) -> Position:
    """The position after the page that was read *at* one."""
    if has_more:
        return at._replace(offset=at.offset + PAGE_SIZE)
    if kind != SyncRun.Kind.RECENT and at.offset > 0 and not at.is_closing:
        # Rows that moved to the front while it read are on the page before the last by now.
        return Position(at.pass_number, at.offset - PAGE_SIZE, True)
    return Position(at.pass_number + 1, 0)


def _read_on(run: SyncRun, worker: SyncEnvironment) -> bool:
    """Read page after page, while those that were read before are written; whether that was all."""
    reader = _reader(run, worker.client_for)
    began, at = runs.position_of(run), _resumed_at(run)
    if reader.is_end(at):
        return True
    repeated = 0
    with Prefetcher(reader.read, reader.following, at, worker.prefetch_limit) as ahead:
        while True:
            pages = ahead.take()
            after = pages[-1].after
            # Only once it has come further than where it went on: it would never come to an end.
            is_turn_over = worker.is_out_of_time() and after.sort_key > began.sort_key
            if not is_turn_over:
                ahead.go_on(len(pages))
            repeated = _import(run, pages, repeated, worker.clock())
            if repeated > MAX_REPEATED_PAGES or run.pages > MAX_PAGES:
                raise UnexpectedResponse("its list of licenses does not end")
            worker.on_pages_written()
            if reader.is_end(after) or is_turn_over:
                return reader.is_end(after)


def _resumed_at(run: SyncRun) -> Position:
    """Where to go on: at the page that was read last, because the list may have moved meanwhile.
    The end of a list is being read a second time anyway."""
    at = runs.position_of(run)
    is_resumed = run.attempt > 1 and not run.is_closing
    return at._replace(offset=max(at.offset - PAGE_SIZE, 0)) if is_resumed else at


def _reader(run: SyncRun, client_for: ClientFactory) -> PageReader:
    """A reader of the run's connection; the token is read here and stays in its client."""
    connection = Connection.objects.defer(None).get(pk=run.connection_id)
    if connection.generation != run.generation or connection.api_token is None:
        raise runs.Superseded
    client = client_for(Credentials(connection.user_name, connection.api_token))
    product_id = str(connection.app_product_id)
    passes = queries_for(run, connection)
    return PageReader(client, connection.developer_id, product_id, run.kind, passes)


def queries_for(run: SyncRun, connection: Connection) -> list[LicenseQuery]:
    """What the run asks for, one list after the other: a full sync for all lists, a sync of changes
    for those that the last full one found in use, and for always free licenses, unless refused."""
    ask = partial(LicenseQuery, str(connection.app_product_id), updated_since=run.since)
    lists = [ask(), ask(always_free=True), *(ask(boundary=boundary) for boundary in BOUNDARIES)]
    if run.kind != SyncRun.Kind.RECENT or connection.lists is None:
        return lists
    useless = {Finding.REFUSED, Finding.EMPTY}
    found: dict[str, str] = {**connection.lists, "all": Finding.USED}
    if found.get("always_free") == Finding.EMPTY:
        # The first such license may come any day.
        found["always_free"] = Finding.USED
    return [query for query in lists if found.get(query.list_name) not in useless]


def _import(run: SyncRun, pages: Sequence[ParsedPage], repeated: int, now: datetime) -> int:
    """Import what the pages have that those before them had not; how many pages in a row had
    nothing new by now, though there are more."""
    recent: list[str] = run.recent
    outcomes: list[ParsedRecord] = []
    for page in pages:
        known = set(recent)
        fresh: dict[str, ParsedRecord] = {}
        for fingerprint, outcome in page.records:
            if fingerprint not in known:
                fresh.setdefault(fingerprint, outcome)
        outcomes += fresh.values()
        recent = [*recent, *fresh][-2 * PAGE_SIZE :]
        repeated = repeated + 1 if page.has_more and not fresh else 0
    refused = [texts.LIST_REJECTED[page.list_name] for page in pages if page.is_refused]
    lists = None if run.kind == SyncRun.Kind.RECENT else _found(run.lists or {}, pages)
    step = Step(pages[-1].after, recent, len(pages) - len(refused), " ".join(refused), lists)
    import_pages(run, run.connection.product_id, outcomes, step, now)
    return repeated


def _found(lists: dict[str, str], pages: Sequence[ParsedPage]) -> dict[str, str]:
    """What is known of the lists with these pages."""
    lists = dict(lists)
    for page in pages:
        if page.is_refused:
            lists[page.list_name] = Finding.REFUSED.value
        elif page.records:
            lists[page.list_name] = Finding.USED.value
        else:
            lists.setdefault(page.list_name, Finding.EMPTY.value)
    return lists


# --- Ending ---------------------------------------------------------------------------------


def _stop(run: SyncRun, failure: MarketplaceError, now: datetime) -> None:
    """Leave the run as the failure wants it: to be resumed, or at its end."""
    why = texts.sync_error(failure)
    logger.warning("Connection %s, sync %s: %s", run.connection_id, run.pk, why)
    match failure:
        case CredentialsRejected():
            runs.require_authentication(run, why, now)
        case MarketplaceUnavailable() if runs.is_exhausted(run, now):
            runs.fail(run, _given_up(run, failure), now)
        case MarketplaceUnavailable():
            runs.suspend(run, why, timedelta(seconds=failure.retry_after or 0), now)
        case _:
            runs.fail(run, why, now)


def _given_up(run: SyncRun, failure: MarketplaceUnavailable) -> str:
    at = queries_for(run, run.connection)[run.pass_number]
    page = run.offset // PAGE_SIZE + 1
    return texts.page_error(failure, at.list_name, page, run.backoff_count + 1)
