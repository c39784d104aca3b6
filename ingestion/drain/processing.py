"""Drains the inbox: claim, resolve keys, drop what is not to be recorded, record the rest.

One batch is one transaction, from taking the messages out of the inbox to recording them. A crash
is a rollback: each message takes effect exactly once, and several drains may run side by side.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import LiteralString, NamedTuple

import msgspec
from django.db import Error, transaction

from core.database import retries, sql
from core.garbage import pause_gc
from core.jobs.backoff import Backoff
from engagement.limits import limits
from engagement.messages import ReceivedMessage, Rejection, Statement
from engagement.recording.record import record
from engagement.recording.suppression import split_suppressed
from ingestion.drain import claims, message_ids, quarantine, rate_limits, trace_reports
from ingestion.drain.batches import MAX_BATCH_SIZE, BatchSizer, process_or_split
from ingestion.drain.claims import BatchClaimer, Claim, ClaimedMessage
from ingestion.drain.senders import SenderKey, find_senders, save_key_use, waiting_keys
from ingestion.log import drops, hours, recent, texts
from ingestion.log.drops import Drop
from ingestion.log.recent import RecentRow
from ingestion.models import DropReason, InboxMessage
from ingestion.payloads import Payload, UnusableMessage, decode

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 3
BACKOFF = Backoff(timedelta(seconds=5), 2, timedelta(minutes=1), give_up=MAX_ATTEMPTS)

# Of a batch. The others that exceed a rate are only counted: listing costs more than recording.
MAX_LISTED_EXCESS = 100

# Of this process: the next drain goes on with what this one measured.
_sizer = BatchSizer()
_sampler = recent.Sampler()


class DrainResult(NamedTuple):
    """What a drain did. ``is_empty`` is whether it left nothing that it saw."""

    messages: int
    is_empty: bool


def drain(
    clock: Callable[[], datetime],
    *,
    out_of_time: Callable[[], bool] = lambda: False,
    after_batch: Callable[[], None] = lambda: None,
    batch_size: int = MAX_BATCH_SIZE,
    sizer: BatchSizer = _sizer,
) -> DrainResult:
    """Process the waiting messages until none are left or *out_of_time* returns true.

    Calls *after_batch* after each committed batch. Raises database errors that are no message's
    fault; the batch then waits as before.
    """
    claimer = BatchClaimer()
    processed = 0
    while not out_of_time():
        claim = claimer.claim_next(clock(), min(batch_size, sizer.size), without=waiting_keys())
        if claim is None:
            return DrainResult(processed, True)
        with sizer.timed(len(claim.message_ids)):
            messages = _process_claim(claim, clock)
        if messages:
            processed += messages
            after_batch()
    return DrainResult(processed, False)


def _process_claim(claim: Claim, clock: Callable[[], datetime]) -> int:
    """Process the batch. Returns the number of messages.

    If the database is the cause of a failure, the attempt does not count against the messages. If
    a node of a cluster is missing, the messages for it go back to the inbox, and the others follow
    at once. If the batch took too long, smaller ones follow.
    """
    try:
        return retries.retry_on_conflict(partial(process_batch, claim, clock()))
    except Error as error:
        if retries.is_missing_node(error) and claims.put_back(claim, waiting_keys()):
            return 0
        if retries.is_timeout(error):
            claims.split_or_release(claim)
            return 0
        if retries.is_transient(error):
            # If this fails too, the batch has one attempt less.
            with suppress(Error):
                claims.cancel_attempt(claim)
        raise


def process_batch(claim: Claim, now: datetime) -> int:
    """Process each message of the batch: record, drop or quarantine it, or put it back for another
    attempt. One transaction. Returns the number of messages, 0 if another worker has the batch.
    """
    began = time.monotonic()
    with pause_gc(), transaction.atomic(durable=True):
        if not claims.try_lock(claim):
            return 0
        claimed = _take(claim)
        # For the whole batch: forgetting a subject must then also find the rejected messages.
        senders = find_senders({message.key_digest for message in claimed})
        states = limits.load({each.product_id for each in senders.values() if each.product_id})
        rated = rate_limits.Batch(claimed, senders, now)
        excess = rated.find_excess(states)
        outcomes: list[PartOutcome] = []
        if excess:
            outcomes.append(_drop_excess(claimed, senders, excess, now))
            claimed = [message for message in claimed if message.id not in excess]
        # Separately, because what failed before would spoil the batch again.
        for messages in (
            [message for message in claimed if not message.attempts],
            [message for message in claimed if message.attempts],
        ):
            if messages:
                process_or_split(
                    messages,
                    lambda part: outcomes.append(_process(part, senders, now)),
                    lambda message, error: _reject(message, error, now),
                )
        claims.delete_claim(claim)
        ended = now + timedelta(seconds=time.monotonic() - began)
        trace_reports.follow(claimed, senders, now, ended)
        # Last, because workers wait for each other's counts until they commit.
        recent.save([outcome.recent for outcome in outcomes])
        hours.add_counts([outcome.counts for outcome in outcomes])
        rate_limits.add_counts(rated.count_by_minute(excess))
    return len(claimed) + len(excess)


_TAKE: LiteralString = """
    DELETE FROM ingestion_inboxmessage WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM ingestion_inboxmessage
        WHERE id = ANY((
            SELECT message_ids FROM ingestion_claimedbatch WHERE id = %(claim)s)::bigint[])
        {which}))
    RETURNING id, received_at, key_digest, key_hint, payload, attempts, request_id, traceparent
