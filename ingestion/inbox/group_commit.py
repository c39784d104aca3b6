"""The durable inbox: a message is accepted once it is committed here.

Requests that arrive at the same time share one INSERT and one commit (group commit): while one
group is being written to disk, the next one gathers. So each request waits for about one commit,
however many of them there are.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString, TypeAlias

from django.db import DEFAULT_DB_ALIAS, Error, connection, connections, transaction
from django.utils import timezone

from engagement import telemetry
from engagement.core import credentials
from engagement.database import sql
from ingestion.inbox import drain_requests
from ingestion.inbox.quotas import KeyQuotas, KnownKeys
from ingestion.log import drops
from ingestion.models import DropReason, IngestionKey
from ingestion.payloads import Payload, encode
from ingestion.prometheus import ACCEPT_COUNTER, UNKNOWN_KEY_COUNTER

logger = logging.getLogger(__name__)

# received_at, key digest, key hint, request id, payload
InboxRow: TypeAlias = tuple[datetime, bytes, str, str | None, bytes]

# A group takes no more than one INSERT can carry in a moment; a larger part makes a group alone.
MAX_GROUP_ROWS = 10_000
MAX_GROUP_BYTES = 4 * 1024 * 1024
# Over so many bytes that wait to be committed a process takes no more, whoever sends them.
MAX_WAITING_BYTES = 32 * 1024 * 1024

RETRY_AFTER_FAILURE = 2
RETRY_AFTER_FULL = 30
# PostgreSQL gives up an INSERT that takes longer. It is the time for two of them that senders
# wait: for the group before theirs and for their own. So they are told what became of it.
STATEMENT_TIMEOUT = 4.0
COMMIT_TIMEOUT = 10.0
# A connection that was idle for longer is asked for a sign of life before it is relied on.
IDLE_BEFORE_CHECK = 1.0
# A statement that ran so often keeps its plan: planning is a third of a small INSERT's time.
PREPARE_THRESHOLD = 5
# So many seconds pass between two additions to the count of what was accepted.
COUNTS_WRITE_INTERVAL = 10.0
# PostgreSQL's code for a file that it could not extend.
DISK_FULL = "53100"


class InboxUnavailable(Exception):
    """The messages could not be committed; the sender should try again in *retry_after* seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"try again in {retry_after} s")
        self.retry_after = retry_after


def accept(
    messages: Sequence[Payload], key: str, received_at: datetime, request_id: str | None = None
) -> None:
    """Commit the messages, together with a digest of the key and the id that they came with.

    Returns once they are on disk; raises Unavailable if they are not. Messages of one call are
    committed together or not at all. Of messages with a key that there is not, those beyond a
    bounded number a second are only counted.
    """
    if not messages:
        return
    digest = credentials.digest(key)
    hint = credentials.hint(key, IngestionKey.PREFIX)
    _committer.commit(
        [(received_at, digest, hint, request_id, encode(message)) for message in messages]
    )
    drain_requests.request_drain()


class _Part:
    """The rows of one sender."""

    def __init__(self, rows: list[InboxRow]) -> None:
        self.rows = rows
        self.bytes = sum(len(payload) for *_, payload in rows)
        self.retry_after: int | None = None

    @property
    def key_digest(self) -> bytes:
        """Of all rows: a sender has one key."""
        return self.rows[0][1]


class _Group:
    """Parts that are committed together, and the outcome that their senders wait for."""

    def __init__(self) -> None:
        self.parts: list[_Part] = []
        self.rows = 0
        self.bytes = 0
        self.settled = threading.Event()

    def has_room(self, part: _Part) -> bool:
        rows, size = self.rows + len(part.rows), self.bytes + part.bytes
        return rows <= MAX_GROUP_ROWS and size <= MAX_GROUP_BYTES

    def add(self, part: _Part) -> None:
        self.parts.append(part)
        self.rows += len(part.rows)
        self.bytes += part.bytes

    def remove(self, part: _Part) -> None:
        self.parts.remove(part)
        self.rows -= len(part.rows)
        self.bytes -= part.bytes


