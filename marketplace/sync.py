"""Working on a connection's sync: pass by pass, page by page, from where it was left."""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from django.db import transaction

from engagement.fields import Undecryptable
from marketplace import licenses, locks, runs, sentences
from marketplace.client import PAGE_SIZE, Client, Credentials, Page, Query
from marketplace.failures import (
    CredentialsRejected,
    MarketplaceFailure,
    MarketplaceUnavailable,
    Refused,
    UnexpectedAnswer,
)
from marketplace.importing import import_page
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


def _read_on(run: SyncRun, worker: Worker) -> bool:
    """Read page after page; whether all of them have been read."""
    connection = _with_token(run)
    assert connection.api_token is not None
    client = worker.client_for(Credentials(connection.user_name, connection.api_token))
    passes = passes_of(run, str(connection.app_product_id))
    began = runs.position_of(run)
    offset = _resumed_at(run)
    repeated = 0
    while run.pass_number < len(passes):
        page = _page(client, connection.developer_id, run, passes[run.pass_number], offset)
        if page is None:
            _skip_pass(run)
        else:
            is_new = _import(run, connection, page, offset, worker.clock())
            repeated = repeated + 1 if page.has_more and not is_new else 0
        if repeated > MAX_REPEATED or run.pages > MAX_PAGES:
            raise UnexpectedAnswer("its list of licenses does not end")
        worker.after_page()
        offset = run.offset
        # Only once it has come further than where it went on: it would never come to an end.
        if worker.out_of_time() and runs.position_of(run).place > began.place:
            return run.pass_number == len(passes)
    return True


def _resumed_at(run: SyncRun) -> int:
    """The offset to go on from: that of the page that was read last, because the list may have
    moved meanwhile. The end of a list is being read a second time anyway."""
    is_resumed = run.attempt > 1 and not run.is_closing
    return max(run.offset - PAGE_SIZE, 0) if is_resumed else run.offset


def _with_token(run: SyncRun) -> Connection:
    """The run's connection with its token, which is read here and stays in the client."""
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


def _page(
    client: Client, developer_id: str, run: SyncRun, query: Query, offset: int
) -> Page | None:
    """The page of licenses; None where the marketplace refuses a pass that is an extra."""
    try:
        return client.licenses(developer_id, query, offset)
    except Refused:
        if run.pass_number == 0:
            raise
        return None


def _skip_pass(run: SyncRun) -> None:
    note = sentences.PASSES_REFUSED[run.pass_number]
    with transaction.atomic(durable=True):
        runs.hold(run)
        runs.advance(run, Position(run.pass_number + 1, 0), run.recent, {}, note)


def _import(run: SyncRun, connection: Connection, page: Page, offset: int, now: datetime) -> bool:
    """Import what the page has that the last pages had not; whether there was anything."""
    known = set(run.recent)
    fresh = []
    for record in page.records:
        fingerprint = hashlib.blake2b(record, digest_size=8).hexdigest()
        if fingerprint not in known:
            known.add(fingerprint)
            fresh.append((fingerprint, record))
    product_id = str(connection.app_product_id)
    outcomes = [licenses.read(record, product_id) for _, record in fresh]
    recent = [*run.recent, *(fingerprint for fingerprint, _ in fresh)][-2 * PAGE_SIZE :]
    import_page(run, connection.product_id, outcomes, _next(run, page, offset), recent, now)
    return bool(fresh)


def _next(run: SyncRun, page: Page, offset: int) -> Position:
    """The position after the page at *offset*."""
    if page.has_more and page.records:
        return Position(run.pass_number, offset + PAGE_SIZE, run.is_closing)
    if run.kind != SyncRun.Kind.RECENT and offset > 0 and not run.is_closing:
        # Rows that moved to the front while it read are on the page before the last by now.
        return Position(run.pass_number, offset - PAGE_SIZE, True)
    return Position(run.pass_number + 1, 0)


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
