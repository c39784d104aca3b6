"""Packs the events of weeks that are over: in the order of users, on full pages, under an index
that says which users lie where.

A table is filled beside the week's own, in bounded steps, while others read and write that one. A
trigger notes the keys of what they write. At last the two tables change places, with what was
noted, in one transaction. A packed week goes on taking late events; if they make it grow by a
tenth, it is packed again.

On a cluster all of that is one step, because nodes note nothing: what arrives late for the week
waits meanwhile.
"""

import re
from collections.abc import Callable
from datetime import date
from math import isqrt
from typing import Any, LiteralString

from django.db import InternalError, OperationalError, connection, transaction
from psycopg import sql as compose

from core.database import distribution, retries, sql
from core.database.partitions import Partition, attach, bounds, partitions

# Who reads or writes events waits behind a statement that waits for their tables' locks.
LOCK_TIMEOUT: LiteralString = "SET LOCAL lock_timeout = '300ms'"
# The nodes wait as long.
_TELL_NODES: LiteralString = "SET LOCAL citus.propagate_set_commands = 'local'"

ROWS_PER_STEP = 50_000
NOTES_PER_STEP = 2_000
GROWTH = 1.1
# Pages that may be added before another packing pays.
FEW_BLOCKS = 128
# Where a packing is: its week, what comes next, and the last key that was copied.
Cursor = list[Any]

