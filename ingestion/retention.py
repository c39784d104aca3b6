"""Retention: how long rows of ingestion are kept, and how many."""

from datetime import UTC, datetime, timedelta
from typing import LiteralString

from django.conf import settings

from core import retention
from core.database import distribution, retries, sql
from core.retention import OutOfTime, Retention, days
from ingestion.models import (
    DroppedMessage,
    HourCount,
    MinuteCount,
    QuarantinedMessage,
    RefusedCount,
    RefusedRequest,
    SeenMessageId,
)

HOUR_COUNT_RETENTION = timedelta(days=8)
# Messages that waited for longer are not limited by them.
MINUTE_COUNT_RETENTION = timedelta(days=2)
_MESSAGE_IDS = Retention(SeenMessageId, "seen_at", days("MESSAGE_ID_RETENTION_DAYS"))
# On a cluster, the nodes delete side by side, each in its own tables.
_DELETE_MESSAGE_IDS_ON_NODES: LiteralString = """
    DELETE FROM ingestion_seenmessageid WHERE seen_at < %(before)s
"""
_OLDEST_WAITING: LiteralString = "SELECT min(received_at) FROM ingestion_inboxmessage"


def register() -> None:
    """Daily counts stay."""

    def hours() -> timedelta:
        return HOUR_COUNT_RETENTION

    retention.register(
        "ingestion",
        Retention(DroppedMessage, "dropped_at", days("DROPPED_RETENTION_DAYS")),
        Retention(QuarantinedMessage, "quarantined_at", days("QUARANTINE_RETENTION_DAYS")),
        Retention(HourCount, "hour", hours),
        Retention(RefusedRequest, "received_at", hours),
        Retention(RefusedCount, "hour", hours),
        Retention(MinuteCount, "minute", lambda: MINUTE_COUNT_RETENTION),
    )


def delete_expired(now: datetime, out_of_time: OutOfTime = lambda: False) -> None:
    """Delete what is past its retention, and the oldest dropped messages of a product with too
    many. What is left when the time is up waits for the next run."""
    _delete_message_ids(_oldest_needed_id(now), out_of_time)
    retention.delete_expired("ingestion", now, out_of_time)
    _limit_dropped(now - days("DROPPED_RETENTION_DAYS")(), out_of_time)


def _delete_message_ids(before: datetime, out_of_time: OutOfTime) -> None:
    if not distribution.is_distributed():
        retention.delete_older(_MESSAGE_IDS, before, out_of_time)
    elif not out_of_time():
        with retries.without_missing_nodes():
            sql.execute(_DELETE_MESSAGE_IDS_ON_NODES, {"before": before})


def _oldest_needed_id(now: datetime) -> datetime:
    """From when message ids are needed: a duplicate of one may still wait in the inbox."""
    ((oldest,),) = sql.fetch(_OLDEST_WAITING)
    return min(now, oldest or now) - _MESSAGE_IDS.lifetime()


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
        and sql.execute(statement, {**parameters, "chunk": retention.CHUNK_ROWS})
        == retention.CHUNK_ROWS
    ):
        pass
