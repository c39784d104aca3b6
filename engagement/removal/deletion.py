"""Deleting a product with everything that belongs to it, in bounded transactions.

From the request on its keys and tokens are revoked and no worker records anything of it. Its rows
go in pieces, the product itself at last, so that an interrupted deletion is simply gone on with.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import LiteralString

from django.apps import apps
from django.db import connection, transaction
from django.db.models import Model
from psycopg import sql as compose

from engagement.database import locks, retries, sql
from engagement.models import Credential, EventName, Product, ProductMember

# So many rows go in one transaction.
ROWS_PER_TRANSACTION = 20_000
# Fewer, because what points to them goes with them.
NAMES_PER_TRANSACTION = 2_000

# Deletes up to so many rows of another app that no column ties to the product; how many it were.
ProductEraser = Callable[[int, int], int]
_elsewhere: list[ProductEraser] = []


def register_eraser(clear: ProductEraser) -> None:
    """Have another app's share deleted too; imports point from that app to this one."""
    _elsewhere.append(clear)


def request_deletion(product_id: int, now: datetime) -> bool:
    """Close the product for good; whether it was open until now. ``go_on()`` deletes it."""
    with transaction.atomic(durable=True):
        # Whoever records something of it is waited for, and nobody begins after this.
        locks.lock_product(product_id)
        open_until_now = Product.objects.filter(pk=product_id, deletion_requested_at=None)
        if not open_until_now.update(deletion_requested_at=now):
            return False
        for model in _credentials():
            live = model._default_manager.filter(product=product_id, revoked_at=None)
            live.update(revoked_at=now)
    return True


def resume_all_deletions(out_of_time: Callable[[], bool]) -> bool:
    """Go on with the deletions that were asked for; whether time sufficed for all."""
    asked = Product.objects.filter(deletion_requested_at__isnull=False).order_by("pk")
    return all(
        resume_deletion(pk, out_of_time=out_of_time) for pk in asked.values_list("pk", flat=True)
    )


def resume_deletion(
    product_id: int,
    *,
    out_of_time: Callable[[], bool] = lambda: False,
    after_piece: Callable[[int], None] = lambda rows: None,
) -> bool:
    """Delete rows of the product until nothing is left; whether time sufficed for that.

    *after_piece* is told how many rows went with each committed piece. A product that somebody
    else is deleting just now is left to them.
    """
    more = True
    while more:
        if out_of_time():
            return False
        rows, more = retries.retry_on_conflict(partial(_delete_some, product_id))
        after_piece(rows)
    return True


def _delete_some(product_id: int) -> tuple[int, bool]:
    """One piece: the number of rows that went, and whether there is more to do."""
    with transaction.atomic(durable=True):
        locks.lock_scoring(product_id)
        held = Product.objects.select_for_update(skip_locked=True, no_key=True)
        product = held.filter(pk=product_id, deletion_requested_at__isnull=False).first()
        if product is None:
            return 0, False
        rows = _delete_rows(product_id)
        if not rows:
            return _delete_product(product)
        product.deleted_rows += rows
        product.save(update_fields=["deleted_rows"])
    return rows, True


def _delete_product(product: Product) -> tuple[int, bool]:
    """Delete the product and the few rows that its tables point to, if nothing else is left."""
    locks.lock_product(product.pk)
    # Who held it may have written a last row.
    if rows := _delete_rows(product.pk):
        return rows, True
    deleted, _ = product.delete()
    return deleted, False


def _delete_rows(product_id: int) -> int:
    """Delete up to ROWS_PER_PIECE rows of the first table that has any; how many it were."""
    for clear in _elsewhere:
        if rows := clear(product_id, ROWS_PER_TRANSACTION):
            return rows
    for table in _tables():
        if rows := _delete_from(table, product_id):
            return rows
    names = EventName.objects.filter(product=product_id).values_list("pk", flat=True)
    rows, _ = EventName.objects.filter(pk__in=list(names[:NAMES_PER_TRANSACTION])).delete()
    return rows


# --- Tables ---------------------------------------------------------------------------------

# Each partition by itself. Tables that others point to are small and go with the product. Users
# and accounts go first: without them nobody is scored any more.
_TABLES: LiteralString = """
    SELECT c.relname
    FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'product_id' AND NOT a.attisdropped
    WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
      AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.contype = 'f' AND k.confrelid = c.oid)
    ORDER BY c.relname NOT IN ('engagement_user', 'engagement_account'), c.relname
"""


def _tables() -> list[str]:
    """Every table with rows of products, those apart that say whose the product is until it is
    gone: while its keys are known, what still comes with them is not listed as anybody's."""
    with_the_product: list[type[Model]] = [*_credentials(), ProductMember]
    kept = {model._meta.db_table for model in with_the_product}
    return [name for (name,) in sql.fetch(_TABLES) if name not in kept]


def _delete_from(table: str, product_id: int) -> int:
    statement = compose.SQL(
        "DELETE FROM {table} WHERE ctid = ANY(ARRAY("
        "SELECT ctid FROM {table} WHERE product_id = {product} LIMIT {rows}))"
    ).format(
        table=compose.Identifier(table),
        product=compose.Literal(product_id),
        rows=compose.Literal(ROWS_PER_TRANSACTION),
    )
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return int(cursor.rowcount)


def _credentials() -> list[type[Credential]]:
    return [model for model in apps.get_models() if issubclass(model, Credential)]
