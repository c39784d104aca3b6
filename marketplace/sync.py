"""Working on a connection's sync: pass by pass, page by page, from where it was left."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from django.db import transaction

from engagement.fields import Undecryptable
from marketplace import licenses, locks, runs, sentences
from marketplace.ahead import Ahead
from marketplace.client import PAGE_SIZE, Client, Credentials, Query
from marketplace.failures import (
    CredentialsRejected,
    MarketplaceFailure,
    MarketplaceUnavailable,
    Refused,
    UnexpectedAnswer,
)
from marketplace.importing import import_page
from marketplace.licenses import Outcome
from marketplace.models import Connection, SyncRun
from marketplace.runs import Position

logger = logging.getLogger(__name__)

# Asked for on their own, because they come with nothing else. Source: public clients of the API.
BOUNDARIES = ("fedramp_moderate", "isolated_cloud")
# More than any vendor has licenses; a feed that goes on for longer does not end.
MAX_PAGES = 20_000
# Pages in a row without anything new, though there are more. Two are read again at a pass's end.
MAX_REPEATED = 5

ClientFor: TypeAlias = Callable[[Credentials], Client]
Clock: TypeAlias = Callable[[], datetime]


@dataclass(frozen=True)
class Worker:
    """What a sync needs from outside; *out_of_time* says that another worker's turn has come."""

    client_for: ClientFor
    clock: Clock
    out_of_time: Callable[[], bool] = lambda: False
    after_page: Callable[[], None] = lambda: None


def work(connection_id: int, worker: Worker) -> None:
    """Work on the connection's sync, if one is due and nobody else does.

    It ends when the sync is over, was put down, or *out_of_time* says so: then somebody is asked
    to go on. Raises what the database raises; the run then waits where its last page ended.
    """
    with locks.only_one(connection_id) as is_free:
        if not is_free:
            return
        run = runs.claim(connection_id, worker.clock())
        if run is not None:
            _work_on(run, worker)
    # The same one where time ran out, or another one that took its place meanwhile.
    runs.wake(id for id in runs.due(worker.clock()) if id == connection_id)


def _work_on(run: SyncRun, worker: Worker) -> None:
    """Take the run as far as it goes now."""
    try:
        is_over = _read_on(run, worker)
    except runs.Superseded:
        return
    except MarketplaceFailure as failure:
        _stop(run, failure, worker.clock())
        return
    except Undecryptable:
        runs.fail(run, sentences.UNDECRYPTABLE, worker.clock())
        return
    if is_over:
        runs.finish(run, worker.clock())
        logger.info("Connection %s synced: %s licenses seen.", run.connection_id, run.seen)
    else:
        runs.release(run, worker.clock())


# --- Reading --------------------------------------------------------------------------------


class Read(NamedTuple):
    """A page that was read: each record's fingerprint and what it says; whether there are more."""

    records: list[tuple[str, Outcome]]
    has_more: bool


@dataclass(frozen=True)
class Reader:
    """Reads a connection's pages. Raises what its client raises."""

    client: Client
    developer_id: str
    product_id: str
    passes: Sequence[Query]

    def read(self, at: Position) -> Read:
        page = self.client.licenses(self.developer_id, self.passes[at.pass_number], at.offset)
        found = [(_fingerprint(one), licenses.read(one, self.product_id)) for one in page.records]
        return Read(found, page.has_more)


def _fingerprint(record: bytes) -> str:
    return hashlib.blake2b(record, digest_size=8).hexdigest()


def _read_on(run: SyncRun, worker: Worker) -> bool:
    """Read page after page, each while the one before it is written; whether that was all."""
    reader = _reader(run, worker.client_for)
    began, at = runs.position_of(run), _resumed_at(run)
    repeated = 0
    with Ahead(reader.read) as pages:
        while at.pass_number < len(reader.passes):
            page = _page(pages, at)
            after = _after(run.kind, page, at)
            # Only once it has come further than where it went on: it would never come to an end.
            is_turn_over = worker.out_of_time() and after.place > began.place
            if not is_turn_over and after.pass_number < len(reader.passes):
                pages.expect(after)
            is_new = _import(run, page, after, worker.clock())
            repeated = 0 if is_new or page is None or not page.has_more else repeated + 1
            if repeated > MAX_REPEATED or run.pages > MAX_PAGES:
                raise UnexpectedAnswer("its list of licenses does not end")
            worker.after_page()
            at = after
            if is_turn_over:
                break
    return at.pass_number == len(reader.passes)


