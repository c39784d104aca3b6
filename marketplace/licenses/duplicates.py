"""Several rows of one license: which of them counts.

The feed may contain several rows of a license, anywhere and in any order. The latest update counts,
including the stored license if the run finds it again. Whether it does is certain only at the end,
so a row that loses against the stored license stays pending until then.
"""

from collections.abc import Collection, Iterable
from typing import LiteralString, NamedTuple

import msgspec

from core.database import sql
from marketplace.licenses import conversion
from marketplace.licenses.conversion import ParsedLicense
from marketplace.models import PendingLicense, SeenLicenses, SyncRun

# Licenses that one transaction decides at a run's end.
PENDING_BATCH_SIZE = 200


class StoredLicense(NamedTuple):
    """What a merge needs to know of a stored license."""

    cloud_id: str
    digest: bytes
    run_id: int
    is_unlisted: bool

    def matches(self, license: ParsedLicense) -> bool:
        """Whether there is nothing to write. A license that is listed again is written."""
        is_same = (self.digest, self.cloud_id) == (license.digest, license.cloud_id)
        return is_same and not self.is_unlisted


class Merge(NamedTuple):
    """The licenses to write, by key, and those that are stored."""

    changed: dict[str, ParsedLicense]
    stored: dict[str, StoredLicense]


# The joins use the complete primary key. For `product_id = … AND key = ANY(…)` the planner expects
# almost no rows while a table is young, and then reads the whole product for two hundred keys.
_FIND: LiteralString = """
    SELECT l.key, l.cloud_id, l.digest, l.run_id, l.unlisted_since IS NOT NULL
    FROM unnest(%(products)b::bigint[], %(keys)b::text[]) AS k(product_id, key)
    JOIN marketplace_license l USING (product_id, key)
"""
_FIND_FIELDS: LiteralString = """
    SELECT l.key, l.cloud_id, l.fields::text, l.digest
    FROM unnest(%(products)b::bigint[], %(keys)b::text[]) AS k(product_id, key)
    JOIN marketplace_license l USING (product_id, key)
"""


def merge(run: SyncRun, product_id: int, rows: Collection[ParsedLicense]) -> Merge:
    """Decide which of the rows to write now; store what the decision at the run's end needs."""
    stored = _find_stored(product_id, {row.key for row in rows})
    best = _best_by_key(rows)
    changed = {key: row for key, row in best.items() if key not in stored}
    rivals = {
        key: row for key, row in best.items() if key in stored and not stored[key].matches(row)
    }
    current = find_rows(product_id, rivals)
    pending = []
    for key, row in rivals.items():
        if stored[key].is_unlisted or conversion.supersedes(row, current[key]):
            changed[key] = row
        elif stored[key].run_id != run.pk and _is_in_window(row, run):
            pending.append(row)
    _save_seen(run, rows, stored)
    _save_pending(run, pending)
    return Merge(changed, stored)


def _best_by_key(rows: Iterable[ParsedLicense]) -> dict[str, ParsedLicense]:
    best: dict[str, ParsedLicense] = {}
    for row in rows:
        if row.key not in best or conversion.supersedes(row, best[row.key]):
            best[row.key] = row
    return best


def _find_stored(product_id: int, keys: Collection[str]) -> dict[str, StoredLicense]:
    if not keys:
        return {}
    rows = sql.fetch(_FIND, {"products": [product_id] * len(keys), "keys": list(keys)})
    return {key: StoredLicense(*values) for key, *values in rows}


def find_rows(product_id: int, keys: Collection[str]) -> dict[str, ParsedLicense]:
    """The stored licenses with their fields."""
    if not keys:
        return {}
    rows = sql.fetch(_FIND_FIELDS, {"products": [product_id] * len(keys), "keys": list(keys)})
    return {row[0]: _license(*row) for row in rows}


def _license(key: str, cloud_id: str, fields: str, digest: bytes) -> ParsedLicense:
    return ParsedLicense(key, cloud_id, msgspec.json.decode(fields), fields.encode(), digest)


def _is_in_window(row: ParsedLicense, run: SyncRun) -> bool:
    """Whether the run requests rows of that day. If not, it need not find the stored one either."""
    return run.since is None or conversion.updated_ordinal(row.fields) >= run.since.toordinal()


# --- Until the run's end --------------------------------------------------------------------

