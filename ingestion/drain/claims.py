"""Claims: which messages a worker records together, committed before the work starts.

If a worker dies or its transaction ends, the batch is rolled back but its claim stays. So every
unfinished attempt counts, whatever its cause: the kernel short of memory, a hung process, an
endless statement. After two unfinished attempts a batch is split. After three, a single message is
quarantined.
"""

import logging
import time
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import LiteralString, NamedTuple

from django.db import transaction

from core.database import locks, sql
from ingestion.drain import quarantine
from ingestion.drain.fairness import FairSelector

logger = logging.getLogger(__name__)

# After this many unfinished attempts a batch is split into this many parts. More than two, because
# each further failure may hold a worker for a minute.
MAX_BATCH_ATTEMPTS = 2
SPLIT_PARTS = 10
# After this many unfinished attempts a single message is quarantined.
MAX_SINGLE_ATTEMPTS = 3
# Between the claim and the work, nobody locks the claim although its worker is alive.
CLAIM_GRACE_SECONDS = 2.0
# A statement that runs longer, or waits longer for a lock, ends its batch. The second limit is
# shorter, because waiting is not the batch's fault.
STATEMENT_TIMEOUT_SECONDS = 60
LOCK_TIMEOUT_SECONDS = 30
LOCK_TRIES, LOCK_PAUSE_SECONDS = 100, 0.01
WORKER_DIED_ERROR = (
    f"The worker did not survive this message in {MAX_SINGLE_ATTEMPTS} attempts: each time its "
    "process was killed or ran out of time. Look for the cause in the workers' log, then retry."
)


class Claim(NamedTuple):
    """Messages that one worker is to record, and the number of this attempt.

    ``is_new`` is whether this is their first attempt together.
    """

    id: int
    message_ids: list[int]
    attempts: int
    is_new: bool


class ClaimedMessage(NamedTuple):
    """A message taken out of the inbox, in the transaction that processes it."""

    id: int
    received_at: datetime
    key_digest: bytes
    key_hint: str
    payload: bytes
    attempts: int
    request_id: str | None
    traceparent: str | None


class BatchClaimer:
    """Claims the batches of one drain.

    New messages go first, so a batch that kills its workers delays nobody. But each drain retries
    one unfinished batch, even if new messages never end.
    """

    def __init__(self) -> None:
        self._selector = FairSelector()
        self._batches = 0

    def claim_next(
        self, now: datetime, batch_size: int, *, without: Collection[bytes] = ()
    ) -> Claim | None:
        """Claim up to *batch_size* messages that are due, or all of an unfinished batch. Returns
        None if none are left.

        New messages with the keys *without*, given by their digests, stay where they are.
        """
        self._selector.leave_out(without)
        self._batches += 1
        if self._batches == 2 and (unfinished := _resume(now)):
            return unfinished
        while not self._selector.is_exhausted:
            if claim := self._claim_new(now, batch_size):
                return claim
        return _resume(now)

    def _claim_new(self, now: datetime, batch_size: int) -> Claim | None:
        with transaction.atomic(durable=True):
            # One worker at a time: two at the same moment would choose the same messages.
            locks.lock_claiming()
            ids = self._selector.choose(now, batch_size)
            if not ids:
                return None
            ((id,),) = sql.fetch(_CLAIM, {"ids": _array(ids)})
        return Claim(id, ids, 1, is_new=True)


_CLAIM: LiteralString = """
    INSERT INTO ingestion_claimedbatch (message_ids, attempts, claimed_at)
    VALUES (%(ids)t::bigint[], 1, clock_timestamp()) RETURNING id
"""


def _array(ids: Sequence[int]) -> str:
    """The ids as PostgreSQL's text for an array, in a fifth of the driver's time."""
    return f"{{{','.join(map(str, ids))}}}"


# --- In the transaction that records the batch ------------------------------------------------

# A timeout that is set for the role stays.
_LOCK: LiteralString = """
    SELECT set_config('statement_timeout', CASE current_setting('statement_timeout')
                      WHEN '0' THEN %(statement)s ELSE current_setting('statement_timeout') END,
                      true),
           set_config('lock_timeout', CASE current_setting('lock_timeout')
                      WHEN '0' THEN %(lock)s ELSE current_setting('lock_timeout') END, true)
    FROM ingestion_claimedbatch WHERE id = %(id)s AND attempts = %(attempts)s
    FOR UPDATE SKIP LOCKED
"""
_IS_OURS: LiteralString = """
    SELECT FROM ingestion_claimedbatch WHERE id = %(id)s AND attempts = %(attempts)s
"""
_DELETE: LiteralString = """
    DELETE FROM ingestion_claimedbatch WHERE id = %(id)s AND attempts = %(attempts)s
"""


def try_lock(claim: Claim) -> bool:
    """Lock the claim until the transaction ends. Returns whether it is still this worker's.

    Also sets timeouts for the transaction's statements.
    """
    limits = {"statement": f"{STATEMENT_TIMEOUT_SECONDS}s", "lock": f"{LOCK_TIMEOUT_SECONDS}s"}
    key = {"id": claim.id, "attempts": claim.attempts}
    for _ in range(LOCK_TRIES):
        if sql.fetch(_LOCK, {**key, **limits}):
            return True
        if not sql.fetch(_IS_OURS, key):
            return False
        # Another worker that looked for unfinished batches holds the row for a moment.
        time.sleep(LOCK_PAUSE_SECONDS)
    return False


