"""The durable inbox: a message is accepted once it is committed here.

Requests that arrive at the same time share one COPY and one commit (group commit). While one
group is written to disk, the next one gathers. So each request waits for about one commit, however
many requests there are.
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

from core import credentials, telemetry
from core.database import sql
from ingestion.inbox import drain_requests
from ingestion.inbox.quotas import KeyQuotas, KnownKeys
from ingestion.log import drops
from ingestion.models import DropReason, IngestionKey
from ingestion.payloads import Payload, encode
from ingestion.prometheus import ACCEPT_COUNTER, UNKNOWN_KEY_COUNTER

logger = logging.getLogger(__name__)

# received_at, key digest, key hint, request id, trace, payload
InboxRow: TypeAlias = tuple[datetime, bytes, str, str | None, str | None, bytes]

# A group is limited to what one COPY writes quickly. A larger part is a group of its own.
MAX_GROUP_ROWS = 10_000
MAX_GROUP_BYTES = 4 * 1024 * 1024
# With this many bytes waiting to be committed, a process accepts no more.
MAX_WAITING_BYTES = 32 * 1024 * 1024

RETRY_AFTER_FAILURE = 2
RETRY_AFTER_FULL = 30
# Seconds. PostgreSQL cancels a COPY that takes longer. A sender waits for up to two of them, the
# group before its own and its own, and so learns the outcome.
STATEMENT_TIMEOUT = 4.0
COMMIT_TIMEOUT = 10.0
# Seconds. A connection that was idle for longer is checked before use.
IDLE_BEFORE_CHECK = 1.0
# Seconds between two updates of the stored counts.
COUNTS_WRITE_INTERVAL = 10.0
# PostgreSQL's code for a file that it could not extend.
DISK_FULL = "53100"


class InboxUnavailable(Exception):
    """The messages were not committed. The sender should retry in *retry_after* seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"retry in {retry_after} s")
        self.retry_after = retry_after


def accept(
    messages: Sequence[Payload],
    key: str,
    received_at: datetime,
    request_id: str | None = None,
    traceparent: str | None = None,
) -> None:
    """Commit the messages, with a digest of the key and with the request's id and trace.

    Returns once they are on disk, and raises InboxUnavailable otherwise. The messages of one call
    are committed together or not at all. Messages with an unknown key that exceed a number per
    second are only counted. A list of messages is empty afterwards.
    """
    if not messages:
        return
    digest = credentials.digest(key)
    hint = credentials.hint(key, IngestionKey.PREFIX)
    rows = [
        (received_at, digest, hint, request_id, traceparent, encode(message))
        for message in messages
    ]
    if isinstance(messages, list):
        # Decoded traits can take 30 times the memory of the rows, which is limited.
        messages.clear()
    _committer.commit(rows)
    drain_requests.request_drain()


class _Part:
    """The rows of one request. ``retry_after`` is not None once they are rejected."""

    def __init__(self, rows: list[InboxRow]) -> None:
        self.rows = rows
        self.bytes = sum(len(payload) for *_, payload in rows)
        self.retry_after: int | None = None

    @property
    def key_digest(self) -> bytes:
        """The same for all rows: a request has one key."""
        return self.rows[0][1]