"""
# Rows that no transaction has locked or tried to delete: nearly always all. To lock them before
# they are deleted would write as much log again.
_TAKE_UNTOUCHED = _TAKE.format(which="AND xmax = 0")
# A row that is locked belongs to an eraser, which deletes it or leaves it for later.
_TAKE_UNLOCKED = _TAKE.format(which="FOR UPDATE SKIP LOCKED")


def _take(claim: Claim) -> list[ClaimedMessage]:
    """Delete the batch's messages from the inbox. Returns them in the order of arrival."""
    rows = sql.fetch(_TAKE_UNTOUCHED, {"claim": claim.id})
    if len(rows) < len(claim.message_ids):
        rows += sql.fetch(_TAKE_UNLOCKED, {"claim": claim.id})
    return sorted(map(ClaimedMessage._make, rows), key=itemgetter(0))


# --- Failures -------------------------------------------------------------------------------


def _reject(message: ClaimedMessage, error: Exception, now: datetime) -> None:
    """Put the message back for another attempt or, after the last one, into quarantine."""
    attempts = message.attempts + 1
    # The error's text may quote the message, so it goes to the quarantine and not into the log.
    logger.warning(
        "Message %d failed in attempt %d of %d: %s",
        message.id,
        attempts,
        MAX_ATTEMPTS,
        type(error).__name__,
        extra={"request_id": message.request_id, "traceparent": message.traceparent},
    )
    if not BACKOFF.gives_up(attempts):
        not_before = now + BACKOFF.delay(attempts)
        InboxMessage.objects.create(
            **{**message._asdict(), "attempts": attempts}, not_before=not_before
        )
        return
    description = _storable(f"{type(error).__name__}: {error}")
    quarantine.add(message._asdict(), attempts, description, now)


def _storable(text: str) -> str:
    """The text in a form that PostgreSQL stores. An error may quote what made its message fail."""
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")


# --- Recording and dropping -----------------------------------------------------------------


class PartOutcome(NamedTuple):
    """What the log tells about the messages of a batch, or of a part of it."""

    counts: hours.HourlyCounts
    recent: list[RecentRow]


def _drop_excess(
    claimed: Sequence[ClaimedMessage],
    senders: Mapping[bytes, SenderKey],
    excess: Mapping[int, DropReason],
    now: datetime,
) -> PartOutcome:
    """List the first messages that exceed a limit, and count them all."""
    listed_drops: dict[int, tuple[ClaimedMessage, ReceivedMessage]] = {}
    reasons: Counter[tuple[int | None, DropReason]] = Counter()
    by_hour: hours.HourlyCounts = Counter()
    for message in claimed:
        reason = excess.get(message.id)
        if reason is None:
            continue
        product_id = senders[message.key_digest].product_id
        assert product_id is not None
        by_hour[product_id, hours.start_of_hour(message.received_at), reason.value] += 1
        payload = _readable(message) if len(listed_drops) < MAX_LISTED_EXCESS else None
        if payload is None or isinstance(payload, UnusableMessage):
            reasons[product_id, reason] += 1
        else:
            received = ReceivedMessage(product_id, message.id, message.received_at, payload)
            listed_drops[message.id] = (message, received)
    # The list must not bring back ids that were deleted on request.
    allowed, forgotten = split_suppressed([received for _, received in listed_drops.values()])
    for received in forgotten:
        reasons[received.product_id, excess[received.arrival]] += 1
    drops.save_drops(
        [
            _drop(
                listed_drops[received.arrival][0],
                received.product_id,
                excess[received.arrival],
                received.message,
            )
            for received in allowed
        ],
        now,
    )
    drops.add_counts(reasons, now)
    return PartOutcome(by_hour, [])


