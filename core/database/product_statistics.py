"""Keeps planner statistics for large products.

Every statement names its product as a plain value. For one that its statistics do not know yet,
the planner expects a single row, uses any index that begins with the product, and reads all of the
product for each subject. So before a product's turn this asks the planner how many rows it
expects, and has tables analyzed where it is far off.
"""

import re
import time
from typing import LiteralString

from core.database import distribution, sql, statistics

_TABLES: tuple[LiteralString, ...] = (
    "engagement_user",
    "engagement_account",
    "engagement_membership",
    "engagement_eventname",
    "engagement_dailycount",
    "engagement_userengagement",
    "engagement_accountengagement",
    "engagement_stalemark",
)
# The planner takes the right index if it expects this many rows.
EXPECTED_ROWS = 20
# It must not expect fewer of a product with this many. Reading all of those for each of them takes
# milliseconds.
MANY_ROWS = 200
# Seconds after which a process asks again about the same product.
INTERVAL = 5.0

_looked_at: dict[int, float] = {}
# By product and table: how many rows the product must have for another ANALYZE. The sample of a
# huge table may miss a small product.
_next_rows: dict[tuple[int, str], int] = {}

_EXPECTED: LiteralString = "EXPLAIN " + " UNION ALL ".join(
    f"(SELECT FROM {table} WHERE product_id = %(product)s)" for table in _TABLES
)
# A node's table has a number, and the name of the distributed table as its alias.
_LINE = re.compile(r" on (engagement_[a-z]+)(?:_\d+)?(?: \w+)? +\(cost=\S+ rows=(\d+)")


def refresh(product_id: int) -> list[str]:
    """Analyze the tables of whose rows the planner expects far too few to be the product's.
    Returns their names."""
    now = time.monotonic()
    if now - _looked_at.get(product_id, float("-inf")) < INTERVAL:
        return []
    _looked_at[product_id] = now
    unknown = [table for table in _few_expected(product_id) if _has_many(product_id, table)]
    if unknown:
        for table in unknown:
            _next_rows[product_id, table] = 10 * _next_rows.get((product_id, table), MANY_ROWS)
        _analyze(product_id, unknown)
    return unknown


def _few_expected(product_id: int) -> list[LiteralString]:
    plan = "\n".join(line for (line,) in sql.fetch(_EXPECTED, {"product": product_id}))
    expected = {table: int(rows) for table, rows in _LINE.findall(plan)}
    return [table for table in _TABLES if expected.get(table, 0) < EXPECTED_ROWS]


def _has_many(product_id: int, table: LiteralString) -> bool:
    many = _next_rows.get((product_id, table), MANY_ROWS)
    statement: LiteralString = f"""
        SELECT count(*) FROM (
            SELECT FROM {table} WHERE product_id = %(product)s LIMIT %(many)s) few
    """
    ((rows,),) = sql.fetch(statement, {"product": product_id, "many": many})
    return bool(rows >= many)


def _analyze(product_id: int, tables: list[LiteralString]) -> None:
    if not distribution.is_distributed():
        statistics.analyze(list(tables))
        return
    statistics.analyze_parts([f"{table}_{_part(product_id, table)}" for table in tables])


_PART: LiteralString = "SELECT get_shard_id_for_distribution_column(%(table)s, %(product)s)"


def _part(product_id: int, table: LiteralString) -> int:
    """The number of the part of a distributed table that has the product."""
    ((number,),) = sql.fetch(_PART, {"table": table, "product": product_id})
    return int(number)
