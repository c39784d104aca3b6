"""Message ids that senders gave: a repeat within the time they are remembered takes no effect."""

from collections.abc import Sequence
from datetime import timedelta
from typing import LiteralString, TypeAlias

from django.conf import settings

from engagement.database import sql
from engagement.messages import ReceivedMessage

# (product id, message id)
MessageIdKey: TypeAlias = tuple[int, str]

# A forgotten id is taken over by its next message. Times of receipt count, not of recording:
# messages may wait in the inbox for long, and are not always recorded in the order of receipt.
_REMEMBER: LiteralString = """
    INSERT INTO ingestion_seenmessageid AS s (product_id, message_id, seen_at)
    SELECT * FROM unnest(%(products)b::bigint[], %(ids)b::text[], %(received)b::timestamptz[])
    ON CONFLICT (product_id, message_id)
    DO UPDATE SET seen_at = GREATEST(s.seen_at, EXCLUDED.seen_at)
    WHERE s.seen_at < EXCLUDED.seen_at - %(memory)s OR s.seen_at > EXCLUDED.seen_at + %(memory)s
    RETURNING product_id, message_id
"""


def retention_period() -> timedelta:
    """How long a message id is remembered."""
    return timedelta(days=settings.MESSAGE_ID_RETENTION_DAYS)


def split_duplicates(
    received: Sequence[ReceivedMessage],
) -> tuple[list[ReceivedMessage], list[ReceivedMessage]]:
    """Those to record, and those whose message id was seen before, in this batch or earlier.

    From now on, in the caller's transaction, the ids of the former are remembered.
    """
    first: dict[MessageIdKey, ReceivedMessage] = {}
    for one in received:
        if one.message.message_id is not None:
            first.setdefault((one.product_id, one.message.message_id), one)
    if not first:
        return list(received), []
    new = _remember(first)
    kept: list[ReceivedMessage] = []
    repeated: list[ReceivedMessage] = []
    for one in received:
        is_new = one.message.message_id is None or one.arrival in new
        (kept if is_new else repeated).append(one)
    return kept, repeated


def _remember(named: dict[MessageIdKey, ReceivedMessage]) -> set[int]:
    """The arrivals of the messages whose ids were not remembered yet."""
    # Sorted, so that two workers that remember the same ids cannot deadlock.
    keys = sorted(named)
    rows = sql.fetch(
        _REMEMBER,
        {
            "products": [product for product, _ in keys],
            "ids": [message_id for _, message_id in keys],
            "received": [named[key].received_at for key in keys],
            "memory": retention_period(),
        },
    )
    return {named[product, message_id].arrival for product, message_id in rows}
