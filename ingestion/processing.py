"""Drains the inbox: claim, resolve keys, drop what is not to be recorded, record the rest.

One batch is one transaction, from claiming the messages to deleting them. A crash is a rollback:
each message takes effect exactly once, and several drains may run side by side.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import LiteralString, NamedTuple

import msgspec
from django.db import transaction
from django.db.models import Q

from engagement import credentials, failures, locks, sql
from engagement.messages import Received, Statement
from engagement.recording import record
from ingestion import drops, hours, message_ids, wording
from ingestion.batches import BATCH_BYTES, BATCH_SIZE, collector_paused, settle_or_split
from ingestion.drops import Dropped
from ingestion.models import DropReason, InboxMessage, IngestionKey, QuarantinedMessage
from ingestion.payloads import Payload, Unusable, decode

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 3
# Before the second attempt; before each further one twice as long.
RETRY_PAUSE = timedelta(seconds=5)
# Claims go on from the last claimed message, past the dead rows that earlier claims left, and
# start over after so many batches, for messages that were committed late or put back.
BATCHES_PER_SWEEP = 20
KEY_USE_WRITTEN_EVERY = timedelta(minutes=1)


class Claimed(NamedTuple):
    """A message taken out of the inbox, in the transaction that settles it."""

    id: int
    received_at: datetime
    key_digest: bytes
    key_hint: str
    payload: bytes
    attempts: int
    request_id: str | None


class Drained(NamedTuple):
    """What a drain did. ``is_empty`` is whether its last look found no more than it took."""

    messages: int
    is_empty: bool


def drain(
    clock: Callable[[], datetime],
    *,
    out_of_time: Callable[[], bool] = lambda: False,
    after_batch: Callable[[], None] = lambda: None,
    batch_size: int = BATCH_SIZE,
) -> Drained:
    """Settle the messages that wait, until it has taken all or *out_of_time* says to stop.

    *after_batch* is called after each committed batch. Raises what the database raises where that
    is no message's fault; the batch then waits as before.
    """
    settled = batches = after = 0
    while not out_of_time():
        claimed = failures.after_races(partial(settle_batch, clock(), batch_size, after))
        if claimed:
            settled += len(claimed)
            batches += 1
            after_batch()
        if _is_full(claimed, batch_size):
            after = 0 if batches % BATCHES_PER_SWEEP == 0 else max(one.id for one in claimed)
        elif after:
            after = 0
        else:
            return Drained(settled, True)
    return Drained(settled, False)


def _is_full(claimed: Sequence[Claimed], batch_size: int) -> bool:
    """Whether more may have been due. A batch with room left took all there was: what has come
    since wakes a drain of its own, later and with more in it."""
    return len(claimed) >= batch_size or sum(len(one.payload) for one in claimed) >= BATCH_BYTES


def settle_batch(now: datetime, batch_size: int = BATCH_SIZE, after: int = 0) -> list[Claimed]:
    """Claim due messages with ids above *after*, the oldest first, and settle each: recorded,
    dropped, quarantined, or put back for another attempt. One transaction."""
    with collector_paused(), transaction.atomic(durable=True):
        claimed = _claim(now, batch_size, after)
        # For the whole of the batch: whoever forgets somebody then also finds what is put aside.
        senders = _senders({bytes(one.key_digest) for one in claimed})
        settled: list[hours.Counts] = []
        # Apart, because what failed before would spoil the batch again.
        for together in (
            [one for one in claimed if not one.attempts],
            [one for one in claimed if one.attempts],
        ):
            if together:
                settle_or_split(
                    together,
                    lambda some: settled.append(_settle(some, senders, now)),
                    lambda one, error: _put_aside(one, error, now),
                )
        # Last, because workers wait for each other at the counts until they have committed.
        hours.add(settled)
    return claimed


_CLAIM: LiteralString = """
    WITH due AS MATERIALIZED (
        SELECT id, octet_length(payload) AS bytes FROM ingestion_inboxmessage
        WHERE id > %(after)s AND (not_before IS NULL OR not_before <= %(now)s)
        ORDER BY id
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED)
    DELETE FROM ingestion_inboxmessage
    WHERE id = ANY(ARRAY(
        SELECT id FROM (SELECT id, bytes, sum(bytes) OVER (ORDER BY id) AS total FROM due) sized
        WHERE total - bytes < %(max_bytes)s))
    RETURNING id, received_at, key_digest, key_hint, payload, attempts, request_id
