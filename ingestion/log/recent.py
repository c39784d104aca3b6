"""Each product's newest recorded messages, as the ingestion log lists them.

A batch leaves a few of its messages in the product's slots (``RecentMessage``). So the log needs no
search through events, and shows identify, group and alias calls, too.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import LiteralString, NamedTuple

from core.database import sql
from core.rate_limits import RateLimit
from engagement.messages import Alias, Group, Identify, ReceivedMessage, Track
from engagement.recording.rejection_details import name_traits

# Of each kind of message, for each product.
SLOTS = 64
# Messages that a worker process keeps of each product and kind per minute, and at once after a
# pause. People cannot read more, and a batch must not pay for each message.
KEPT_PER_MINUTE, KEPT_AT_ONCE = 120, 20
# The same for all products together.
KEPT_PER_MINUTE_IN_ALL, KEPT_AT_ONCE_IN_ALL = 12_000, 1_000


class RecentRow(NamedTuple):
    """A message in its slot, in the order of the table's key."""

    product_id: int
    kind: str
    slot: int
    arrival: int
    received_at: datetime
    timestamp: datetime
    user: str
    previous: str
    account: str
    event: str
    message_id: str
    detail: str


class Sampler:
    """Chooses the messages of a batch that the log lists."""

    def __init__(self) -> None:
        self._in_all = RateLimit(KEPT_PER_MINUTE_IN_ALL, at_once=KEPT_AT_ONCE_IN_ALL)
        self._of_each = RateLimit(KEPT_PER_MINUTE, at_once=KEPT_AT_ONCE)

    def choose(
        self, recorded: Sequence[ReceivedMessage], rejected: Iterable[ReceivedMessage]
    ) -> list[RecentRow]:
        """Some of the *recorded* messages, the newest first, without the *rejected* ones."""
        left_out = {message.arrival for message in rejected}
        rows: list[RecentRow] = []
        exhausted: set[tuple[int, type]] = set()
        for received in reversed(recorded):
            key = (received.product_id, type(received.message))
            if key in exhausted or received.arrival in left_out:
                continue
            if not self._of_each.wait(key) and not self._in_all.wait(None):
                rows.append(_row(received))
            else:
                exhausted.add(key)
        return rows


def _row(received: ReceivedMessage) -> RecentRow:
    message = received.message
    assert isinstance(message, Identify | Group | Track | Alias)
    return RecentRow(
        product_id=received.product_id,
        kind=type(message).__name__.lower(),
        slot=received.arrival % SLOTS,
        arrival=received.arrival,
        received_at=received.received_at,
        timestamp=message.timestamp,
        user=message.user_id or "",
        previous=message.previous_id if isinstance(message, Alias) else "",
        account=message.group_id or "",
        event=message.event if isinstance(message, Track) else "",
        message_id=message.message_id or "",
        detail=name_traits(message.traits) if isinstance(message, Identify | Group) else "",
    )


_SAVE: LiteralString = """
    INSERT INTO ingestion_recentmessage AS r
        (product_id, kind, slot, arrival, received_at, timestamp, user_external_id,
         previous_external_id, account_external_id, event, message_id, detail)
    SELECT * FROM unnest(
        %(product_id)b::bigint[], %(kind)b::text[], %(slot)b::smallint[], %(arrival)b::bigint[],
        %(received_at)b::timestamptz[], %(timestamp)b::timestamptz[], %(user)b::text[],
        %(previous)b::text[], %(account)b::text[], %(event)b::text[], %(message_id)b::text[],
        %(detail)b::text[])
    ON CONFLICT (product_id, kind, slot) DO UPDATE SET
        arrival = EXCLUDED.arrival, received_at = EXCLUDED.received_at,
        timestamp = EXCLUDED.timestamp, user_external_id = EXCLUDED.user_external_id,
        previous_external_id = EXCLUDED.previous_external_id,
        account_external_id = EXCLUDED.account_external_id, event = EXCLUDED.event,
        message_id = EXCLUDED.message_id, detail = EXCLUDED.detail
    WHERE r.arrival < EXCLUDED.arrival
"""


def save(batches: Iterable[Collection[RecentRow]]) -> None:
    """Put the messages into their slots, in the caller's transaction."""
    newest: dict[tuple[int, str, int], RecentRow] = {}
    for rows in batches:
        for row in rows:
            if (held := newest.get(row[:3])) is None or held.arrival < row.arrival:
                newest[row[:3]] = row
    if newest:
        # Sorted, so that two workers that record messages of the same products cannot deadlock.
        ordered = [newest[key] for key in sorted(newest)]
        sql.execute(_SAVE, sql.arrays(ordered, *RecentRow._fields))
