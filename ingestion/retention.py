"""Forgets what ingestion keeps for a bounded time and number only.

Whatever is due goes in pieces, each a transaction of its own; what is left when the time is up
waits for the next call.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import LiteralString

from django.conf import settings

from engagement.database import sql
from ingestion.drain import message_ids

# So many rows are deleted by one statement: it must not hold its locks for long.
CHUNK_ROWS = 10_000
# Counts per hour are for a glance at the last day.
HOUR_COUNT_RETENTION = timedelta(days=8)

OutOfTime = Callable[[], bool]

_FORGET: LiteralString = """
    DELETE FROM {table} WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM {table} WHERE {column} < %(before)s LIMIT %(chunk)s))
"""
_FORGET_MESSAGE_IDS = _FORGET.format(table="ingestion_seenmessageid", column="seen_at")
_FORGET_DROPPED = _FORGET.format(table="ingestion_droppedmessage", column="dropped_at")
_FORGET_QUARANTINED = _FORGET.format(table="ingestion_quarantinedmessage", column="quarantined_at")
_FORGET_HOURS = _FORGET.format(table="ingestion_hourcount", column="hour")
_OLDEST_WAITING: LiteralString = "SELECT min(received_at) FROM ingestion_inboxmessage"


def delete_expired(now: datetime, out_of_time: OutOfTime = lambda: False) -> None:
    """Forget message ids, dropped and quarantined messages and counts per hour that have been kept
    for long enough, and the oldest dropped ones of whom there are too many. Their counts per day
    stay."""
    _repeat(_FORGET_MESSAGE_IDS, {"before": _ids_kept_from(now)}, out_of_time)
    dropped_before = now - timedelta(days=settings.DROPPED_RETENTION_DAYS)
    _repeat(_FORGET_DROPPED, {"before": dropped_before}, out_of_time)
    quarantined_before = now - timedelta(days=settings.QUARANTINE_RETENTION_DAYS)
    _repeat(_FORGET_QUARANTINED, {"before": quarantined_before}, out_of_time)
    _repeat(_FORGET_HOURS, {"before": now - HOUR_COUNT_RETENTION}, out_of_time)
    _limit_dropped(dropped_before, out_of_time)


def _ids_kept_from(now: datetime) -> datetime:
    """An id is needed for as long as a repeat may wait that was received soon after it."""
    ((oldest,),) = sql.fetch(_OLDEST_WAITING)
    return min(now, oldest or now) - message_ids.retention_period()


# --- The number of dropped messages ---------------------------------------------------------

# The counts per day say of whom there may be too many, without a look at all that is listed.
_DROPPED_OFTEN: LiteralString = """
    SELECT product_id FROM ingestion_dropcount WHERE day >= %(since)s
    GROUP BY product_id HAVING sum(count) > %(keep)s
"""
_LIMIT_DROPPED: LiteralString = """
    DELETE FROM ingestion_droppedmessage WHERE id = ANY(ARRAY(
        SELECT id FROM ingestion_droppedmessage WHERE {whose}
        ORDER BY dropped_at DESC, id DESC
        OFFSET %(keep)s LIMIT %(chunk)s))
"""
_LIMIT_OF_PRODUCT = _LIMIT_DROPPED.format(whose="product_id = %(product)s")
_LIMIT_OF_NOBODY = _LIMIT_DROPPED.format(whose="product_id IS NULL")


def _limit_dropped(since: datetime, out_of_time: OutOfTime) -> None:
    """Keep the newest of each product, and of those with unknown keys: a flood of one kind pushes
    out no entry of another."""
    keep = settings.DROPPED_LIMIT
    often = sql.fetch(_DROPPED_OFTEN, {"since": since.astimezone(UTC).date(), "keep": keep})
    for (product_id,) in often:
        if product_id is None:
            _repeat(_LIMIT_OF_NOBODY, {"keep": keep}, out_of_time)
        else:
            _repeat(_LIMIT_OF_PRODUCT, {"product": product_id, "keep": keep}, out_of_time)


def _repeat(
    statement: LiteralString, parameters: dict[str, object], out_of_time: OutOfTime
) -> None:
    while (
        not out_of_time()
        and sql.execute(statement, {**parameters, "chunk": CHUNK_ROWS}) == CHUNK_ROWS
    ):
        pass
