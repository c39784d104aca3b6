"""Drains the inbox: claim, resolve keys, drop what is not to be recorded, record the rest.

One batch is one transaction, from taking the messages out of the inbox to recording them. A crash
is a rollback: each message takes effect exactly once, and several drains may run side by side.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import LiteralString, NamedTuple

import msgspec
from django.db import Error, transaction
from django.db.models import Q

from engagement.database import locks, retries, sql
from engagement.messages import ReceivedMessage, Statement
from engagement.recording.record import record
from ingestion.drain import claims, message_ids, quarantine
from ingestion.drain.batches import BATCH_SIZE, pause_gc, process_or_split
from ingestion.drain.claims import BatchClaimer, Claim
from ingestion.log import drops, hours, texts
from ingestion.log.drops import Drop
from ingestion.models import DropReason, InboxMessage, IngestionKey
from ingestion.payloads import Payload, UnusableMessage, decode

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 3
# Before the second attempt; before each further one twice as long.
RETRY_BACKOFF = timedelta(seconds=5)
KEY_USE_WRITE_INTERVAL = timedelta(minutes=1)


class ClaimedMessage(NamedTuple):
    """A message taken out of the inbox, in the transaction that settles it."""

    id: int
    received_at: datetime
    key_digest: bytes
    key_hint: str
    payload: bytes
    attempts: int
    request_id: str | None


class DrainResult(NamedTuple):
    """What a drain did. ``is_empty`` is whether its last look found no more than it took."""

    messages: int
    is_empty: bool


def drain(
    clock: Callable[[], datetime],
    *,
    out_of_time: Callable[[], bool] = lambda: False,
    after_batch: Callable[[], None] = lambda: None,
    batch_size: int = BATCH_SIZE,
) -> DrainResult:
    """Settle the messages that wait, until it has taken all or *out_of_time* says to stop.

    *after_batch* is called after each committed batch. Raises what the database raises where that
    is no message's fault; the batch then waits as before.
    """
    work = BatchClaimer(batch_size)
    settled = 0
    while not out_of_time():
        claim = work.next(clock())
        if claim is None:
            return DrainResult(settled, True)
        if messages := _settle_claim(claim, clock):
            settled += messages
            after_batch()
    return DrainResult(settled, False)


def _settle_claim(claim: Claim, clock: Callable[[], datetime]) -> int:
    """Settle the batch; how many messages it were. What the database could not do just now counts
    against no message, but what it ended for taking too long is tried in smaller batches."""
    try:
        return retries.retry_on_conflict(partial(process_batch, claim, clock()))
    except Error as error:
        if retries.is_timeout(error):
            claims.split_or_release(claim)
            return 0
        if retries.is_transient(error):
            # Where this fails, too, the batch has one attempt less.
            with suppress(Error):
                claims.cancel_attempt(claim)
        raise


def process_batch(claim: Claim, now: datetime) -> int:
    """Settle each message of the batch: recorded, dropped, quarantined, or put back for another
    attempt. One transaction. How many there were; none where another worker took the batch over."""
    with pause_gc(), transaction.atomic(durable=True):
        if not claims.try_lock(claim):
            return 0
        claimed = _take(claim)
        # For the whole of the batch: whoever forgets somebody then also finds what is put aside.
        senders = _senders({bytes(one.key_digest) for one in claimed})
        settled: list[hours.HourlyCounts] = []
        # Apart, because what failed before would spoil the batch again.
        for together in (
            [one for one in claimed if not one.attempts],
            [one for one in claimed if one.attempts],
        ):
            if together:
                process_or_split(
                    together,
                    lambda some: settled.append(_settle(some, senders, now)),
                    lambda one, error: _put_aside(one, error, now),
                )
        claims.delete_claim(claim)
        # Last, because workers wait for each other at the counts until they have committed.
        hours.add_counts(settled)
    return len(claimed)


# Whoever locks a message just now, to forget somebody, deletes it or leaves it for later.
_TAKE: LiteralString = """
    DELETE FROM ingestion_inboxmessage WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM ingestion_inboxmessage
        WHERE id = ANY((
            SELECT message_ids FROM ingestion_claimedbatch WHERE id = %(claim)s)::bigint[])
        FOR UPDATE SKIP LOCKED))
    RETURNING id, received_at, key_digest, key_hint, payload, attempts, request_id