_PACKED = re.compile(r"packed in (\d+) blocks")
_BLOCKS: LiteralString = """
    SELECT {bytes} / current_setting('block_size')::integer,
           COALESCE(obj_description(%(table)s::regclass, 'pg_class'), '')
"""
# What a packing leaves that was given up.
_TIDY_UP: tuple[LiteralString, ...] = (
    "DROP FUNCTION IF EXISTS engagement_packing_note CASCADE",
    "DROP TABLE IF EXISTS engagement_packing_notes, engagement_packing",
)
_CREATE: LiteralString = """
    CREATE TABLE engagement_packing (LIKE engagement_event INCLUDING DEFAULTS,
        CONSTRAINT engagement_event_days CHECK (occurred_at >= {start} AND occurred_at < {end}))
"""
_DISTRIBUTE: tuple[LiteralString, ...] = (
    "SET LOCAL citus.multi_shard_modify_mode = 'sequential'",
    "LOCK TABLE {week} IN SHARE ROW EXCLUSIVE MODE",
    "SELECT create_distributed_table('engagement_packing', 'product_id',"
    " colocate_with => 'engagement_event')",
)
# Creating the trigger waits for who writes to the week.
_NOTE: tuple[LiteralString, ...] = (
    "CREATE TABLE engagement_packing_notes"
    " (product_id bigint, user_id bigint, occurred_at timestamptz, arrival bigint)",
    """
    CREATE FUNCTION engagement_packing_note() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP <> 'INSERT' THEN
            INSERT INTO engagement_packing_notes
            VALUES (OLD.product_id, OLD.user_id, OLD.occurred_at, OLD.arrival);
        END IF;
        IF TG_OP <> 'DELETE' THEN
            INSERT INTO engagement_packing_notes
            VALUES (NEW.product_id, NEW.user_id, NEW.occurred_at, NEW.arrival);
        END IF;
        RETURN NULL;
    END $$
    """,
    "CREATE TRIGGER engagement_packing AFTER INSERT OR UPDATE OR DELETE ON {week}"
    " FOR EACH ROW EXECUTE FUNCTION engagement_packing_note()",
)
_COPY: LiteralString = """
    WITH copied AS (
        INSERT INTO engagement_packing
        SELECT * FROM {week}
        WHERE (product_id, user_id, occurred_at, arrival) > ({after})
        ORDER BY product_id, user_id, occurred_at, arrival LIMIT {rows}
        RETURNING product_id, user_id, occurred_at, arrival)
    SELECT count(*) OVER (), product_id, user_id, occurred_at::text, arrival FROM copied
    ORDER BY product_id DESC, user_id DESC, copied.occurred_at DESC, arrival DESC LIMIT 1
"""
_COPY_ALL: LiteralString = """
    INSERT INTO engagement_packing
    SELECT * FROM {week} ORDER BY product_id, user_id, occurred_at, arrival
"""
_FIRST = [0, 0, "-infinity", 0]
_NOTE_SIZE = "note the size"
# Users lie beside each other, so a few bytes for each range of pages find them. The filter finds
# the events of one request, which the search for a message id reads; without the product, the
# planner would prefer the last index, which is the parent's. Nodes of a cluster that exchange
# tables ask for an identity where there is no key.
_FINISH: tuple[LiteralString, ...] = (
    "CREATE INDEX ON engagement_packing USING brin (product_id, user_id, occurred_at)"
    " WITH (pages_per_range = {pages}, autosummarize = on)",
    """
    CREATE INDEX ON engagement_packing USING brin (
        product_id, received_at timestamptz_bloom_ops(n_distinct_per_range = 800))
    WITH (pages_per_range = 8, autosummarize = on)
    """,
    "CREATE INDEX ON engagement_packing USING brin (received_at)"
    " WITH (pages_per_range = 32, autosummarize = on)",
    "ALTER TABLE engagement_packing REPLICA IDENTITY FULL",
    "ANALYZE engagement_packing",
)
# Looking at a range of the index takes a sixtieth of the time of reading a page of it.
RANGES_PER_PAGE = 60
MIN_PAGES_PER_RANGE = 8
_THIS_TRANSACTION: LiteralString = "SELECT pg_current_xact_id()::xid::text"
# To a transaction whose snapshot is that old, the table would be empty.
_OLD_SNAPSHOTS: LiteralString = """
    SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend'
      AND pid <> pg_backend_pid() AND age(backend_xmin) >= age(%(transaction)s::xid)
    LIMIT 1
"""
_APPLY: LiteralString = """
    WITH noted AS MATERIALIZED (
        DELETE FROM engagement_packing_notes WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM engagement_packing_notes LIMIT {notes}))
        RETURNING product_id, user_id, occurred_at, arrival),
    keys AS MATERIALIZED (SELECT DISTINCT * FROM noted),
    removed AS (
        DELETE FROM engagement_packing p USING keys k
        WHERE p.product_id = k.product_id AND p.user_id = k.user_id
          AND p.occurred_at = k.occurred_at AND p.arrival = k.arrival)
    INSERT INTO engagement_packing
    SELECT e.* FROM {week} e JOIN keys USING (product_id, user_id, occurred_at, arrival)
"""
_LOCK: LiteralString = "LOCK TABLE ONLY engagement_event, ONLY {week} IN ACCESS EXCLUSIVE MODE"
_SWAP: tuple[LiteralString, ...] = (
    "ALTER TABLE engagement_event DETACH PARTITION {week}",
    "DROP TABLE {week}",
    "ALTER TABLE engagement_packing RENAME TO {week}",
    "{attach}",
    "ALTER TABLE {week} DROP CONSTRAINT engagement_event_days",
)


class Busy(Exception):
    """Others read or write the week. Nothing was changed, and the same step may be tried again."""


def pack_some(cursor: Cursor | None, today: date) -> Cursor | None:
    """Go on with a packing, or begin one. Returns where to go on, and None if nothing is left.

    Runs in the transaction that stores the cursor. Raises Busy.
    """
    by_name = {partition.name: partition for partition in partitions()}
    try:
        with transaction.atomic():
            if cursor is not None and (week := by_name.get(cursor[0])) and _is_there(cursor[1]):
                return _STEPS[cursor[1]](week, *cursor[2:])
            for week in by_name.values():
                if week.end <= today and _should_pack(week.name):
                    return _begin(week)
            give_up()
            return None
    except (InternalError, OperationalError) as error:
        # The former is how a cluster says that a node waited for a lock in vain.
        if retries.is_transient(error) and connection.is_usable():
            raise Busy from error
        raise


def give_up() -> None:
    """Remove what a packing has written until now, with the rows of people who are forgotten
    meanwhile. It begins again."""
    with transaction.atomic():
        _run(None, *_TIDY_UP)


def _is_there(step: str) -> bool:
    ((table,),) = sql.fetch("SELECT to_regclass('engagement_packing')")
    return table is not None or step == _NOTE_SIZE


