"""Notes when a trait of an account changed, of the traits that the product chose.

A change counts if the trait takes the value, so what arrives late and loses against a later message
is no change. Days are UTC, by the time of the message; of several changes on a day, the last value
is kept, and the one before the first. So an account without a change had its present value all the
time since the product chose the trait.
"""

from datetime import date
from typing import Any, LiteralString

import msgspec

from core.database import sql
from engagement.recording.batch import Batch, ExternalKey
from engagement.traits import read_stamp

# Traits that a product may choose.
MAX_CHOSEN = 10
# Characters of a value that are kept.
VALUE_LENGTH = 200

_CHOSEN: LiteralString = """
    SELECT id, ARRAY(SELECT jsonb_object_keys(history_traits)) FROM engagement_product
    WHERE id = ANY(%(products)b::bigint[]) AND history_traits <> '{}'
"""
_STORE: LiteralString = """
    INSERT INTO engagement_traitchange AS c
        (product_id, account_id, name, day, value, at, previous)
    SELECT k.* FROM unnest(%(products)b::bigint[], %(accounts)b::bigint[], %(names)b::text[],
        %(days)b::date[], %(values)b::text[], %(times)b::timestamptz[], %(previous)b::text[]) AS k
    ON CONFLICT (product_id, account_id, name, day) DO UPDATE
    SET value = excluded.value, at = excluded.at
"""


def follow(batch: Batch) -> None:
    """Have the accounts of the batch note changes of the traits that their products chose."""
    updates = {key: update for key, update in batch.accounts.items() if update.patches}
    if not updates:
        return
    products = sorted({product_id for product_id, _ in updates})
    names_by_product = {
        id: frozenset(names) for id, names in sql.fetch(_CHOSEN, {"products": products})
    }
    for (product_id, _), update in updates.items() if names_by_product else ():
        update.followed = names_by_product.get(product_id, frozenset())


def store(batch: Batch, account_ids: dict[ExternalKey, int]) -> None:
    """Store the changes that writing the batch has noted."""
    rows: dict[tuple[int, int, str, date], tuple[Any, ...]] = {}
    for key, update in batch.accounts.items():
        for change in update.trait_changes:
            at = read_stamp(change.stamp).at
            id = (key[0], account_ids[key], change.name, at.date())
            previous = rows[id][-1] if id in rows else _text(change.previous)
            rows[id] = (_text(change.value), at, previous)
    if rows:
        # Sorted, so that two workers cannot deadlock.
        sorted_rows = [(*id, *rows[id]) for id in sorted(rows)]
        names = ("products", "accounts", "names", "days", "values", "times", "previous")
        sql.execute(_STORE, sql.arrays(sorted_rows, *names))


def _text(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text[:VALUE_LENGTH]