def _resumed_at(run: SyncRun) -> Position:
    """Where to go on: at the page that was read last, because the list may have moved meanwhile.
    The end of a list is being read a second time anyway."""
    at = runs.position_of(run)
    is_resumed = run.attempt > 1 and not run.is_closing
    return at._replace(offset=max(at.offset - PAGE_SIZE, 0)) if is_resumed else at


def _reader(run: SyncRun, client_for: ClientFor) -> Reader:
    """A reader of the run's connection; the token is read here and stays in its client."""
    connection = _with_token(run)
    assert connection.api_token is not None
    client = client_for(Credentials(connection.user_name, connection.api_token))
    product_id = str(connection.app_product_id)
    return Reader(client, connection.developer_id, product_id, passes_of(run, product_id))


def _with_token(run: SyncRun) -> Connection:
    connection = Connection.objects.defer(None).get(pk=run.connection_id)
    if connection.generation != run.generation or connection.api_token is None:
        raise runs.Superseded
    return connection


def passes_of(run: SyncRun, product_id: str) -> list[Query]:
    """What the run asks for, one list after the other."""
    if run.kind == SyncRun.Kind.RECENT:
        return [Query(product_id, updated_since=run.since)]
    return [
        Query(product_id),
        Query(product_id, always_free=True),
        *(Query(product_id, boundary=boundary) for boundary in BOUNDARIES),
    ]


def _page(pages: Ahead[Position, Read], at: Position) -> Read | None:
    """The page of licenses; None where the marketplace refuses a pass that is an extra."""
    try:
        return pages.read(at)
    except Refused:
        if at.pass_number == 0:
            raise
        return None


def _after(kind: str, page: Read | None, at: Position) -> Position:
    """The position after the page that was read *at* one."""
    if page is not None and page.has_more and page.records:
        return at._replace(offset=at.offset + PAGE_SIZE)
    if page is not None and kind != SyncRun.Kind.RECENT and at.offset > 0 and not at.is_closing:
        # Rows that moved to the front while it read are on the page before the last by now.
        return Position(at.pass_number, at.offset - PAGE_SIZE, True)
    return Position(at.pass_number + 1, 0)


def _import(run: SyncRun, page: Read | None, after: Position, now: datetime) -> bool:
    """Import what the page has that the last pages had not; whether there was anything."""
    if page is None:
        _skip_pass(run, after)
        return False
    known = set(run.recent)
    fresh: dict[str, Outcome] = {}
    for fingerprint, outcome in page.records:
        if fingerprint not in known:
            fresh.setdefault(fingerprint, outcome)
    recent = [*run.recent, *fresh][-2 * PAGE_SIZE :]
    product_id = run.connection.product_id
    import_page(run, product_id, list(fresh.values()), after, recent, now)
    return bool(fresh)


def _skip_pass(run: SyncRun, after: Position) -> None:
    note = sentences.PASSES_REFUSED[run.pass_number]
    with transaction.atomic(durable=True):
        runs.hold(run)
        runs.advance(run, after, run.recent, {}, note)


# --- Ending ---------------------------------------------------------------------------------


def _stop(run: SyncRun, failure: MarketplaceFailure, now: datetime) -> None:
    """Leave the run as the failure wants it: to be resumed, or at its end."""
    why = sentences.sync_stopped(failure)
    logger.warning("Connection %s, sync %s: %s", run.connection_id, run.pk, why)
    match failure:
        case CredentialsRejected():
            runs.reject(run, why, now)
        case MarketplaceUnavailable():
            runs.put_down(run, why, timedelta(seconds=failure.retry_after or 0), now)
        case _:
            runs.fail(run, why, now)
