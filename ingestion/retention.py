"""Forgets what ingestion keeps for a bounded time and number only."""

from datetime import datetime, timedelta
from typing import LiteralString

from django.conf import settings

from engagement import sql
from ingestion.processing import MESSAGE_ID_MEMORY

# So many rows are deleted by one statement: it must not hold its locks for long.
CHUNK = 10_000

_FORGET_MESSAGE_IDS: LiteralString = """
    DELETE FROM ingestion_seenmessageid WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM ingestion_seenmessageid WHERE seen_at < %(before)s LIMIT %(chunk)s))
"""
_FORGET_DROPPED: LiteralString = """
    DELETE FROM ingestion_droppedmessage WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM ingestion_droppedmessage WHERE dropped_at < %(before)s LIMIT %(chunk)s))
"""
_LIMIT_DROPPED: LiteralString = """
    DELETE FROM ingestion_droppedmessage WHERE id = ANY(ARRAY(
        SELECT id FROM ingestion_droppedmessage ORDER BY id DESC
        OFFSET %(keep)s LIMIT %(chunk)s))
"""


def forget_old(now: datetime) -> None:
    """Forget message ids and dropped messages that have been kept for long enough, and the
    oldest dropped ones where there are too many. Their counts per day stay."""
    _repeat(_FORGET_MESSAGE_IDS, {"before": now - MESSAGE_ID_MEMORY})
    dropped_before = now - timedelta(days=settings.DROPPED_RETENTION_DAYS)
    _repeat(_FORGET_DROPPED, {"before": dropped_before})
    _repeat(_LIMIT_DROPPED, {"keep": settings.DROPPED_LIMIT})


def _repeat(statement: LiteralString, parameters: dict[str, object]) -> None:
    while sql.execute(statement, {**parameters, "chunk": CHUNK}) == CHUNK:
        pass