class GroupCommitter:
    """Commits what concurrent requests hand in, group by group, in a thread of its own.

    In a gevent worker the thread is a greenlet, and handing over costs next to nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # In the order in which they are committed; the last one gathers.
        self._waiting: deque[_Group] = deque()
        self._arrived = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._used_at = 0.0
        self._failing = False
        self._disk_full_at: float | None = None
        self._shares = KeyQuotas()
        self._keys = KnownKeys()
        self._tally = _Tally()

    def commit(self, rows: list[InboxRow]) -> None:
        """Return once the rows are committed; raise Unavailable if that failed."""
        part = _Part(rows)
        with self._lock:
            group = self._group_for(part)
            group.add(part)
            if self._thread is None or not self._thread.is_alive():
                self._start()
        self._arrived.set()
        if not group.settled.wait(COMMIT_TIMEOUT):
            self._withdraw(group, part)
            raise InboxUnavailable(RETRY_AFTER_FAILURE)
        if part.retry_after is not None:
            raise InboxUnavailable(part.retry_after)

    def _group_for(self, part: _Part) -> _Group:
        """The group that gathers, or a new one behind it where the part finds no room in it."""
        if sum(group.bytes for group in self._waiting) + part.bytes > MAX_WAITING_BYTES:
            raise InboxUnavailable(RETRY_AFTER_FAILURE)
        if not self._waiting or not self._waiting[-1].has_room(part):
            self._waiting.append(_Group())
        return self._waiting[-1]

    def _withdraw(self, group: _Group, part: _Part) -> None:
        """Take back what nobody has begun to commit: its sender will send it again."""
        with self._lock:
            if group in self._waiting:
                group.remove(part)

    def saw_full_disk(self, within: float) -> bool:
        """Whether the last commit failed for want of disk space, so many seconds ago at most."""
        at = self._disk_full_at
        return at is not None and time.monotonic() - at < within

    def stop(self) -> None:
        """Commit what is waiting and end the thread with its connection."""
        thread = self._thread
        if thread is None:
            return
        self._stopping = True
        self._arrived.set()
        thread.join()
        self._thread = None

    def _start(self) -> None:
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="inbox-commit", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        _leave_the_pool()
        while self._waiting or not self._stopping:
            if not self._waiting:
                self._arrived.wait(self._tally.due_in())
            self._arrived.clear()
            if group := self._next():
                self._settle(group)
            self._tally.write_if_due()
        self._tally.write()
        connection.close()

    def _next(self) -> _Group | None:
        """The group whose turn it is; None where nobody waits for one."""
        with self._lock:
            group = self._waiting.popleft() if self._waiting else None
        return group if group and group.parts else None

    def _settle(self, group: _Group) -> None:
        try:
            self._prepare_connection()
            self._shares.refresh_if_due()
            unknown = self._keys.unknown({part.key_digest for part in group.parts})
            accepted = _Accepted()
            for part in group.parts:
                if part.key_digest in unknown:
                    self._admit_some(part, accepted)
                elif self._shares.is_exceeded(part.key_digest):
                    part.retry_after = RETRY_AFTER_FULL
                else:
                    accepted.add(part.key_digest, part.rows)
            if accepted.rows:
                _insert(accepted.rows)
                self._note_success()
            self._shares.add(accepted.keys)
            self._tally.add(accepted)
        except Exception as error:
            # Whether the commit reached the disk is unknown: the senders must not be told it did.
            for part in group.parts:
                part.retry_after = RETRY_AFTER_FAILURE
            self._note_failure(error)
            connection.close()
        finally:
            group.settled.set()

    def _admit_some(self, part: _Part, accepted: "_Accepted") -> None:
        """Store as many messages with an unknown key as are allowed, and count the others."""
        number = 0
        if not self._shares.is_exceeded(part.key_digest):
            number = self._keys.allow(len(part.rows))
        accepted.add(part.key_digest, part.rows[:number])
        accepted.counted[drops.invalid_key_reason(part.key_digest)] += len(part.rows) - number

    def _note_success(self) -> None:
        if self._failing:
            logger.info("Messages are committed again.")
        self._failing = False
        self._disk_full_at = None

    def _note_failure(self, error: Exception) -> None:
        if not isinstance(error, Error):
            logger.error("Messages could not be committed", exc_info=error)
        elif not self._failing:
            logger.error(
                "Messages cannot be committed (%s); their senders are told to send them again.",
                type(error.__cause__ or error).__name__,
            )
        self._failing = True
        is_full = getattr(error.__cause__, "sqlstate", None) == DISK_FULL
        self._disk_full_at = time.monotonic() if is_full else None

    def _prepare_connection(self) -> None:
        """Leave a connection that died while nobody used it, before messages depend on it."""
        now = time.monotonic()
        if now - self._used_at > IDLE_BEFORE_CHECK and not connection.is_usable():
            connection.close()
        if connection.connection is None:
            connection.ensure_connection()
            sql.execute(_SET_TIMEOUT, {"milliseconds": str(int(STATEMENT_TIMEOUT * 1000))})
        self._used_at = now


def _leave_the_pool() -> None:
    """Give this thread a connection of its own: it is never idle, and not set up as others are."""
    own = connection.copy()
    own.settings_dict["OPTIONS"].pop("pool", None)
    # Django otherwise has the driver keep no plan, whatever a statement asks for.
    own.settings_dict["OPTIONS"]["prepare_threshold"] = PREPARE_THRESHOLD
    connections[DEFAULT_DB_ALIAS] = own


_SET_TIMEOUT: LiteralString = "SELECT set_config('statement_timeout', %(milliseconds)s, false)"
_INSERT: LiteralString = """
    INSERT INTO ingestion_inboxmessage (received_at, key_digest, key_hint, payload)
    SELECT * FROM unnest(%(received)b::timestamptz[], %(digests)b::bytea[], %(hints)b::text[],
                         %(payloads)b::bytea[])