class _Group:
    """Parts that are committed together. ``is_done`` is set once their outcome is known."""

    def __init__(self) -> None:
        self.parts: list[_Part] = []
        self.rows = 0
        self.bytes = 0
        self.is_done = threading.Event()

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
    """Commits the rows of concurrent requests, group by group, in its own thread.

    In a gevent worker the thread is a greenlet, and switching to it costs next to nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # In the order in which they are committed. The last one gathers.
        self._waiting: deque[_Group] = deque()
        self._arrived = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._used_at = 0.0
        self._failing = False
        self._disk_full_at: float | None = None
        self._quotas = KeyQuotas()
        self._keys = KnownKeys()
        self._counts = _PendingCounts()

    def commit(self, rows: list[InboxRow]) -> None:
        """Return once the rows are committed. Raise InboxUnavailable if that fails."""
        part = _Part(rows)
        with self._lock:
            group = self._group_for(part)
            group.add(part)
            if self._thread is None or not self._thread.is_alive():
                self._start()
        self._arrived.set()
        if not group.is_done.wait(COMMIT_TIMEOUT):
            self._withdraw(group, part)
            raise InboxUnavailable(RETRY_AFTER_FAILURE)
        if part.retry_after is not None:
            raise InboxUnavailable(part.retry_after)

    def _group_for(self, part: _Part) -> _Group:
        """The group that gathers, or a new one behind it if the part does not fit."""
        if sum(group.bytes for group in self._waiting) + part.bytes > MAX_WAITING_BYTES:
            raise InboxUnavailable(RETRY_AFTER_FAILURE)
        if not self._waiting or not self._waiting[-1].has_room(part):
            self._waiting.append(_Group())
        return self._waiting[-1]

    def _withdraw(self, group: _Group, part: _Part) -> None:
        """Remove a part that is not being committed yet: its sender will retry."""
        with self._lock:
            if group in self._waiting:
                group.remove(part)

    def saw_full_disk(self, within: float) -> bool:
        """Whether the last commit failed because the disk was full, up to *within* seconds ago."""
        at = self._disk_full_at
        return at is not None and time.monotonic() - at < within

    def stop(self) -> None:
        """Commit the waiting groups, then end the thread and its connection."""
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
        _use_own_connection()
        while self._waiting or not self._stopping:
            if not self._waiting:
                self._arrived.wait(self._counts.due_in())
            self._arrived.clear()
            if group := self._next_group():
                self._commit_group(group)
            self._counts.write_if_due()
        self._counts.write()
        connection.close()

    def _next_group(self) -> _Group | None:
        """Take the next group out of the queue. Returns None if nobody waits for one."""
        with self._lock:
            group = self._waiting.popleft() if self._waiting else None
        return group if group and group.parts else None

    def _commit_group(self, group: _Group) -> None:
        try:
            self._prepare_connection()
            self._quotas.refresh_if_due()
            unknown = self._keys.unknown({part.key_digest for part in group.parts})
            accepted = _Accepted()
            for part in group.parts:
                if part.key_digest in unknown:
                    self._accept_unknown_key(part, accepted)
                elif self._quotas.is_exceeded(part.key_digest):
                    part.retry_after = RETRY_AFTER_FULL
                else:
                    accepted.add(part.key_digest, part.rows)
            if accepted.rows:
                # Outside any transaction: the rows are committed when it returns.
                sql.copy(_COPY, _TYPES, accepted.rows)
                self._log_success()
            self._quotas.add(accepted.keys)
            self._counts.add(accepted)
        except Exception as error:
            # It is unknown whether the commit reached the disk, so the senders must retry.
            for part in group.parts:
                part.retry_after = RETRY_AFTER_FAILURE
            self._log_failure(error)
            connection.close()
        finally:
            group.is_done.set()

    def _accept_unknown_key(self, part: _Part, accepted: "_Accepted") -> None:
        """Accept as many messages as the allowance permits, and only count the others."""
        number = 0
        if not self._quotas.is_exceeded(part.key_digest):
            number = self._keys.take_unknown_allowance(len(part.rows))
        accepted.add(part.key_digest, part.rows[:number])
        accepted.counted[drops.invalid_key_reason(part.key_digest)] += len(part.rows) - number

    def _log_success(self) -> None:
        if self._failing:
            logger.info("Messages are committed again.")
        self._failing = False
        self._disk_full_at = None

    def _log_failure(self, error: Exception) -> None:
        if not isinstance(error, Error):
            logger.error("Messages could not be committed", exc_info=error)
        elif not self._failing:
            logger.error(
                "Messages cannot be committed (%s). Their senders are asked to retry.",
                type(error.__cause__ or error).__name__,
            )
        self._failing = True
        is_full = getattr(error.__cause__, "sqlstate", None) == DISK_FULL
        self._disk_full_at = time.monotonic() if is_full else None

    def _prepare_connection(self) -> None:
        """Replace a connection that died while idle, before messages depend on it."""
        now = time.monotonic()
        if now - self._used_at > IDLE_BEFORE_CHECK and not connection.is_usable():
            connection.close()
        if connection.connection is None:
            connection.ensure_connection()
            sql.execute(_SET_TIMEOUT, {"milliseconds": str(int(STATEMENT_TIMEOUT * 1000))})
        self._used_at = now


def _use_own_connection() -> None:
    """Give this thread a connection outside the pool: it is rarely idle, and configured
    differently."""
    own = connection.copy()
    own.settings_dict["OPTIONS"].pop("pool", None)
    connections[DEFAULT_DB_ALIAS] = own


_SET_TIMEOUT: LiteralString = "SELECT set_config('statement_timeout', %(milliseconds)s, false)"
# A COPY writes the rows of a page as one record of the log, and an INSERT writes one for each row.
_COPY: LiteralString = """
    COPY ingestion_inboxmessage
        (received_at, key_digest, key_hint, request_id, traceparent, payload)
    FROM STDIN (FORMAT BINARY)
"""
_TYPES = ("timestamptz", "bytea", "text", "text", "text", "bytea")


class _Accepted:
    """The messages of a group that get 202: rows to insert, and drops that are only counted."""

    def __init__(self) -> None:
        self.rows: list[InboxRow] = []
        self.keys: Counter[bytes] = Counter()
        self.counted: Counter[DropReason] = Counter()

    def add(self, key_digest: bytes, rows: list[InboxRow]) -> None:
        self.rows += rows
        self.keys[key_digest] += len(rows)


class _PendingCounts:
    """Adds accepted messages to the stored counts every few seconds.

    If the process is killed, its pending counts are lost. The inbox loses nothing.
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
        """Seconds until the next write, or None if there is nothing to write."""
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
            self._save(timezone.now())
        except Error:
            # The next group of messages logs the cause. The counts wait for the next write.
            connection.close()
            self._since = time.monotonic()
        else:
            self._messages = 0
            self._dropped.clear()

    @transaction.atomic(durable=True)
    def _save(self, now: datetime) -> None:
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
