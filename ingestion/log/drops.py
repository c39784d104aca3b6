"""The record of what was accepted and not recorded, and why.

"Why did my event not arrive?" is answered from here: each dropped message is listed with its
reason, and counted per reason, product and UTC day. Of messages without a valid key those beyond a
bounded number a second are only counted (``ingestion.inbox.quotas``).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import LiteralString

import msgspec

from engagement.core import credentials
from engagement.database import sql
from engagement.messages import Statement, Track
from ingestion.models import DroppedMessage, DropReason
from ingestion.payloads import UnusableMessage


class Drop(msgspec.Struct, frozen=True):
    """A message that is not recorded, or not all of it, which ``detail`` then says.

    ``product_id`` is None where the key names none.
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
    DroppedMessage.objects.bulk_create(_row(one, now) for one in dropped)
    add_counts(Counter((one.product_id, one.reason) for one in dropped), now)


def add_counts(dropped: Mapping[tuple[int | None, DropReason], int], now: datetime) -> None:
    """Count so many messages of each product, None where the key names none, and reason."""
    # Sorted, so that two workers that drop messages of the same products cannot deadlock.
    counted = sorted(dropped.items(), key=lambda item: (item[0][0] or 0, item[0][1].value))
    days: list[date] = [now.astimezone(UTC).date()] * len(counted)
    sql.execute(
        _COUNT,
        {
            "products": [product for (product, _), _ in counted],
            "days": days,
            "reasons": [reason.value for (_, reason), _ in counted],
            "counts": [number for _, number in counted],
        },
    )


# What stands for the key of a request that carried none.
_NO_KEY = credentials.digest("")


def invalid_key_reason(digest: bytes) -> DropReason:
    """Why a message is dropped that came with a key that there is not."""
    return DropReason.MISSING_KEY if digest == _NO_KEY else DropReason.UNKNOWN_KEY


# What is dropped because somebody was forgotten must not bring back what was forgotten.
_WITHOUT_DETAILS = {DropReason.FORGOTTEN, DropReason.DELETED_PRODUCT}


def _row(one: Drop, now: datetime) -> DroppedMessage:
    return DroppedMessage(
        id=one.id,
        product_id=one.product_id,
        reason=one.reason,
        key_hint=one.key_hint,
        kind=kind_of(one.message),
        received_at=one.received_at,
        dropped_at=now,
        **({} if one.reason in _WITHOUT_DETAILS else _details(one)),
    )


def _details(one: Drop) -> dict[str, str | None]:
    message = one.message
    return {
        "request_id": one.request_id,
        "user_external_id": message.user_id or "",
        "account_external_id": message.group_id or "",
        "event": (message.event or "") if isinstance(message, Track | UnusableMessage) else "",
        "message_id": message.message_id or "",
        "detail": message.detail if isinstance(message, UnusableMessage) else one.detail,
    }


def kind_of(message: Statement | UnusableMessage) -> str:
    """The message's kind as its senders know it."""
    if isinstance(message, UnusableMessage):
        return message.kind
    return type(message).__name__.lower()
