"""Senders' message ids: a duplicate within the retention period has no effect."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from typing import LiteralString, TypeAlias

from django.conf import settings

from core.database import distribution, sql
from engagement.messages import ReceivedMessage

# (product id, message id)
MessageIdKey: TypeAlias = tuple[int, str]

# The next message with an expired id takes it over. Times of receipt count, not of recording:
# messages may wait in the inbox for long, and are not always recorded in the order of receipt.
_SAVE: LiteralString = """
    INSERT INTO ingestion_seenmessageid AS s (product_id, message_id, seen_at)
    SELECT * FROM unnest(%(products)b::bigint[], %(ids)b::text[], %(received)b::timestamptz[])
    ON CONFLICT (product_id, message_id)
    DO UPDATE SET seen_at = GREATEST(s.seen_at, EXCLUDED.seen_at)
    WHERE EXCLUDED.seen_at - s.seen_at > {memory} OR s.seen_at - EXCLUDED.seen_at > {memory}
    RETURNING product_id, message_id
"""


def retention_period() -> timedelta:
    """How long message ids are kept."""
    return timedelta(days=settings.MESSAGE_ID_RETENTION_DAYS)


def split_duplicates(
    received: Sequence[ReceivedMessage],
) -> tuple[list[ReceivedMessage], list[ReceivedMessage]]:
    """The messages to record, and those whose id was seen before, in this batch or earlier.

    Saves the new ids, in the caller's transaction.
    """
    first: dict[MessageIdKey, ReceivedMessage] = {}
    for message in received:
        if message.message.message_id is not None:
            first.setdefault((message.product_id, message.message.message_id), message)
    if not first:
        return list(received), []
    new = _save_new(first)
    unique: list[ReceivedMessage] = []
    duplicates: list[ReceivedMessage] = []
    for message in received:
        is_new = message.message.message_id is None or message.arrival in new
        (unique if is_new else duplicates).append(message)
    return unique, duplicates


def _save_new(messages: dict[MessageIdKey, ReceivedMessage]) -> set[int]:
    """Save the message ids. Returns the arrivals of the messages whose ids are new."""
    # Sorted, so that two workers that save the same ids cannot deadlock.
    keys = sorted(messages)
    # A literal, because Citus does not pass on the types of parameters that it leaves out.
    memory = f"interval '{retention_period().total_seconds():.0f} seconds'"
    rows: list[sql.Row] = []
    for batch in _batches(keys):
        rows += sql.fetch(
            _SAVE.format(memory=memory),
            {
                "products": [product for product, _ in batch],
                "ids": [message_id for _, message_id in batch],
                "received": [messages[key].received_at for key in batch],
            },
        )
    return {messages[product, message_id].arrival for product, message_id in rows}


def _batches(keys: list[MessageIdKey]) -> list[list[MessageIdKey]]:
    """All keys together; on a cluster, those of each product."""
    if not distribution.is_distributed():
        return [keys]
    return [list(own) for _, own in groupby(keys, key=itemgetter(0))]
