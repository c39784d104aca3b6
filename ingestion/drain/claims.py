"""Which messages a worker records together, noted and committed before the work starts.

Whatever kills a worker or outlasts its transaction rolls the batch back, but not the note. So an
attempt that did not survive is counted, whatever ended it: the kernel short of memory, a hung
process, a statement without end. A batch that did not survive twice is divided, and a single
message that did not three times is quarantined.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString, NamedTuple

from django.db import transaction

from engagement.database import locks, sql
from ingestion.drain import quarantine
from ingestion.drain.fairness import FairSelector

logger = logging.getLogger(__name__)

# A batch that was begun so often and never finished is divided into so many parts. More than two,
# because each further failure may hold a worker for a minute.
MAX_BATCH_ATTEMPTS = 2
SPLIT_PARTS = 10
# A message that was begun alone so often and never finished is put aside.
MAX_SINGLE_ATTEMPTS = 3
# Seconds between the note and the work, in which nobody locks the note though its worker lives.
CLAIM_GRACE_SECONDS = 2.0
# Seconds. A statement that runs longer, or waits longer for somebody's lock, ends its batch. The
# second is shorter, because waiting says nothing against the batch.
STATEMENT_TIMEOUT_SECONDS = 60
LOCK_TIMEOUT_SECONDS = 30
WORKER_DIED_ERROR = (
    f"The worker did not survive this message in {MAX_SINGLE_ATTEMPTS} attempts: each time its "
    "process was killed, or ran out of time. Look for the reason in the workers' log, then try "
    "it again."
)


class Claim(NamedTuple):
    """Messages that are noted as one worker's to record, in the attempt that is noted.

    ``is_new`` is whether this is their first attempt together.
    """

    id: int
    message_ids: list[int]
    attempts: int
    is_new: bool


class BatchClaimer:
    """What one drain works on, batch by batch.

    New messages go first, so that a batch that ends its workers holds up nobody. But one
    unfinished batch gets its turn in each drain, also where new messages never end.
    """

    def __init__(self, batch_size: int) -> None:
        self._turns = FairSelector(batch_size)
        self._batches = 0

    def next(self, now: datetime) -> Claim | None:
        """Messages to record now; None where none are left that are due."""
        self._batches += 1
        if self._batches == 2 and (unfinished := _resume(now)):
            return unfinished
        while not self._turns.none_left:
            if claim := self._claim_new(now):
                return claim
        return _resume(now)

    def _claim_new(self, now: datetime) -> Claim | None:
        with transaction.atomic(durable=True):
            # One at a time: two that look at the same moment would choose the same messages.
            locks.lock_claiming()
            ids = self._turns.choose(now)
            if not ids:
                return None
            ((id,),) = sql.fetch(_NOTE, {"ids": _array(ids)})
        return Claim(id, ids, 1, is_new=True)


_NOTE: LiteralString = """
    INSERT INTO ingestion_claimedbatch (message_ids, attempts, claimed_at)
    VALUES (%(ids)t::bigint[], 1, clock_timestamp()) RETURNING id
"""


def _array(ids: Sequence[int]) -> str:
    """The numbers as PostgreSQL reads an array: a fifth of what the driver takes for so many."""
    return f"{{{','.join(map(str, ids))}}}"


# --- In the transaction that records the batch ------------------------------------------------

# A time limit that somebody has set for the role stays.
_HOLD: LiteralString = """
    SELECT set_config('statement_timeout', CASE current_setting('statement_timeout')
                      WHEN '0' THEN %(statement)s ELSE current_setting('statement_timeout') END,
                      true),
           set_config('lock_timeout', CASE current_setting('lock_timeout')
                      WHEN '0' THEN %(lock)s ELSE current_setting('lock_timeout') END, true)
    FROM ingestion_claimedbatch WHERE id = %(id)s AND attempts = %(attempts)s
    FOR UPDATE SKIP LOCKED
"""
_FINISH: LiteralString = "DELETE FROM ingestion_claimedbatch WHERE id = %(id)s"


def try_lock(claim: Claim) -> bool:
    """Lock the note until the transaction ends; whether the batch is still this worker's.

    No statement of the transaction runs for ever from now on.
    """
    limits = {"statement": f"{STATEMENT_TIMEOUT_SECONDS}s", "lock": f"{LOCK_TIMEOUT_SECONDS}s"}
    return bool(sql.fetch(_HOLD, {"id": claim.id, "attempts": claim.attempts, **limits}))


def delete_claim(claim: Claim) -> None:
    """Forget the note, in the transaction that records the messages."""
    sql.execute(_FINISH, {"id": claim.id})


# --- Attempts that were not finished ----------------------------------------------------------

_GIVE_BACK_NEW: LiteralString = """
    DELETE FROM ingestion_claimedbatch WHERE id = %(id)s AND attempts = %(attempts)s