def _should_pack(table: str) -> bool:
    blocks, packed = _sizes(table)
    return blocks > (GROWTH * packed + FEW_BLOCKS if packed is not None else 0)


def _sizes(table: str) -> tuple[int, int | None]:
    """How many pages the table has, and how many it had when it was packed, if it was."""
    size = "citus_relation_size" if distribution.is_distributed() else "pg_relation_size"
    statement = _BLOCKS.format(bytes=f"{size}(%(table)s::regclass)")
    ((blocks, comment),) = sql.fetch(statement, {"table": table})
    packed = _PACKED.fullmatch(comment)
    return blocks, int(packed[1]) if packed else None


def _begin(week: Partition) -> Cursor:
    pages = _pages_per_range(week)
    _run(week, *_TIDY_UP, _CREATE)
    if distribution.is_distributed():
        _run(week, *_DISTRIBUTE, _COPY_ALL, *_FINISH, pages=pages)
        return _swap(week)
    _run(week, *_NOTE)
    return [week.name, "copy", _FIRST]


def _copy(week: Partition, after: list[Any]) -> Cursor:
    _, packed = _sizes(week.name)
    if packed is not None:
        # It has no key that its rows could be read by, step by step.
        _run(week, _COPY_ALL)
        return [week.name, "finish"]
    copied = _run(
        week, _COPY, after=compose.SQL(", ").join(map(compose.Literal, after)), rows=ROWS_PER_STEP
    )
    if copied and copied[0][0] == ROWS_PER_STEP:
        return [week.name, "copy", list(copied[0][1:])]
    return [week.name, "finish"]


def _pages_per_range(week: Partition) -> int:
    """For how many pages an entry of the index of users is: few entries are read, and few pages."""
    blocks, _ = _sizes(week.name)
    return max(MIN_PAGES_PER_RANGE, isqrt(blocks // RANGES_PER_PAGE))


def _finish(week: Partition) -> Cursor:
    _run(week, *_FINISH, pages=_pages_per_range(week))
    return _swap_later(week)


def _swap_later(week: Partition) -> Cursor:
    ((transaction_id,),) = sql.fetch(_THIS_TRANSACTION)
    return [week.name, "swap", transaction_id]


def _change_places(week: Partition, written_in: str) -> Cursor:
    ((notes,),) = sql.fetch("SELECT count(*) FROM engagement_packing_notes")
    if notes > NOTES_PER_STEP:
        _run(week, _APPLY, notes=NOTES_PER_STEP)
        return _swap_later(week)
    if sql.fetch(_OLD_SNAPSHOTS, {"transaction": written_in}):
        raise Busy
    _run(week, _LOCK)
    _run(week, _APPLY, notes=None)
    return _swap(week)


def _swap(week: Partition) -> Cursor:
    _run(week, *_SWAP)
    return [week.name, _NOTE_SIZE]


def _note_size(week: Partition) -> Cursor:
    # A cluster says no sizes in a transaction that has written.
    blocks, _ = _sizes(week.name)
    _run(week, "COMMENT ON TABLE {week} IS {text}", text=f"packed in {blocks} blocks")
    return ["", "look for the next"]


_STEPS: dict[str, Callable[..., Cursor]] = {
    "copy": _copy,
    "finish": _finish,
    "swap": _change_places,
    _NOTE_SIZE: _note_size,
}


def _run(week: Partition | None, *statements: LiteralString, **values: Any) -> list[sql.Row]:
    """Run statements about the week; return the rows of the last one. Gives up rather than wait
    long for a table's lock."""
    parts: dict[str, Any] = dict(values)
    if week is not None:
        table = compose.Identifier(week.name)
        parts |= {"week": table, "attach": attach(table, week), **bounds(week)}
    rows: list[sql.Row] = []
    with connection.cursor() as cursor:
        if distribution.is_distributed():
            cursor.execute(_TELL_NODES)
        cursor.execute(LOCK_TIMEOUT)
        for statement in statements:
            cursor.execute(compose.SQL(statement).format(**parts))
            rows = cursor.fetchall() if cursor.description else []
    return rows