"""
_INSERT_WITH_IDS: LiteralString = """
    INSERT INTO ingestion_inboxmessage (received_at, key_digest, key_hint, payload, request_id)
    SELECT * FROM unnest(%(received)b::timestamptz[], %(digests)b::bytea[], %(hints)b::text[],
                         %(payloads)b::bytea[], %(request_ids)b::text[])
"""


def _insert(rows: list[InboxRow]) -> None:
    # One statement outside any transaction block: it is committed when it returns.
    received, digests, hints, request_ids, payloads = zip(*rows, strict=True)
    columns = {
        "received": list(received),
        "digests": list(digests),
        "hints": list(hints),
        "payloads": list(payloads),
    }
    if any(request_ids):
        columns["request_ids"] = list(request_ids)
        sql.execute(_INSERT_WITH_IDS, columns, prepare=True)
    else:
        # Most senders give none, and a column of nothing would cost a tenth of the INSERT.
        sql.execute(_INSERT, columns, prepare=True)


class _Accepted:
    """What became of the messages that are answered with 202: rows, or counted by reason."""

    def __init__(self) -> None:
        self.rows: list[InboxRow] = []
        self.keys: Counter[bytes] = Counter()
        self.counted: Counter[DropReason] = Counter()

    def add(self, key_digest: bytes, rows: list[InboxRow]) -> None:
        self.rows += rows
        self.keys[key_digest] += len(rows)


class _Tally:
    """Adds what was accepted to the counts that monitors and the admin read, now and then.

    What a process that is killed had not added yet is missing from the counts, never from the
    inbox.
    """

    def __init__(self) -> None:
        self._messages = 0
        self._dropped: Counter[DropReason] = Counter()
        self._since = 0.0

    def add(self, accepted: _Accepted) -> None:
        if not self._messages:
            self._since = time.monotonic()
        self._messages += len(accepted.rows) + accepted.counted.total()
        self._dropped += accepted.counted

    def due_in(self) -> float | None:
        """Seconds until the count is to be written; None where there is nothing to write."""
        if not self._messages:
            return None
        return max(0.0, self._since + COUNTS_WRITE_INTERVAL - time.monotonic())

    def write_if_due(self) -> None:
        if self.due_in() == 0.0:
            self.write()

    def write(self) -> None:
        if not self._messages:
            return
        try:
            self._add_up(timezone.now())
        except Error:
            # The next group of messages reports what is wrong; the count waits for its next turn.
            connection.close()
            self._since = time.monotonic()
        else:
            self._messages = 0
            self._dropped.clear()

    @transaction.atomic(durable=True)
    def _add_up(self, now: datetime) -> None:
        telemetry.add_run(ACCEPT_COUNTER, self._messages, 0.0, now)
        if self._dropped:
            telemetry.add_run(UNKNOWN_KEY_COUNTER, self._dropped.total(), 0.0, now)
            drops.add_counts(
                {(None, reason): number for reason, number in self._dropped.items()}, now
            )


_committer = GroupCommitter()
stop = _committer.stop


def saw_full_disk(within: float) -> bool:
    """Whether this process's last commit failed because the database's disk is full."""
    return _committer.saw_full_disk(within)
