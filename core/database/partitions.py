"""Creates the weekly partitions of the event table ahead, and drops them by age.

Older releases made a partition for each month. These stay until they are too old, and weeks follow
the last of them.
"""

from datetime import UTC, date, datetime, time, timedelta
from typing import LiteralString, NamedTuple

from django.db import connection, transaction
from psycopg import sql as compose

from core.database import distribution, sql

TIME_AHEAD = timedelta(weeks=4)
_DAY, _WEEK = timedelta(days=1), timedelta(weeks=1)
# Some 100,000 events.
BLOCKS_PER_STATEMENT = 1_000
# Recording waits behind a statement that waits for the table's lock.
LOCK_TIMEOUT: LiteralString = "SET LOCAL lock_timeout = '2s'"

# The parent has no key: each partition has its own, and a packed one has none (``packing``).
KEY: LiteralString = "PRIMARY KEY (product_id, user_id, occurred_at, arrival)"

_PARTITIONS: LiteralString = r"""
    SELECT c.relname, bounds[1]::timestamptz, bounds[2]::timestamptz
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    CROSS JOIN regexp_match(pg_get_expr(c.relpartbound, c.oid), $$FROM \('(.+)'\) TO \('(.+)'\)$$)
        AS bounds
    WHERE i.inhparent = 'engagement_event'::regclass AND bounds IS NOT NULL
    ORDER BY 2
"""


class Partition(NamedTuple):
    """A partition, its first day, and the day after its last one."""

    name: str
    start: date
    end: date


def partitions() -> list[Partition]:
    """The partitions of events in the order of time, without that of all other times."""
    return [
        Partition(name, start.astimezone(UTC).date(), end.astimezone(UTC).date())
        for name, start, end in sql.fetch(_PARTITIONS)
    ]


def maintain_partitions(today: date, retention_days: int) -> None:
    """Create the partition of each week within the retention, and drop the others.

    Events that are older than the retention when they arrive go to the default partition, until
    the next call deletes them. Their daily counts stay.
    """
    oldest = today - timedelta(days=retention_days)
    existing = partitions()
    last = _next_monday(today + TIME_AHEAD)
    day = _next_monday(oldest) - _WEEK
    for start, end in [*((each.start, each.end) for each in existing), (last, last)]:
        while day < min(start, last):
            next_day = min(_next_monday(day), start)
            _create(Partition(f"engagement_event_{day:%Y_%m_%d}", day, next_day))
            day = next_day
        day = max(day, end)
    for partition in existing:
        if partition.end <= oldest:
            _execute(compose.SQL("DROP TABLE {}").format(compose.Identifier(partition.name)))
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


def _create(partition: Partition) -> None:
    """Create the partition, and move its events there from the default partition."""
    table = compose.Identifier(partition.name)
    with transaction.atomic():
        _execute(
            compose.SQL("CREATE TABLE {} (LIKE engagement_event INCLUDING ALL, {})").format(
                table, compose.SQL(KEY)
            )
        )
        _execute(
            compose.SQL(
                "WITH moved AS (DELETE FROM engagement_event_default"
                " WHERE occurred_at >= {start} AND occurred_at < {end} RETURNING *)"
                " INSERT INTO {table} SELECT * FROM moved"
            ).format(table=table, **bounds(partition))
        )
        _execute(attach(table, partition))


def attach(table: compose.Identifier, partition: Partition) -> compose.Composed:
    """The statement that makes the table the partition of these days."""
    return compose.SQL(
        "ALTER TABLE engagement_event ATTACH PARTITION {table} FOR VALUES FROM ({start}) TO ({end})"
    ).format(table=table, **bounds(partition))


def bounds(partition: Partition) -> dict[str, compose.Literal]:
    """The first moment of the partition, and the first one after it."""
    days = {"start": partition.start, "end": partition.end}
    return {name: compose.Literal(f"{day} 00:00+00") for name, day in days.items()}


def _execute(statement: compose.Composed) -> None:
    """Run a statement that changes tables. Gives up rather than wait long for a table's lock."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(LOCK_TIMEOUT)
        cursor.execute(statement)


def _next_monday(day: date) -> date:
    return day + (7 - day.weekday()) * _DAY
