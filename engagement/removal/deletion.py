"""Deletes a product with everything that belongs to it, in bounded transactions.

The request revokes the product's keys and tokens, and no worker records anything for it any more.
The product itself is deleted last, so an interrupted deletion resumes where it stopped.
"""

from collections.abc import Callable
from datetime import datetime
from typing import LiteralString

from django.apps import apps
from django.db import connection, transaction
from django.db.models import F, Model
from psycopg import sql as compose

from core.database import distribution, locks, nodes, sql
from core.jobs.kinds import Blocked, Done, More, Outcome
from core.models import Job
from engagement.models import Credential, EventName, Product, ProductMember

ROWS_PER_TRANSACTION = 20_000
# Fewer, because deleting an event name also deletes the rows that point to it.
NAMES_PER_TRANSACTION = 2_000

# Deletes rows of another app that no column ties to the product, given the product's id and the
# largest number of rows. Returns how many it deleted.
ProductEraser = Callable[[int, int], int]
_erasers: list[ProductEraser] = []


def register_eraser(eraser: ProductEraser) -> None:
    """Call *eraser* for each deleted product. Imports point from the other app to this one."""
    _erasers.append(eraser)


def request_deletion(product_id: int, now: datetime) -> bool:
    """Close the product for good. Returns whether it was open. ``delete_some()`` deletes it."""
    with transaction.atomic(durable=True):
        # Waits for workers that are recording for the product, and lets none begin after this.
        locks.lock_product(product_id)
        open_product = Product.objects.filter(pk=product_id, deletion_requested_at=None)
        if not open_product.update(deletion_requested_at=now):
            return False
        for model in _credentials():
            live = model._default_manager.filter(product=product_id, revoked_at=None)
            live.update(revoked_at=now)
    return True


def products_to_delete() -> list[int]:
    """The products whose deletion was requested, in that order."""
    requested = Product.objects.filter(deletion_requested_at__isnull=False)
    products = nodes.reachable(requested, "pk").order_by("deletion_requested_at", "pk")
    return list(products.values_list("pk", flat=True))


def delete_some(job: Job, now: datetime) -> Outcome:
    """Delete some rows of the product, and the product itself when nothing else is left."""
    product_id = int(job.key)
    if product_id in nodes.missing_products():
        return Blocked()
    locks.lock_scoring(product_id)
    requested = Product.objects.filter(pk=product_id, deletion_requested_at__isnull=False)
    product = requested.select_for_update(no_key=True).first()
    if product is None:
        return Done()
    rows = _delete_rows(product_id) or _delete_product(product)
    requested.update(deleted_rows=F("deleted_rows") + rows)
    return More(progress=product.deleted_rows + rows)


def _delete_product(product: Product) -> int:
    """Delete the product and the few rows that its tables point to, if nothing else is left.
    Returns the number of deleted rows."""
    locks.lock_product(product.pk)
    # A worker that shared the lock may have written a last row.
    if rows := _delete_rows(product.pk):
        return rows
    row_count, _ = product.delete()
    return row_count


def _delete_rows(product_id: int) -> int:
    """Delete up to ROWS_PER_TRANSACTION rows of the first table that has any. Returns how many."""
    for erase in _erasers:
        if rows := erase(product_id, ROWS_PER_TRANSACTION):
            return rows
    for table in _tables():
        if rows := _delete_from(table, product_id):
            return rows
    names = EventName.objects.filter(product=product_id).values_list("pk", flat=True)
    chunk = EventName.objects.filter(product=product_id, pk__in=list(names[:NAMES_PER_TRANSACTION]))
    rows, _ = chunk.delete()
    return rows


# --- Tables ---------------------------------------------------------------------------------

# Lists each partition by itself. Tables that others point to are small and go with the product.
# Users and accounts come first: without them nothing is scored any more.
_TABLES: LiteralString = """
    SELECT c.relname
    FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'product_id' AND NOT a.attisdropped
    WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
      AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.contype = 'f' AND k.confrelid = c.oid)
    ORDER BY c.relname NOT IN ('engagement_user', 'engagement_account'), c.relname
"""


def _tables() -> list[str]:
    """Every table with rows of products, except the credentials and members.

    These go with the product. As long as its keys exist, messages that still arrive with them are
    not listed as messages with an unknown key.
    """
    last: list[type[Model]] = [*_credentials(), ProductMember]
    kept_tables = {model._meta.db_table for model in last}
    return [name for (name,) in sql.fetch(_TABLES) if name not in kept_tables]


def _delete_from(table: str, product_id: int) -> int:
    statement = compose.SQL(
        "DELETE FROM {table} WHERE {on_node} AND ctid = ANY(ARRAY("
        "SELECT ctid FROM {table} WHERE product_id = {product} LIMIT {rows}))"
    ).format(
        on_node=compose.SQL("product_id = {}" if distribution.is_distributed() else "true").format(
            compose.Literal(product_id)
        ),
        table=compose.Identifier(table),
        product=compose.Literal(product_id),
        rows=compose.Literal(ROWS_PER_TRANSACTION),
    )
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return int(cursor.rowcount)


def _credentials() -> list[type[Credential]]:
    return [model for model in apps.get_models() if issubclass(model, Credential)]
