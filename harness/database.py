"""Questions to a database that are answered with one number."""

from typing import Any, LiteralString

import psycopg

WAITING: LiteralString = "SELECT count(*) FROM ingestion_inboxmessage"
EVENTS: LiteralString = "SELECT count(*) FROM engagement_event"
COUNTED: LiteralString = "SELECT COALESCE(sum(count), 0) FROM engagement_dailycount"
DROPPED: LiteralString = "SELECT count(*) FROM ingestion_droppedmessage"
QUARANTINED: LiteralString = "SELECT count(*) FROM ingestion_quarantinedmessage"


def number(database: "psycopg.Connection[Any]", statement: LiteralString, *values: Any) -> int:
    row = database.execute(statement, values or None).fetchone()
    return int(row[0]) if row else 0
