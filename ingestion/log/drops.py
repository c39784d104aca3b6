"""Dropped messages: accepted but not recorded, with the reason.

Each is listed, and counted by reason, product and UTC day. This answers "Why did my event not
arrive?" ``DropReason`` has the reasons and ``texts.py`` their remedies. The doors and
``ingestion/drain/processing.py`` find them. Messages without a valid key that exceed a number per
second are only counted (``ingestion.inbox.quotas``).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import LiteralString

import msgspec

from core import credentials
from core.database import sql
from engagement.messages import Statement, Track
from ingestion.models import DroppedMessage, DropReason
from ingestion.payloads import UnusableMessage


class Drop(msgspec.Struct, frozen=True):
    """A message that is not recorded, or only in part; then ``detail`` tells what is missing.

    ``product_id`` is None if the key belongs to no product.
    """

    id: int
    product_id: int | None
    reason: DropReason
    key_hint: str
    message: Statement | UnusableMessage
    received_at: datetime
    request_id: str | None = None
    detail: str = ""


_COUNT: LiteralString = """
    INSERT INTO ingestion_dropcount AS c (product_id, day, reason, count)
    SELECT * FROM unnest(%(products)b::bigint[], %(days)b::date[], %(reasons)b::text[],
                         %(counts)b::bigint[])
    ON CONFLICT (product_id, day, reason) DO UPDATE SET count = c.count + EXCLUDED.count
"""


def save_drops(dropped: Sequence[Drop], now: datetime) -> None:
    """List and count the messages, in the caller's transaction."""
    if not dropped:
        return
    DroppedMessage.objects.bulk_create(_row(drop, now) for drop in dropped)
    add_counts(Counter((drop.product_id, drop.reason) for drop in dropped), now)


def add_counts(dropped: Mapping[tuple[int | None, DropReason], int], now: datetime) -> None:
    """Add the numbers of messages, by product (None if the key belongs to none) and reason."""
    if not dropped:
        return
    # Sorted, so that two workers that drop messages of the same products cannot deadlock.
    counts = sorted(dropped.items(), key=lambda item: (item[0][0] or 0, item[0][1].value))
    days: list[date] = [now.astimezone(UTC).date()] * len(counts)
    sql.execute(
        _COUNT,
        {
            "products": [product for (product, _), _ in counts],
            "days": days,
            "reasons": [reason.value for (_, reason), _ in counts],
            "counts": [number for _, number in counts],
        },
    )


# The digest of requests without a key.
NO_KEY = credentials.digest("")


def invalid_key_reason(digest: bytes) -> DropReason:
    """The reason for dropping a message whose key does not exist."""
    return DropReason.MISSING_KEY if digest == NO_KEY else DropReason.UNKNOWN_KEY


# The list must not bring back the ids that were deleted on request.
_WITHOUT_DETAILS = {DropReason.FORGOTTEN, DropReason.DELETED_PRODUCT}


def _row(drop: Drop, now: datetime) -> DroppedMessage:
    return DroppedMessage(
        id=drop.id,
        product_id=drop.product_id,
        reason=drop.reason,
        key_hint=drop.key_hint,
        kind=kind_of(drop.message),
        received_at=drop.received_at,
        dropped_at=now,
        **({} if drop.reason in _WITHOUT_DETAILS else _details(drop)),
    )


def _details(drop: Drop) -> dict[str, str | None]:
    message = drop.message
    return {
        "request_id": drop.request_id,
        "user_external_id": message.user_id or "",
        "account_external_id": message.group_id or "",
        "event": (message.event or "") if isinstance(message, Track | UnusableMessage) else "",
        "message_id": message.message_id or "",
        "detail": message.detail if isinstance(message, UnusableMessage) else drop.detail,
    }


def kind_of(message: Statement | UnusableMessage) -> str:
    """The message's kind in its senders' words."""
    if isinstance(message, UnusableMessage):
        return message.kind
    return type(message).__name__.lower()
