"""Reads a report beside the licenses, step by step, for a connection's job.

Rows are written as they arrive, and writing one again changes nothing: after a crash, the part that
was being read is read again. A failure concerns this report alone.
"""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, ClassVar, Final, LiteralString

import msgspec

from core.database import sql
from core.fields import DecryptionError
from core.jobs import run as jobs
from core.jobs.kinds import Done, Later, More, Outcome, StepFailed
from core.jobs.shares import time_limit
from core.models import Job
from marketplace import texts
from marketplace.models import Connection, ReportReading
from marketplace.runs.report_positions import Door, Position
from marketplace.source import client as clients
from marketplace.source.client import Credentials, MarketplaceClient, ReportQuery
from marketplace.source.errors import (
    CredentialsRejected,
    EndlessList,
    ExportFailed,
    MarketplaceBadRequest,
    MarketplaceError,
    MarketplaceForbidden,
    MarketplaceNotFound,
    MarketplaceUnavailable,
    UnexpectedResponse,
)
from marketplace.source.exports import ExportState
from marketplace.user_names import full_user_name

logger = logging.getLogger(__name__)

# Longer than a client takes for one request, with all attempts. Each write renews it.
LEASE: Final = timedelta(minutes=5)
# Seconds after which a step ends, so that others get their turn.
STEP_SECONDS: Final = 20.0
POLL_INTERVAL: Final = timedelta(seconds=30)
MAX_EXPORT_WAIT: Final = timedelta(hours=2)
# A report that the marketplace refuses is requested again after this time.
REFUSAL_PAUSE: Final = timedelta(days=1)
# Failures in a row in one way, before another one is tried.
MAX_FAILURES: Final = 3
ROWS_PER_WRITE: Final = 500
_NO_EXPORT = (
    MarketplaceBadRequest,
    MarketplaceForbidden,
    MarketplaceNotFound,
    UnexpectedResponse,
    ExportFailed,
)


class ConnectionChanged(Exception):
    """The connection was disconnected, or has other details. Nothing is written."""


@dataclass
class Attempt:
    """What a step reads with, and its worker's right to write."""

    job: Job
    connection: Connection
    reading: ReportReading
    position: Position
    client: MarketplaceClient
    began_at: datetime
    _started: float = field(default_factory=time.monotonic)

    @property
    def now(self) -> datetime:
        return self.began_at + timedelta(seconds=time.monotonic() - self._started)

    @property
    def cursor(self) -> Any:
        return msgspec.to_builtins(self.position)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction in which this worker has the job, and the connection its details.

        Raises LeaseLost and ConnectionChanged.
        """
        identity = {"id": self.connection.pk, "generation": self.position.generation}
        with jobs.holding(self.job, self.now + LEASE):
            if not sql.fetch(_LOCK, identity):
                raise ConnectionChanged
            yield


# As a sync's pages do: the product first, as every eraser does.
_LOCK: LiteralString = """
    SELECT FROM marketplace_connection c
    JOIN engagement_product p ON p.id = c.product_id
    WHERE c.id = %(id)s AND c.generation = %(generation)s AND c.state = 'active'
      AND p.deletion_requested_at IS NULL
    FOR KEY SHARE OF p FOR SHARE OF c
"""


class Source(ABC):
    """A report: which lists it has, and what becomes of its rows."""

    report: ReportReading.Report
    # The ways to read it, the best first.
    doors: ClassVar[tuple[Door, ...]] = (Door.EXPORT, Door.PAGES)

    @abstractmethod
    def begin(self, reading: ReportReading, connection: Connection, now: datetime) -> Position:
        """Where a new reading begins."""

    @abstractmethod
    def queries(self, attempt: Attempt) -> Sequence[ReportQuery]:
        """The lists of the report, or their parts."""

    @abstractmethod
    def store(self, attempt: Attempt, records: Sequence[msgspec.Raw]) -> int:
        """Write the records, in the caller's transaction; return how many are usable."""

    @abstractmethod
    def end(self, attempt: Attempt) -> Outcome:
        """What follows a reading that is complete. Its job's transaction is the caller's."""

    def refuse(self, attempt: Attempt) -> Outcome:
        """What follows a reading that the marketplace refuses."""
        return Later(attempt.now + REFUSAL_PAUSE)

    def read_part(self, attempt: Attempt, query: ReportQuery) -> Outcome | None:
        """Read the rest of the list, or a page of it. Returns what to do if that cannot go on."""
        if attempt.position.door == Door.EXPORT:
            return _read_export(self, attempt, query)
        _read_page(self, attempt, query)
        return None

    def next_door(self, position: Position) -> bool:
        """Read on in the next way. Returns whether there is one."""
        place = self.doors.index(position.door) + 1
        if place == len(self.doors):
            return False
        position.open(self.doors[place], position.part)
        return True

    def take_step(self, attempt: Attempt) -> Outcome:
        """Read until the step is out of time. Raises a MarketplaceError."""
        out_of_time = time_limit(STEP_SECONDS)
        position = attempt.position
        # Another way may have other parts.
        while position.part < len(queries := self.queries(attempt)):
            if outcome := self.read_part(attempt, queries[position.part]):
                return outcome
            if out_of_time():
                break
        else:
            with attempt.writing():
                return self.end(attempt)
        return More(attempt.cursor, position.part, len(queries))


