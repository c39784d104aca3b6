"""Which products have rows in a table that is a queue."""

from typing import LiteralString

from core.database import distribution, nodes, sql

# Walks the index from product to product, because reading every row takes longer.
_WALK: LiteralString = """
    WITH RECURSIVE products AS (
        (SELECT product_id FROM {table} ORDER BY product_id LIMIT 1)
        UNION ALL
        SELECT (SELECT r.product_id FROM {table} r
                WHERE r.product_id > p.product_id ORDER BY r.product_id LIMIT 1)
        FROM products p WHERE p.product_id IS NOT NULL)
    SELECT product_id FROM products WHERE product_id IS NOT NULL
"""
# The nodes count side by side, and no recursion leaves a node.
_ON_NODES: LiteralString = "SELECT DISTINCT product_id FROM {table} r WHERE {reachable}"


def with_rows(table: LiteralString) -> list[int]:
    """The ids of the products with rows in the table, without those on a missing node. An index
    of the table begins with the product."""
    if distribution.is_distributed():
        statement = _ON_NODES.format(table=table, reachable=nodes.among_reachable("r"))
        rows = sql.fetch(statement, {"reachable": nodes.reachable_products()})
    else:
        rows = sql.fetch(_WALK.format(table=table))
    return [product_id for (product_id,) in rows]