_DELETE_DUPLICATES: LiteralString = """
    DELETE FROM marketplace_pendinglicense p
    WHERE p.run_id = %(run)s AND (
        p.key IN (SELECT unnest(s.keys) FROM marketplace_seenlicenses s WHERE s.run_id = %(run)s)
        OR EXISTS (SELECT FROM marketplace_license l
                   WHERE l.product_id = %(product)s AND l.key = p.key AND l.run_id = %(run)s))
"""
_FIND_PENDING: LiteralString = """
    SELECT p.key, p.cloud_id, p.fields::text, p.digest
    FROM marketplace_pendinglicense p
    WHERE p.run_id = %(run)s AND p.key IN (
        SELECT DISTINCT o.key FROM marketplace_pendinglicense o
        WHERE o.run_id = %(run)s ORDER BY o.key LIMIT %(limit)s)
"""


def save_invalid(run: SyncRun, keys: Iterable[str]) -> None:
    """Note the licenses whose records are invalid: they are listed all the same."""
    if listed_keys := sorted(set(filter(None, keys))):
        SeenLicenses.objects.create(run=run, keys=listed_keys)


def _save_seen(
    run: SyncRun, rows: Iterable[ParsedLicense], stored: dict[str, StoredLicense]
) -> None:
    """Note the licenses that came exactly as an earlier run stored them."""
    row_by_key = {
        row.key
        for row in rows
        if row.key in stored and stored[row.key].run_id != run.pk and stored[row.key].matches(row)
    }
    if row_by_key:
        SeenLicenses.objects.create(run=run, keys=sorted(row_by_key))


def _save_pending(run: SyncRun, rows: Iterable[ParsedLicense]) -> None:
    PendingLicense.objects.bulk_create(
        [
            PendingLicense(
                run=run, key=row.key, cloud_id=row.cloud_id, fields=row.fields, digest=row.digest
            )
            for row in rows
        ],
        ignore_conflicts=True,
    )


def merge_pending(run: SyncRun, product_id: int) -> Merge:
    """Delete the pending rows that were duplicates; return a batch of the others to write, because
    the run did not find their stored license."""
    sql.execute(_DELETE_DUPLICATES, {"run": run.pk, "product": product_id})
    rows = sql.fetch(_FIND_PENDING, {"run": run.pk, "limit": PENDING_BATCH_SIZE})
    changed = _best_by_key(_license(*row) for row in rows)
    return Merge(changed, _find_stored(product_id, changed))


_FIND_UNLISTED: LiteralString = """
    SELECT l.key, l.cloud_id, l.fields::text, l.digest
    FROM marketplace_license l
    WHERE l.product_id = %(product)s AND l.run_id <> %(run)s AND l.unlisted_since IS NULL
      AND l.key NOT IN (
          SELECT unnest(s.keys) FROM marketplace_seenlicenses s WHERE s.run_id = %(run)s)
    ORDER BY l.key LIMIT %(limit)s
    FOR NO KEY UPDATE OF l
"""


def find_unlisted(run: SyncRun, product_id: int) -> list[ParsedLicense]:
    """A batch of the licenses that count as listed, but that the run has not found."""
    parameters = {"product": product_id, "run": run.pk, "limit": PENDING_BATCH_SIZE}
    return [_license(*row) for row in sql.fetch(_FIND_UNLISTED, parameters)]


_FIND_MISSED: LiteralString = """
    SELECT k.key FROM unnest(%(keys)b::text[]) AS k(key)
    WHERE NOT EXISTS (SELECT FROM marketplace_license l
                      WHERE l.product_id = %(product)s AND l.key = k.key AND l.run_id = %(run)s)
      AND NOT EXISTS (SELECT FROM marketplace_pendinglicense p
                      WHERE p.run_id = %(run)s AND p.key = k.key)
      AND k.key NOT IN (
          SELECT unnest(s.keys) FROM marketplace_seenlicenses s WHERE s.run_id = %(run)s)
"""


def find_missed(run: SyncRun, product_id: int, keys: Collection[str]) -> set[str]:
    """Those of the licenses that the (unfinished) run has not found."""
    parameters = {"keys": list(keys), "product": product_id, "run": run.pk}
    return {key for (key,) in sql.fetch(_FIND_MISSED, parameters)}


def delete_pending(run_ids: Collection[int]) -> None:
    """Delete what was stored until the end of these runs."""
    for model in (SeenLicenses, PendingLicense):
        model.objects.filter(run__in=run_ids).delete()
