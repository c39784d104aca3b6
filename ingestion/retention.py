"""Retention: deletes rows of ingestion that are too old or too many.

Each statement deletes one chunk in its own transaction. What is left when the time is up waits for
the next run.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import LiteralString

from django.conf import settings

from core.database import distribution, retries, sql
from ingestion.drain import message_ids, rate_limits

# Rows that one statement deletes. It must not hold its locks for long.
CHUNK_ROWS = 10_000
HOUR_COUNT_RETENTION = timedelta(days=8)

OutOfTime = Callable[[], bool]

_DELETE: LiteralString = """
    DELETE FROM {table} WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM {table} WHERE {column} < %(before)s LIMIT %(chunk)s))
"""
# On a cluster, the nodes delete side by side, each in its own tables.
_DELETE_MESSAGE_IDS_ON_NODES: LiteralString = """
    DELETE FROM ingestion_seenmessageid WHERE seen_at < %(before)s
"""
_DELETE_MESSAGE_IDS = _DELETE.format(table="ingestion_seenmessageid", column="seen_at")
_DELETE_DROPPED = _DELETE.format(table="ingestion_droppedmessage", column="dropped_at")
_DELETE_QUARANTINED = _DELETE.format(table="ingestion_quarantinedmessage", column="quarantined_at")
_DELETE_HOUR_COUNTS = _DELETE.format(table="ingestion_hourcount", column="hour")
_DELETE_REFUSED = _DELETE.format(table="ingestion_refusedrequest", column="received_at")
_DELETE_REFUSED_COUNTS = _DELETE.format(table="ingestion_refusedcount", column="hour")
_DELETE_MINUTE_COUNTS = _DELETE.format(table="ingestion_minutecount", column="minute")
_OLDEST_WAITING: LiteralString = "SELECT min(received_at) FROM ingestion_inboxmessage"


def delete_expired(now: datetime, out_of_time: OutOfTime = lambda: False) -> None:
    """Delete message ids, dropped messages, quarantined messages, refused requests and hourly
    counts after their retention, and the oldest dropped messages of a product with too many.

    Daily counts stay.
    """
    oldest_id: dict[str, object] = {"before": _oldest_needed_id(now)}
    if not distribution.is_distributed():
        _repeat(_DELETE_MESSAGE_IDS, oldest_id, out_of_time)
    elif not out_of_time():
        with retries.without_missing_nodes():
            sql.execute(_DELETE_MESSAGE_IDS_ON_NODES, oldest_id)
    dropped_before = now - timedelta(days=settings.DROPPED_RETENTION_DAYS)
    _repeat(_DELETE_DROPPED, {"before": dropped_before}, out_of_time)
    quarantined_before = now - timedelta(days=settings.QUARANTINE_RETENTION_DAYS)
    _repeat(_DELETE_QUARANTINED, {"before": quarantined_before}, out_of_time)
    for statement in (_DELETE_HOUR_COUNTS, _DELETE_REFUSED, _DELETE_REFUSED_COUNTS):
        _repeat(statement, {"before": now - HOUR_COUNT_RETENTION}, out_of_time)
    _repeat(_DELETE_MINUTE_COUNTS, {"before": now - rate_limits.RETENTION}, out_of_time)
    _limit_dropped(dropped_before, out_of_time)


def _oldest_needed_id(now: datetime) -> datetime:
    """From when message ids are needed: a duplicate of one may still wait in the inbox."""
    ((oldest,),) = sql.fetch(_OLDEST_WAITING)
    return min(now, oldest or now) - message_ids.retention_period()


# --- The number of dropped messages ---------------------------------------------------------

# The daily counts tell which products may have too many, without counting the list.
_FREQUENT_DROPPERS: LiteralString = """
    SELECT product_id FROM ingestion_dropcount WHERE day >= %(since)s
    GROUP BY product_id HAVING sum(count) > %(keep)s
"""
_LIMIT_DROPPED: LiteralString = """
    DELETE FROM ingestion_droppedmessage WHERE id = ANY(ARRAY(
        SELECT id FROM ingestion_droppedmessage WHERE {condition}
        ORDER BY dropped_at DESC, id DESC
        OFFSET %(keep)s LIMIT %(chunk)s))
"""
_LIMIT_OF_PRODUCT = _LIMIT_DROPPED.format(condition="product_id = %(product)s")
_LIMIT_WITHOUT_PRODUCT = _LIMIT_DROPPED.format(condition="product_id IS NULL")


def _limit_dropped(since: datetime, out_of_time: OutOfTime) -> None:
    """Keep the newest dropped messages of each product, and the newest without one. So a flood of
    one kind removes no entry of another."""
    keep = settings.DROPPED_LIMIT
    rows = sql.fetch(_FREQUENT_DROPPERS, {"since": since.astimezone(UTC).date(), "keep": keep})
    for (product_id,) in rows:
        if product_id is None:
            _repeat(_LIMIT_WITHOUT_PRODUCT, {"keep": keep}, out_of_time)
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
