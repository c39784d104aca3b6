"""Merges a batch's traits into the stored ones, in chunks that fit into memory, and keeps the
history of those that a product chose.

A change counts if the trait takes the value, so what arrives late and loses against a later message
is no change. Days are UTC, by the time of the message; of several changes on a day, the last value
is kept, and the one before the first. So an account without a change had its present value all the
time since the product chose the trait.
"""

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any, LiteralString, TypeVar

import msgspec

from core.database import sql
from engagement.recording import trait_limits
from engagement.recording.batch import Batch, ExternalKey, SubjectUpdate
from engagement.recording.trait_limits import MergedTraits
from engagement.traits import read_stamp

# A batch may name thousands of subjects with many traits. Decompressed, traits take up to this many
# times their size in the table.
CHUNK_BYTES = 32 * 1024 * 1024
DECOMPRESSION_FACTOR = 20
# Compressed traits above this size were written before there were limits, and exceed them.
OVERSIZED_BYTES = 1024 * 1024
# Each row looks for its own from the first one on.
MAX_SHARED = 50
# Traits whose history a product may keep, and the characters of a value that are kept.
MAX_CHOSEN, VALUE_LENGTH = 10, 200

Item = TypeVar("Item")


def chunks(sized: Sequence[tuple[Item, int]]) -> Iterator[list[Item]]:
    """The subjects in chunks, nearly always one. Each comes with the stored size of its traits."""
    chunk: list[Item] = []
    total = 0
    for item, size in sized:
        unpacked = min(size * DECOMPRESSION_FACTOR, trait_limits.MAX_BYTES * 2)
        if chunk and total + unpacked > CHUNK_BYTES:
            yield chunk
            chunk, total = [], 0
        chunk.append(item)
        total += unpacked
    if chunk:
        yield chunk


_READ: LiteralString = f"""
    SELECT id, traits::text, trait_stamps::text FROM {{table}} t
    WHERE id = ANY(%(ids)b::bigint[]) AND pg_column_size(traits) <= %(oversized)s
      AND {sql.on_node("t")}
"""
# Returns no row where all traits of the batch are new: then nothing fits, and parsing megabytes
# would be in vain.
_READ_OVERSIZED: LiteralString = f"""
    SELECT id, traits::text, trait_stamps::text FROM {{table}} t
    WHERE id = %(id)s AND (trait_stamps ?| %(names)b::text[] OR %(is_of_license)s)
      AND {sql.on_node("t")}
"""


def merge(
    table: LiteralString, updates: dict[int, SubjectUpdate]
) -> dict[int, MergedTraits | None]:
    """The merged traits of the subjects that have patches, by id; None where nothing changes.

    The rows must be locked.
    """
    unread = {id for id, update in updates.items() if update.patches}
    if not unread:
        return {}
    merged: dict[int, MergedTraits | None] = {}
    parameters = {"ids": list(unread), "oversized": OVERSIZED_BYTES}
    for id, traits, stamps in sql.fetch(_READ.format(table=table), parameters):
        unread.remove(id)
        merged[id] = _merge(traits, stamps, updates[id])
    for id in unread:
        merged[id] = _merge_oversized(table, id, updates[id])
    return merged


def merge_new(update: SubjectUpdate) -> MergedTraits | None:
    """The traits of a subject that is being created; None where it has none."""
    if not update.patches:
        return None
    merged, update.dropped_traits = trait_limits.merge_new(update.patches)
    _note_changes("{}", "{}", update)
    return merged


def trait_arrays(merged: Sequence[MergedTraits | None]) -> dict[str, list[Any]]:
    """The merged traits as arrays for a statement, with NULL where nothing changes."""
    unchanged = (None, None, None)
    rows = (row[:3] if row else unchanged for row in merged)
    return sql.arrays(rows, "traits", "stamps", "created")


def new_trait_arrays(merged: Sequence[MergedTraits | None]) -> dict[str, list[Any]]:
    """As ``trait_arrays``. Stamps that several subjects share are in ``shared`` once, if these are
    few, and their place there, from 1 on, is in ``places``: parsing them is most of what they
    cost."""
    columns = trait_arrays(merged)
    places: dict[str, int] = {}
    for text in columns["stamps"]:
        if text is not None:
            places.setdefault(text, len(places) + 1)
    if len(places) > min(MAX_SHARED, len(merged) // 2):
        return {**columns, "shared": [], "places": [None] * len(merged)}
    numbers = [places.get(text) for text in columns["stamps"]]
    return {**columns, "stamps": [None] * len(merged), "shared": list(places), "places": numbers}


def _merge_oversized(table: LiteralString, id: int, update: SubjectUpdate) -> MergedTraits | None:
    parameters = {
        "id": id,
        "names": trait_limits.patched_names(update.patches),
        "is_of_license": trait_limits.has_license_patch(update.patches),
    }
    for _, traits, stamps in sql.fetch(_READ_OVERSIZED.format(table=table), parameters):
        return _merge(traits, stamps, update)
    update.dropped_traits = trait_limits.drop_new_traits(update.patches)
    return None


def _merge(traits: str, stamps: str, update: SubjectUpdate) -> MergedTraits | None:
    merged, update.dropped_traits = trait_limits.merge_patches(traits, stamps, update.patches)
    _note_changes(traits, stamps, update)
    return merged


def _note_changes(traits: str, stamps: str, update: SubjectUpdate) -> None:
    if update.followed:
        update.trait_changes = trait_limits.find_changes(
            traits, stamps, update.patches, update.followed, update.dropped_traits
        )


# --- History ---------------------------------------------------------------------------------

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


def follow_changes(batch: Batch) -> None:
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


def store_changes(batch: Batch, account_ids: dict[ExternalKey, int]) -> None:
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