"""


def _take(claim: Claim) -> list[ClaimedMessage]:
    rows = sql.fetch(_TAKE, {"claim": claim.id})
    return sorted(map(ClaimedMessage._make, rows), key=itemgetter(0))


# --- Failures -------------------------------------------------------------------------------


def _put_aside(one: ClaimedMessage, error: Exception, now: datetime) -> None:
    """Put the message back for another attempt or, after the last one, into quarantine."""
    attempts = one.attempts + 1
    # The error's text may quote the message, so it goes to the quarantine and not into the log.
    logger.warning(
        "Message %d failed in attempt %d of %d: %s",
        one.id,
        attempts,
        MAX_ATTEMPTS,
        type(error).__name__,
        extra={"request_id": one.request_id},
    )
    if attempts < MAX_ATTEMPTS:
        pause = RETRY_BACKOFF * 2 ** (attempts - 1)
        InboxMessage.objects.create(
            **{**one._asdict(), "attempts": attempts}, not_before=now + pause
        )
        return
    told = _storable(f"{type(error).__name__}: {error}")
    quarantine.add(one._asdict(), attempts, told, now)


def _storable(text: str) -> str:
    """The text as PostgreSQL takes it: an error may quote what made its message unusable."""
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")


# --- Settling -------------------------------------------------------------------------------


class SenderKey(NamedTuple):
    """The key that a message came with, as the database knows it; ``product_id`` is None where the
    product is being deleted."""

    key_id: int
    product_id: int | None
    revoked_at: datetime | None
    last_used_at: datetime | None


def _settle(
    claimed: Sequence[ClaimedMessage], senders: dict[bytes, SenderKey], now: datetime
) -> hours.HourlyCounts:
    """Record the messages or list them as dropped, and count them. Raises where one of them cannot
    be handled."""
    recorded: list[ReceivedMessage] = []
    dropped: list[Drop] = []
    for one in claimed:
        message = decode(one.payload)
        sender = senders.get(bytes(one.key_digest))
        if sender is None or sender.product_id is None or sender.revoked_at is not None:
            dropped.append(_without_key(one, sender, message))
        elif isinstance(message, UnusableMessage):
            dropped.append(_unusable(one, sender.product_id, message))
        else:
            recorded.append(ReceivedMessage(sender.product_id, one.id, one.received_at, message))
    recorded, repeated = message_ids.split_duplicates(recorded)
    forgotten, crowded_out = record(recorded)
    in_part: list[Drop] = []
    if repeated or forgotten or crowded_out:
        arrived = {one.id: one for one in claimed}
        for reason, some in ((DropReason.DUPLICATE, repeated), (DropReason.FORGOTTEN, forgotten)):
            dropped += (_dropped(one, reason, arrived[one.arrival]) for one in some)
        in_part = [
            _in_part(one, crowded_out[one.arrival], arrived[one.arrival])
            for one in recorded
            if one.arrival in crowded_out
        ]
    # Last, because workers wait for each other at the counts: each adds to the same few rows.
    drops.save_drops([*dropped, *in_part], now)
    used = {bytes(one.key_digest) for one in claimed}
    _note_use([sender for digest, sender in senders.items() if digest in used], now)
    return hours.count_by_hour(recorded, forgotten, dropped)


def _senders(digests: set[bytes]) -> dict[bytes, SenderKey]:
    """Whose keys these are. Their products are held until the transaction ends."""
    keys = list(IngestionKey.objects.filter(digest__in=digests).defer("secret"))
    held = locks.share_lock_products({key.product_id for key in keys})
    return {
        bytes(key.digest): SenderKey(
            key.pk,
            key.product_id if key.product_id in held else None,
            key.revoked_at,
            key.last_used_at,
        )
        for key in keys
    }


def _without_key(one: ClaimedMessage, sender: SenderKey | None, message: Payload) -> Drop:
    product_id = sender.product_id if sender else None
    if product_id is not None:
        reason = DropReason.REVOKED_KEY
    elif sender is not None:
        reason = DropReason.DELETED_PRODUCT
    else:
        reason = drops.invalid_key_reason(bytes(one.key_digest))
    return _not_recorded(one, product_id, reason, message)


def _unusable(one: ClaimedMessage, product_id: int, message: UnusableMessage) -> Drop:
    return _not_recorded(one, product_id, message.reason, message)


def _dropped(one: ReceivedMessage, reason: DropReason, arrived: ClaimedMessage) -> Drop:
    return _not_recorded(arrived, one.product_id, reason, one.message)


def _in_part(one: ReceivedMessage, names: Sequence[str], arrived: ClaimedMessage) -> Drop:
    """The message is recorded and counts as such; listed is what of it is not."""
    dropped = _dropped(one, DropReason.TOO_MANY_TRAITS, arrived)
    return msgspec.structs.replace(dropped, detail=texts.describe_dropped_traits(names))


def _not_recorded(
    one: ClaimedMessage,
    product_id: int | None,
    reason: DropReason,
    message: Statement | UnusableMessage,
) -> Drop:
    return Drop(one.id, product_id, reason, one.key_hint, message, one.received_at, one.request_id)


def _note_use(senders: Sequence[SenderKey], now: datetime) -> None:
    """Note when keys were last used, at most once a minute for each."""
    before = now - KEY_USE_WRITE_INTERVAL
    used = [
        sender.key_id
        for sender in senders
        if sender.last_used_at is None or sender.last_used_at < before
    ]
    if used:
        due = Q(last_used_at=None) | Q(last_used_at__lt=before)
        # A worker that holds such a row just now is writing the same.
        free = IngestionKey.objects.select_for_update(skip_locked=True).filter(due, pk__in=used)
        IngestionKey.objects.filter(pk__in=list(free.values_list("pk", flat=True))).update(
            last_used_at=now
        )
