"""Creates the monthly partitions of the event table ahead, and drops them by age."""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import LiteralString

from django.db import connection, transaction
from psycopg import sql as compose

from core.database import distribution, sql

MONTHS_AHEAD = 2
# Some 100,000 events.
BLOCKS_PER_STATEMENT = 1_000
# Recording waits behind a statement that waits for the table's lock.
LOCK_TIMEOUT: LiteralString = "SET LOCAL lock_timeout = '2s'"

_NAME = re.compile(r"engagement_event_(\d{4})_(\d{2})")
_PARTITIONS: LiteralString = """
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'engagement_event'::regclass
"""


def maintain_partitions(today: date, retention_days: int) -> None:
    """Create the partition of each month within the retention, and drop the others.

    Events that are older than the retention when they arrive go to the default partition, until
    the next call deletes them. Their daily counts stay.
    """
    oldest = today - timedelta(days=retention_days)
    existing = {month for month in map(_month_of, _partition_names()) if month is not None}
    month, last = oldest.replace(day=1), _months_later(today, MONTHS_AHEAD)
    while month <= last:
        if month not in existing:
            _create(month)
        month = _months_later(month, 1)
    for month in sorted(existing):
        if _months_later(month, 1) <= oldest:
            _execute(compose.SQL("DROP TABLE {}").format(_table(month)))
    _delete_old_defaults(oldest)


_BLOCKS: LiteralString = """
    SELECT pg_relation_size('engagement_event_default') / current_setting('block_size')::integer
"""
_DELETE_OLD_DEFAULTS: LiteralString = """
    DELETE FROM engagement_event_default
    WHERE ctid >= format('(%%s,0)', %(start)s::bigint)::tid
      AND ctid < format('(%%s,0)', %(end)s::bigint)::tid AND occurred_at < %(oldest)s
"""
_DELETE_OLD_DEFAULTS_ON_NODES: LiteralString = """
    DELETE FROM engagement_event_default WHERE occurred_at < %(oldest)s
"""


def _delete_old_defaults(oldest: date) -> None:
    """Delete events that are too old from the default partition, one range of pages at a time.

    After an import of years there may be many, and no statement should take long.
    """
    if distribution.is_distributed():
        # The nodes delete side by side, each in its own tables.
        first = datetime.combine(oldest, time(), UTC)
        sql.execute(_DELETE_OLD_DEFAULTS_ON_NODES, {"oldest": first})
        return
    ((blocks,),) = sql.fetch(_BLOCKS)
    for start in range(0, blocks, BLOCKS_PER_STATEMENT):
        end = start + BLOCKS_PER_STATEMENT
        sql.execute(_DELETE_OLD_DEFAULTS, {"start": start, "end": end, "oldest": oldest})


def _create(month: date) -> None:
    """Create the month's partition, and move its events there from the default partition."""
    end = _months_later(month, 1)
    table = _table(month)
    bounds = {"start": month.isoformat() + " 00:00+00", "end": end.isoformat() + " 00:00+00"}
    with transaction.atomic():
        _execute(compose.SQL("CREATE TABLE {} (LIKE engagement_event INCLUDING ALL)").format(table))
        _execute(
            compose.SQL(
                "WITH moved AS (DELETE FROM engagement_event_default"
                " WHERE occurred_at >= {start} AND occurred_at < {end} RETURNING *)"
                " INSERT INTO {table} SELECT * FROM moved"
            ).format(table=table, **_literals(bounds))
        )
        _execute(
            compose.SQL(
                "ALTER TABLE engagement_event ATTACH PARTITION {table}"
                " FOR VALUES FROM ({start}) TO ({end})"
            ).format(table=table, **_literals(bounds))
        )


def _literals(values: dict[str, str]) -> dict[str, compose.Literal]:
    return {name: compose.Literal(value) for name, value in values.items()}


def _execute(statement: compose.Composed) -> None:
    """Run a statement that changes tables. Gives up rather than wait long for a table's lock."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LOCK_TIMEOUT)
        cursor.execute(statement)


def _partition_names() -> list[str]:
    return [name for (name,) in sql.fetch(_PARTITIONS)]


def _month_of(name: str) -> date | None:
    match = _NAME.fullmatch(name)
    return date(int(match[1]), int(match[2]), 1) if match else None


def _table(month: date) -> compose.Identifier:
    return compose.Identifier(f"engagement_event_{month:%Y_%m}")


def _months_later(day: date, months: int) -> date:
    """The first day of the month that is *months* after *day*."""
    index = day.year * 12 + day.month - 1 + months
    return date(index // 12, index % 12 + 1, 1)
