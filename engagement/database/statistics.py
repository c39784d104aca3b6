"""Keeps the planner's statistics of the tables that scoring reads up to date.

Autovacuum checks once a minute. In that minute a product can grow from nothing to 100,000 users,
and a statement that is planned for no rows then runs for minutes.
"""

from typing import LiteralString

from django.db import connection

from engagement.database import sql

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


def analyze_grown_tables() -> list[str]:
    """Analyze the tables that have grown. Returns their names."""
    limits = {"tables": _TABLES, "rows": MIN_CHANGED_ROWS, "share": MIN_CHANGED_SHARE}
    grown = [name for (name,) in sql.fetch(_GROWN, limits)]
    analyze(grown)
    return grown


def analyze(tables: list[str] = _TABLES) -> None:
    """Analyze the tables, except those that another session has locked at the moment."""
    if tables:
        names = ", ".join(connection.ops.quote_name(table) for table in tables)
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE (SKIP_LOCKED) {names}")