def delete_claim(claim: Claim) -> bool:
    """Delete the claim, in the transaction that ends this attempt. Returns whether it was still
    this worker's."""
    return bool(sql.execute(_DELETE, {"id": claim.id, "attempts": claim.attempts}))


# --- Unfinished attempts ----------------------------------------------------------------------

_CANCEL: LiteralString = """
    UPDATE ingestion_claimedbatch SET attempts = attempts - 1, claimed_at = NULL
    WHERE id = %(id)s AND attempts = %(attempts)s
"""
_RELEASE: LiteralString = """
    UPDATE ingestion_claimedbatch SET claimed_at = NULL
    WHERE id = %(id)s AND attempts = %(attempts)s
"""
_RESUME: LiteralString = """
    UPDATE ingestion_claimedbatch
    SET attempts = attempts + 1, claimed_at = clock_timestamp()
    WHERE id = (
        SELECT id FROM ingestion_claimedbatch
        WHERE claimed_at IS NULL OR claimed_at < clock_timestamp() - %(grace)s * interval '1 s'
        ORDER BY id LIMIT 1
        FOR UPDATE SKIP LOCKED)
    RETURNING id, message_ids, attempts
"""
_CLAIM_PART: LiteralString = """
    INSERT INTO ingestion_claimedbatch (message_ids, attempts) VALUES (%(ids)t::bigint[], %(n)s)
"""


def cancel_attempt(claim: Claim) -> None:
    """Leave the messages to the next worker, as if this attempt had not happened."""
    if claim.is_new:
        delete_claim(claim)
    else:
        sql.execute(_CANCEL, {"id": claim.id, "attempts": claim.attempts})


_WITH_KEYS: LiteralString = """
    SELECT id FROM ingestion_inboxmessage
    WHERE id = ANY(%(ids)t::bigint[]) AND key_digest = ANY(%(keys)b::bytea[])
"""
_CLAIM_OTHERS: LiteralString = """
    UPDATE ingestion_claimedbatch
    SET attempts = attempts - 1, claimed_at = NULL, message_ids = %(ids)t::bigint[]
    WHERE id = %(id)s AND attempts = %(attempts)s
"""


def put_back(claim: Claim, keys: Collection[bytes]) -> bool:
    """Have the claim's messages with these keys wait in the inbox, unclaimed, as if this attempt
    had not happened. Returns whether there are any."""
    ids = {"ids": _array(claim.message_ids), "keys": list(keys)}
    back = {id for (id,) in sql.fetch(_WITH_KEYS, ids)} if keys else set()
    others = [id for id in claim.message_ids if id not in back]
    if back and (claim.is_new or not others):
        delete_claim(claim)
    elif back:
        key = {"id": claim.id, "attempts": claim.attempts}
        sql.execute(_CLAIM_OTHERS, {**key, "ids": _array(others)})
    return bool(back)


def split_or_release(claim: Claim) -> None:
    """Leave the messages to the next worker, in parts: together they take too long."""
    if len(claim.message_ids) > 1:
        _split(claim)
    else:
        sql.execute(_RELEASE, {"id": claim.id, "attempts": claim.attempts})


def _resume(now: datetime) -> Claim | None:
    """Claim the next batch whose last attempt is unfinished. Splits or quarantines those with too
    many attempts. Returns None if none are left."""
    while rows := sql.fetch(_RESUME, {"grace": CLAIM_GRACE_SECONDS}):
        ((id, ids, attempts),) = rows
        claim = Claim(id, ids, attempts, is_new=False)
        failed_attempts = attempts - 1
        if len(ids) == 1 and failed_attempts >= MAX_SINGLE_ATTEMPTS:
            _quarantine(claim, now)
        elif len(ids) > 1 and failed_attempts >= MAX_BATCH_ATTEMPTS:
            _split(claim)
        else:
            return claim
    return None


def _split(claim: Claim) -> None:
    """Replace the batch by parts of it."""
    with transaction.atomic(durable=True):
        if not delete_claim(claim):
            return
        for ids in _parts(claim.message_ids):
            # A part is split again after one more failure. A single message starts from zero.
            attempts = MAX_BATCH_ATTEMPTS - 1 if len(ids) > 1 else 0
            sql.execute(_CLAIM_PART, {"ids": _array(ids), "n": attempts})
    logger.warning(
        "A worker did not finish a batch of %d messages; smaller batches follow.",
        len(claim.message_ids),
    )


def _parts(ids: Sequence[int]) -> list[list[int]]:
    size = -(-len(ids) // SPLIT_PARTS)
    return [list(ids[first : first + size]) for first in range(0, len(ids), size)]


def _quarantine(claim: Claim, now: datetime) -> None:
    with transaction.atomic(durable=True):
        if not delete_claim(claim):
            return
        quarantine.move_from_inbox(claim.message_ids, MAX_SINGLE_ATTEMPTS, WORKER_DIED_ERROR, now)
    logger.warning(
        "Message %d is quarantined: no worker survived it in %d attempts.",
        claim.message_ids[0],
        MAX_SINGLE_ATTEMPTS,
    )
