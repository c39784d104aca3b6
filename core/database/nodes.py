"""Which nodes of a cluster cannot be reached, and which products wait for them.

A statement about a product on such a node fails, and so does a statement about all products. So
work goes on without these products until their node is back.

On one server all of this is empty and asks nothing. On a cluster, a process looks at the nodes only
after a failure, and then every few seconds until all nodes are back.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import LiteralString, TypeVar

from django.db import Error
from django.db.models import Model, QuerySet

from core.database import distribution, sql

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Model)

# Seconds between two looks while a node is missing. After a slow look, because a machine is cut off
# the network, the next one comes later: looking takes at most a fifth of the time.
RECHECK_SECONDS, RECHECK_FACTOR = 2.0, 5.0
# Seconds between two lines of the log about the same nodes.
LOG_INTERVAL = 60.0
# A sentence names as many products of a node.
MAX_NAMED = 20

# The products on each missing node, by its name, and the node of each of these products.
_missing: Mapping[str, Sequence[int]] = MappingProxyType({})
_products: Mapping[int, str] = MappingProxyType({})
_next_look = 0.0
_logged_at = float("-inf")

# The coordinator is group 0. How long a connection may take is set when ours is opened.
_MISSING: LiteralString = """
    SELECT n.groupid, n.nodename || ':' || n.nodeport
    FROM pg_dist_node n
    WHERE n.noderole = 'primary' AND n.isactive AND n.groupid > 0
      AND NOT COALESCE(citus_check_connection_to_node(n.nodename, n.nodeport), false)
    ORDER BY n.nodename, n.nodeport
"""
_PRODUCTS: LiteralString = """
    SELECT p.id, l.groupid
    FROM engagement_product p
    JOIN pg_dist_placement l
      ON l.shardid = get_shard_id_for_distribution_column('engagement_user', p.id)
    WHERE l.groupid = ANY(%(groups)b::integer[])
"""
_OTHER_PRODUCTS: LiteralString = """
    SELECT id FROM engagement_product WHERE id <> ALL(%(missing)b::bigint[])
"""


def missing_products() -> Mapping[int, str]:
    """The products whose node was missing at the last look, and the node's name."""
    if _missing and time.monotonic() >= _next_look:
        look()
    return _products


def missing_nodes() -> Mapping[str, Sequence[int]]:
    """The nodes that are missing now, by name, and the ids of their products. For pages and
    monitors: on a cluster it looks, unless the last look was a moment ago."""
    if distribution.is_distributed() and time.monotonic() >= _next_look:
        look()
    return _missing


def reachable_products() -> list[int] | None:
    """The products that a statement about all of them may ask; None if none is missing."""
    missing = missing_products()
    if not _missing:
        return None
    return [id for (id,) in sql.fetch(_OTHER_PRODUCTS, {"missing": list(missing)})]


def reachable(rows: QuerySet[M], product: str = "product_id") -> QuerySet[M]:
    """The rows of products whose node is not missing; *product* is the field with its id."""
    missing = missing_products()
    return rows.exclude(**{f"{product}__in": list(missing)}) if missing else rows


def among_reachable(table: LiteralString) -> LiteralString:
    """A condition for a statement about all products: that the node of the table's rows can be
    reached. Its parameter ``reachable`` is ``reachable_products()``."""
    products = "%(reachable)b::bigint[]"
    return f"({products} IS NULL OR {table}.product_id = ANY({products}))"


def look() -> bool:
    """Look at the nodes now. Returns whether one is missing; False if nobody can say.

    Asks nothing in a process that has not met a cluster.
    """
    global _missing, _products, _next_look
    if not distribution.was_distributed():
        return False
    began = time.monotonic()
    try:
        groups = {group: str(name) for group, name in sql.fetch(_MISSING)}
        rows = sql.fetch(_PRODUCTS, {"groups": list(groups)}) if groups else []
    except Error:
        # The coordinator cannot be asked, which other sentences say.
        return False
    products = {product_id: groups[group] for product_id, group in rows}
    missing: dict[str, list[int]] = {name: [] for name in groups.values()}
    for product_id, name in sorted(products.items()):
        missing[name].append(product_id)
    _log_change(missing)
    _missing, _products = MappingProxyType(missing), MappingProxyType(products)
    ended = time.monotonic()
    _next_look = ended + max(RECHECK_SECONDS, RECHECK_FACTOR * (ended - began))
    return bool(missing)


def _log_change(missing: Mapping[str, Sequence[int]]) -> None:
    """One line a minute while nodes are missing, and one once all are back."""
    global _logged_at
    now = time.monotonic()
    if missing and now >= _logged_at + LOG_INTERVAL:
        _logged_at = now
        logger.warning(describe(missing))
    elif _missing and not missing:
        _logged_at = float("-inf")
        logger.warning("All nodes of the cluster can be reached again.")


def describe(missing: Mapping[str, Sequence[object]]) -> str:
    """Sentences that name the missing nodes, and the products that wait for each."""
    return " ".join(
        f"Node {name} of the cluster cannot be reached: {_waiting(products)}."
        for name, products in missing.items()
    )


def _waiting(products: Sequence[object]) -> str:
    if not products:
        return "no product is on it"
    text = ", ".join(map(str, products[:MAX_NAMED]))
    if len(products) > MAX_NAMED:
        text += f", and {len(products) - MAX_NAMED} more"
    return f"product {text} waits" if len(products) == 1 else f"products {text} wait"
