"""Keeps the planner's statistics of the tables that scoring and forecasts read up to date.

Autovacuum checks once a minute. In that minute a product can grow from nothing to 100,000 users,
and a statement that is planned for no rows then runs for minutes.

Every statement names its product as a plain value. For one that its statistics do not know yet,
the planner expects a single row, uses any index that begins with the product, and reads all of the
product for each subject. So before a product's turn ``refresh_product()`` asks the planner how many
rows it expects, and has tables analyzed where it is far off.
"""

import re
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
    "engagement_activeday",
    "engagement_searchentry",
    "engagement_subjectchange",
    "engagement_accountchance",
    "outcomes_licenseoutcome",
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


# --- Products that the statistics do not know -------------------------------------------------

_TABLES_OF_PRODUCTS: tuple[LiteralString, ...] = (
    "engagement_user",
    "engagement_account",
    "engagement_membership",
    "engagement_eventname",
    "engagement_dailycount",
    "engagement_userengagement",
    "engagement_accountengagement",
    "engagement_stalemark",
    "engagement_accountchance",
    "outcomes_licenseoutcome",
)
# The planner takes the right index if it expects this many rows.
EXPECTED_ROWS = 20
# It must not expect fewer of a product with this many. Reading all of those for each of them takes
# milliseconds.
MANY_ROWS = 200
# Seconds after which a process asks again about the same product.
PRODUCT_INTERVAL = 5.0

_looked_at_products: dict[int, float] = {}
# By product and table: how many rows the product must have for another ANALYZE. The sample of a
# huge table may miss a small product.
_next_rows: dict[tuple[int, str], int] = {}

_EXPECTED: LiteralString = "EXPLAIN " + " UNION ALL ".join(
    f"(SELECT FROM {table} WHERE product_id = %(product)s)" for table in _TABLES_OF_PRODUCTS
)
# A node's table has a number, and the name of the distributed table as its alias.
_LINE = re.compile(r" on ((?:engagement|outcomes)_[a-z]+)(?:_\d+)?(?: \w+)? +\(cost=\S+ rows=(\d+)")


def refresh_product(product_id: int) -> list[str]:
    """Analyze the tables of whose rows the planner expects far too few to be the product's.
    Returns their names."""
    now = time.monotonic()
    if now - _looked_at_products.get(product_id, float("-inf")) < PRODUCT_INTERVAL:
        return []
    _looked_at_products[product_id] = now
    unknown = [table for table in _few_expected(product_id) if _has_many(product_id, table)]
    if unknown:
        for table in unknown:
            _next_rows[product_id, table] = 10 * _next_rows.get((product_id, table), MANY_ROWS)
        _analyze_for(product_id, unknown)
    return unknown


def _few_expected(product_id: int) -> list[LiteralString]:
    plan = "\n".join(line for (line,) in sql.fetch(_EXPECTED, {"product": product_id}))
    expected = {table: int(rows) for table, rows in _LINE.findall(plan)}
    return [table for table in _TABLES_OF_PRODUCTS if expected.get(table, 0) < EXPECTED_ROWS]


def _has_many(product_id: int, table: LiteralString) -> bool:
    many = _next_rows.get((product_id, table), MANY_ROWS)
    statement: LiteralString = f"""
        SELECT count(*) FROM (
            SELECT FROM {table} WHERE product_id = %(product)s LIMIT %(many)s) few
    """
    ((rows,),) = sql.fetch(statement, {"product": product_id, "many": many})
    return bool(rows >= many)


def _analyze_for(product_id: int, tables: list[LiteralString]) -> None:
    if not distribution.is_distributed():
        analyze(list(tables))
        return
    analyze_parts([f"{table}_{_part(product_id, table)}" for table in tables])


_PART: LiteralString = "SELECT get_shard_id_for_distribution_column(%(table)s, %(product)s)"


def _part(product_id: int, table: LiteralString) -> int:
    """The number of the part of a distributed table that has the product."""
    ((number,),) = sql.fetch(_PART, {"table": table, "product": product_id})
    return int(number)
