"""Keeps PostgreSQL's statistics of what scoring reads up with growth.

Autovacuum looks once a minute. In that minute a product can grow from nothing to 100,000 users, and
a statement that is planned for nothing then runs for minutes.
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
]
# A table is due when so many of its rows changed since the last time, and this share of them.
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
    """Analyze the tables that have grown; their names."""
    grown = [name for (name,) in sql.fetch(_GROWN, _due(_TABLES))]
    analyze(grown)
    return grown


def _due(tables: list[str]) -> dict[str, object]:
    return {"tables": tables, "rows": MIN_CHANGED_ROWS, "share": MIN_CHANGED_SHARE}


def analyze(tables: list[str] = _TABLES) -> None:
    """Analyze the tables, except where somebody else holds one just now."""
    if tables:
        names = ", ".join(connection.ops.quote_name(table) for table in tables)
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE (SKIP_LOCKED) {names}")