"""


def _claim(now: datetime, limit: int, after: int) -> list[Claimed]:
    parameters = {"now": now, "limit": limit, "after": after, "max_bytes": BATCH_BYTES}
    rows = sql.fetch(_CLAIM, parameters)
    return sorted((Claimed(*row) for row in rows), key=lambda one: one.id)


# --- Failures -------------------------------------------------------------------------------


def _put_aside(one: Claimed, error: Exception, now: datetime) -> None:
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
        pause = RETRY_PAUSE * 2 ** (attempts - 1)
        InboxMessage.objects.create(
            **{**one._asdict(), "attempts": attempts}, not_before=now + pause
        )
        return
    products = IngestionKey.objects.filter(digest=one.key_digest).values_list("product", flat=True)
    QuarantinedMessage.objects.create(
        **{**one._asdict(), "attempts": attempts},
        product_id=products.first(),
        error=_storable(f"{type(error).__name__}: {error}"),
        quarantined_at=now,
    )


def _storable(text: str) -> str:
    """The text as PostgreSQL takes it: an error may quote what made its message unusable."""
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")


# --- Settling -------------------------------------------------------------------------------


class Sender(NamedTuple):
    """The key that a message came with, as the database knows it; ``product_id`` is None where the
    product is being deleted."""

    key_id: int
    product_id: int | None
    revoked_at: datetime | None
    last_used_at: datetime | None


def _settle(
    claimed: Sequence[Claimed], senders: dict[bytes, Sender], now: datetime
) -> hours.Counts:
    """Record the messages or list them as dropped, and count them. Raises where one of them cannot
    be handled."""
    recorded: list[Received] = []
    dropped: list[Dropped] = []
    for one in claimed:
        message = decode(one.payload)
        sender = senders.get(bytes(one.key_digest))
        if sender is None or sender.product_id is None or sender.revoked_at is not None:
            dropped.append(_without_key(one, sender, message))
        elif isinstance(message, Unusable):
            dropped.append(_unusable(one, sender.product_id, message))
        else:
            recorded.append(Received(sender.product_id, one.id, one.received_at, message))
    recorded, repeated = message_ids.without_repeats(recorded)
    forgotten, crowded_out = record(recorded)
    in_part: list[Dropped] = []
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
    drops.list_dropped([*dropped, *in_part], now)
    used = {bytes(one.key_digest) for one in claimed}
    _note_use([sender for digest, sender in senders.items() if digest in used], now)
    return hours.counted(recorded, forgotten, dropped)


def _senders(digests: set[bytes]) -> dict[bytes, Sender]:
    """Whose keys these are. Their products are held until the transaction ends."""
    keys = list(IngestionKey.objects.filter(digest__in=digests).defer("secret"))
    held = locks.hold_products({key.product_id for key in keys})
    return {
        bytes(key.digest): Sender(
            key.pk,
            key.product_id if key.product_id in held else None,
            key.revoked_at,
            key.last_used_at,
        )
        for key in keys
    }


# What stands for the key of a request that carried none.
_NO_KEY = credentials.digest("")


def _without_key(one: Claimed, sender: Sender | None, message: Payload) -> Dropped:
    product_id = sender.product_id if sender else None
    if product_id is not None:
        reason = DropReason.REVOKED_KEY
    elif sender is not None:
        reason = DropReason.DELETED_PRODUCT
    elif bytes(one.key_digest) == _NO_KEY:
        reason = DropReason.MISSING_KEY
    else:
        reason = DropReason.UNKNOWN_KEY
    return _not_recorded(one, product_id, reason, message)


def _unusable(one: Claimed, product_id: int, message: Unusable) -> Dropped:
    return _not_recorded(one, product_id, message.reason, message)


def _dropped(one: Received, reason: DropReason, arrived: Claimed) -> Dropped:
    return _not_recorded(arrived, one.product_id, reason, one.message)


def _in_part(one: Received, names: Sequence[str], arrived: Claimed) -> Dropped:
    """The message is recorded and counts as such; listed is what of it is not."""
    dropped = _dropped(one, DropReason.TOO_MANY_TRAITS, arrived)
    return msgspec.structs.replace(dropped, detail=wording.without_traits(names))


def _not_recorded(
    one: Claimed, product_id: int | None, reason: DropReason, message: Statement | Unusable
) -> Dropped:
    return Dropped(
        one.id, product_id, reason, one.key_hint, message, one.received_at, one.request_id
    )


def _note_use(senders: Sequence[Sender], now: datetime) -> None:
    """Note when keys were last used, at most once a minute for each."""
    before = now - KEY_USE_WRITTEN_EVERY
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