def read_next(source: Source, job: Job, now: datetime) -> Outcome:
    """Read on in the job's report."""
    connection = find_active(int(job.key))
    if connection is None:
        return Done()
    reading, _ = ReportReading.objects.get_or_create(connection=connection, report=source.report)
    position = msgspec.convert(job.cursor, Position) if job.cursor else None
    if position is None or position.generation != connection.generation:
        position = source.begin(reading, connection, now)
    try:
        client = client_of(connection)
    except DecryptionError:
        _note_problem(reading, texts.UNDECRYPTABLE, now)
        return Later(now + REFUSAL_PAUSE)
    attempt = Attempt(job, connection, reading, position, client, now)
    try:
        return source.take_step(attempt)
    except ConnectionChanged:
        return Done()
    except MarketplaceError as failure:
        return _stop(source, attempt, failure)


def find_active(connection_id: int) -> Connection | None:
    """The connection with its credentials; None if it does not sync, or has not yet."""
    active = Connection.objects.defer(None).filter(
        state=Connection.State.ACTIVE,
        full_synced_at__isnull=False,
        product__deletion_requested_at=None,
    )
    return active.filter(pk=connection_id).first()


def client_of(connection: Connection) -> MarketplaceClient:
    """A client with the connection's credentials. Raises DecryptionError."""
    assert connection.api_token is not None
    credentials = Credentials(full_user_name(connection), connection.api_token)
    return clients.create_client(credentials, clients.BACKGROUND_RETRY_POLICY)


# --- Failures -------------------------------------------------------------------------------


def _stop(source: Source, attempt: Attempt, failure: MarketplaceError) -> Outcome:
    """Try again later, or in another way."""
    sentence = texts.report_error(source.report, failure)
    logger.warning("Connection %s: %s", attempt.connection.pk, sentence)
    may_pass = isinstance(failure, MarketplaceUnavailable | ExportFailed | UnexpectedResponse)
    if may_pass and not isinstance(failure, EndlessList):
        if attempt.job.failures + 1 < MAX_FAILURES or not source.next_door(attempt.position):
            _note_problem(attempt.reading, sentence, attempt.now)
            raise StepFailed(sentence)
        return More(attempt.cursor)
    is_wrong_way = isinstance(failure, MarketplaceBadRequest | EndlessList)
    if is_wrong_way and source.next_door(attempt.position):
        return More(attempt.cursor)
    _note_problem(attempt.reading, sentence, attempt.now)
    if isinstance(failure, CredentialsRejected):
        # The next sync says so, and pauses the connection.
        return Later(attempt.now + REFUSAL_PAUSE)
    return source.refuse(attempt)


def _note_problem(reading: ReportReading, sentence: str, now: datetime) -> None:
    ReportReading.objects.filter(pk=reading.pk).update(problem=sentence, failed_at=now)


# --- Ways to read ---------------------------------------------------------------------------


def _read_page(source: Source, attempt: Attempt, query: ReportQuery) -> None:
    position = attempt.position
    page = attempt.client.page(attempt.connection.developer_id, query, position.offset)
    write(source, attempt, page.records)
    position.pass_page(page)


def write(source: Source, attempt: Attempt, records: Sequence[msgspec.Raw]) -> None:
    if records:
        with attempt.writing():
            attempt.position.rows += source.store(attempt, records)


def _read_export(source: Source, attempt: Attempt, query: ReportQuery) -> Outcome | None:
    """Read the list's export, or wait for it. If there is none, read the list in the next way."""
    try:
        is_ready = _is_export_ready(attempt, query)
    except _NO_EXPORT:
        source.next_door(attempt.position)
        return None
    if not is_ready or not _read_file(source, attempt, query):
        return Later(attempt.now + POLL_INTERVAL, attempt.cursor)
    attempt.position.begin_part(attempt.position.part + 1)
    return None


def _is_export_ready(attempt: Attempt, query: ReportQuery) -> bool:
    """Request the export unless that was done. Raises one of ``_NO_EXPORT`` if none will come."""
    position, space = attempt.position, attempt.connection.developer_id
    if not position.export_id or position.exported_at is None:
        position.export_id = attempt.client.start_export(space, query)
        position.exported_at = attempt.now
    state = attempt.client.export_state(space, position.export_id, query.path)
    is_late = attempt.now - position.exported_at > MAX_EXPORT_WAIT
    if state == ExportState.FAILED or (state == ExportState.PENDING and is_late):
        raise ExportFailed("it does not become ready")
    return state == ExportState.COMPLETED


def _read_file(source: Source, attempt: Attempt, query: ReportQuery) -> bool:
    """Write the rows of the export. Returns False if its file is not there yet."""
    space, export_id = attempt.connection.developer_id, attempt.position.export_id
    try:
        with closing(attempt.client.export_records(space, export_id, query.path)) as records:
            while batch := list(islice(records, ROWS_PER_WRITE)):
                write(source, attempt, batch)
    except MarketplaceNotFound:
        return False
    return True