def _readable(message: ClaimedMessage) -> Payload | None:
    try:
        payload: Payload = decode(message.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return payload


def _process(
    claimed: Sequence[ClaimedMessage], senders: dict[bytes, SenderKey], now: datetime
) -> PartOutcome:
    """Record the messages or list them as dropped. Raises if one fails."""
    recordable, dropped = _split_by_key(claimed, senders)
    recordable, duplicates = message_ids.split_duplicates(recordable)
    rejections = record(recordable)
    partly_recorded: dict[int, Drop] = {}
    if duplicates or rejections:
        by_arrival = {message.id: message for message in claimed}
        dropped += (
            _drop(by_arrival[each.arrival], each.product_id, DropReason.DUPLICATE, each.message)
            for each in duplicates
        )
        for rejection in rejections:
            arrival = rejection.message.arrival
            drop = _rejected_drop(by_arrival[arrival], rejection)
            if rejection.is_partial:
                # The list has one row for a message.
                partly_recorded.setdefault(arrival, drop)
            else:
                dropped.append(drop)
    # Last, because workers wait for each other's counts: all of them update the same few rows.
    drops.save_drops([*dropped, *partly_recorded.values()], now)
    digests = {message.key_digest for message in claimed}
    save_key_use([sender for digest, sender in senders.items() if digest in digests], now)
    rejected = [each.message for each in rejections if not each.is_partial]
    return PartOutcome(
        hours.count_by_hour(recordable, rejected, dropped), _sampler.choose(recordable, rejected)
    )


def _split_by_key(
    claimed: Sequence[ClaimedMessage], senders: Mapping[bytes, SenderKey]
) -> tuple[list[ReceivedMessage], list[Drop]]:
    """The messages that their keys let in, and the others with those that are invalid."""
    recordable: list[ReceivedMessage] = []
    dropped: list[Drop] = []
    for claimed_message in claimed:
        message = decode(claimed_message.payload)
        sender = senders.get(claimed_message.key_digest)
        received_at = claimed_message.received_at
        if sender is None or sender.product_id is None or not sender.may_send(received_at):
            dropped.append(_invalid_key_drop(claimed_message, sender, message))
        elif isinstance(message, UnusableMessage):
            dropped.append(_drop(claimed_message, sender.product_id, message.reason, message))
        else:
            recordable.append(
                ReceivedMessage(sender.product_id, claimed_message.id, received_at, message)
            )
    return recordable, dropped


def _invalid_key_drop(claimed: ClaimedMessage, sender: SenderKey | None, message: Payload) -> Drop:
    product_id = sender.product_id if sender else None
    if sender is None:
        reason = drops.invalid_key_reason(claimed.key_digest)
    elif product_id is None:
        reason = DropReason.DELETED_PRODUCT
    else:
        reason = DropReason.READ_TOKEN
        if sender.key_id is not None:
            is_revoked = sender.revoked_at is not None
            reason = DropReason.REVOKED_KEY if is_revoked else DropReason.EXPIRED_KEY
        claimed = claimed._replace(key_hint=sender.hint)
    return _drop(claimed, product_id, reason, message)


def _rejected_drop(claimed: ClaimedMessage, rejection: Rejection) -> Drop:
    received, reason, detail = rejection
    return _drop(claimed, received.product_id, texts.DROP_REASONS[reason], received.message, detail)


def _drop(
    claimed: ClaimedMessage,
    product_id: int | None,
    reason: DropReason,
    message: Statement | UnusableMessage,
    detail: str = "",
) -> Drop:
    return Drop(
        claimed.id,
        product_id,
        reason,
        claimed.key_hint,
        message,
        claimed.received_at,
        claimed.request_id,
        detail,
    )
