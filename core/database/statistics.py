"""Keeps the planner's statistics of the tables that scoring reads up to date.

Autovacuum checks once a minute. In that minute a product can grow from nothing to 100,000 users,
and a statement that is planned for no rows then runs for minutes.
"""

import time
from typing import LiteralString

from django.db import connection

from core.database import distribution, sql

_TABLES = [
    "engagement_user",
    "engagement_account",
    "engagement_eventname",
    "engagement_dailycount",
    "engagement_userengagement",
    "engagement_accountengagement",
    "engagement_searchentry",
    "engagement_subjectchange",
]
# Analyze a table after this many changed rows that are also this share of all rows.
MIN_CHANGED_ROWS, MIN_CHANGED_SHARE = 5_000, 0.2

_GROWN: LiteralString = """
    SELECT c.relname
    FROM pg_class c
    WHERE c.oid = ANY(%(tables)s::regclass[])
      AND pg_stat_get_mod_since_analyze(c.oid)
          > GREATEST(%(rows)s, %(share)s::float8 * GREATEST(c.reltuples, 0))
    ORDER BY c.relname
"""

# Nodes plan with their own statistics, and count their own changes. The parts of a table there have
# its name and a number.
_ANALYZE_PARTS: LiteralString = """
    DO $$
    DECLARE part regclass;
    BEGIN
        FOR part IN SELECT c.oid FROM pg_class c WHERE c.relkind = 'r' AND {condition} LOOP
            EXECUTE format('ANALYZE (SKIP_LOCKED) %s', part);
        END LOOP;
    END $$
"""
_GROWN_PARTS: LiteralString = """
    c.relname ~ '^({tables})_[0-9]+$' AND pg_stat_get_mod_since_analyze(c.oid)
        > GREATEST({rows}, {share} * GREATEST(c.reltuples, 0))
"""
# Seconds from one look at the nodes to the next.
NODES_INTERVAL = 10.0
_looked_at_nodes = float("-inf")


def analyze_grown_tables() -> list[str]:
    """Analyze the tables that have grown. Returns their names; on a cluster it returns none."""
    if distribution.is_distributed():
        _analyze_on_nodes()
        return []
    limits = {"tables": _TABLES, "rows": MIN_CHANGED_ROWS, "share": MIN_CHANGED_SHARE}
    grown = [name for (name,) in sql.fetch(_GROWN, limits)]
    analyze(grown)
    return grown


def _analyze_on_nodes() -> None:
    """Have each node analyze its part of the tables. A node that is away does so later."""
    global _looked_at_nodes
    if time.monotonic() - _looked_at_nodes < NODES_INTERVAL:
        return
    _looked_at_nodes = time.monotonic()
    _analyze_where(
        _GROWN_PARTS.format(
            tables="|".join(_TABLES), rows=MIN_CHANGED_ROWS, share=MIN_CHANGED_SHARE
        )
    )


def analyze_parts(parts: list[str]) -> None:
    """Analyze these parts of distributed tables, each on the node that has it."""
    _analyze_where(f"c.relname IN ({', '.join(map(repr, parts))})")


def _analyze_where(condition: str) -> None:
    command = _ANALYZE_PARTS.format(condition=condition)
    sql.fetch("SELECT run_command_on_workers(%(command)s)", {"command": command})


def analyze(tables: list[str] = _TABLES) -> None:
    """Analyze the tables, except those that another session has locked at the moment."""
    if tables:
        names = ", ".join(connection.ops.quote_name(table) for table in tables)
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE (SKIP_LOCKED) {names}")