"""
_GIVE_BACK: LiteralString = """
    UPDATE ingestion_claimedbatch SET attempts = attempts - 1, claimed_at = NULL
    WHERE id = %(id)s AND attempts = %(attempts)s
"""
_RELEASE: LiteralString = """
    UPDATE ingestion_claimedbatch SET claimed_at = NULL
    WHERE id = %(id)s AND attempts = %(attempts)s
"""
_TAKE_UNFINISHED: LiteralString = """
    UPDATE ingestion_claimedbatch
    SET attempts = attempts + 1, claimed_at = clock_timestamp()
    WHERE id = (
        SELECT id FROM ingestion_claimedbatch
        WHERE claimed_at IS NULL OR claimed_at < clock_timestamp() - %(grace)s * interval '1 s'
        ORDER BY id LIMIT 1
        FOR UPDATE SKIP LOCKED)
    RETURNING id, message_ids, attempts
"""
_REPLACE: LiteralString = """
    DELETE FROM ingestion_claimedbatch WHERE id = %(id)s AND attempts = %(attempts)s
"""
_NOTE_PART: LiteralString = """
    INSERT INTO ingestion_claimedbatch (message_ids, attempts) VALUES (%(ids)t::bigint[], %(n)s)
"""


def cancel_attempt(claim: Claim) -> None:
    """Leave the messages to whoever comes next, as if this attempt had not been made."""
    statement = _GIVE_BACK_NEW if claim.is_new else _GIVE_BACK
    sql.execute(statement, {"id": claim.id, "attempts": claim.attempts})


def split_or_release(claim: Claim) -> None:
    """Leave the messages to whoever comes next, in parts: together they are too much."""
    if len(claim.message_ids) > 1:
        _divide(claim)
    else:
        sql.execute(_RELEASE, {"id": claim.id, "attempts": claim.attempts})


def _resume(now: datetime) -> Claim | None:
    """The next batch whose last attempt was not finished, to be tried anew; None where there is
    none that is worth it."""
    while rows := sql.fetch(_TAKE_UNFINISHED, {"grace": CLAIM_GRACE_SECONDS}):
        ((id, ids, attempts),) = rows
        claim = Claim(id, ids, attempts, is_new=False)
        unfinished = attempts - 1
        if len(ids) == 1 and unfinished >= MAX_SINGLE_ATTEMPTS:
            _quarantine(claim, now)
        elif len(ids) > 1 and unfinished >= MAX_BATCH_ATTEMPTS:
            _divide(claim)
        else:
            return claim
    return None


def _divide(claim: Claim) -> None:
    """Replace the batch by parts of it."""
    with transaction.atomic(durable=True):
        if not sql.execute(_REPLACE, {"id": claim.id, "attempts": claim.attempts}):
            return
        for ids in _parts(claim.message_ids):
            # A part's next failure divides it further. Of a single message nothing is known yet.
            attempts = MAX_BATCH_ATTEMPTS - 1 if len(ids) > 1 else 0
            sql.execute(_NOTE_PART, {"ids": _array(ids), "n": attempts})
    logger.warning(
        "A worker did not finish a batch of %d messages; they are recorded in smaller ones.",
        len(claim.message_ids),
    )


def _parts(ids: Sequence[int]) -> list[list[int]]:
    size = -(-len(ids) // SPLIT_PARTS)
    return [list(ids[first : first + size]) for first in range(0, len(ids), size)]


def _quarantine(claim: Claim, now: datetime) -> None:
    with transaction.atomic(durable=True):
        if not sql.execute(_REPLACE, {"id": claim.id, "attempts": claim.attempts}):
            return
        quarantine.move_from_inbox(claim.message_ids, MAX_SINGLE_ATTEMPTS, WORKER_DIED_ERROR, now)
    logger.warning(
        "Message %d is quarantined: no worker survived it in %d attempts.",
        claim.message_ids[0],
        MAX_SINGLE_ATTEMPTS,
    )
