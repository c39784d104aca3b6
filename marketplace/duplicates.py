"""Rows of one license that say different things: which of them counts.

The feed may hold several rows of a license, anywhere and in any order. Of those that a run reads
the latest update counts, against the license that is stored too where the run finds it. Whether it
does is known for sure at the end only: a row that loses waits until then.
"""

from collections.abc import Collection, Iterable
from typing import LiteralString, NamedTuple

import msgspec

from engagement.database import sql
from marketplace import licenses
from marketplace.licenses import ParsedLicense
from marketplace.models import PendingLicense, SeenLicenses, SyncRun

# So many licenses are decided in one transaction at a run's end.
PENDING_BATCH_SIZE = 200


class StoredLicense(NamedTuple):
    """What is known of a license from before."""

    cloud_id: str
    digest: bytes
    run_id: int

    def matches(self, license: ParsedLicense) -> bool:
        return (self.digest, self.cloud_id) == (license.digest, license.cloud_id)


class MergeDecision(NamedTuple):
    """What to do with rows: ``changed`` are to be written, by key; ``seen`` are the keys of
    licenses that came as they are stored; ``pending`` rows are decided at the run's end."""

    changed: dict[str, ParsedLicense]
    seen: list[str]
    pending: list[ParsedLicense]


# Each is found by the whole of its key. Of `product_id = … AND key = ANY(…)` the planner expects
# next to nothing while a table is young, and then reads all of the product for two hundred keys.
_FIND: LiteralString = """
    SELECT l.key, l.cloud_id, l.digest, l.run_id
    FROM unnest(%(products)b::bigint[], %(keys)b::text[]) AS k(product_id, key)
    JOIN marketplace_license l USING (product_id, key)
"""
_FIND_FIELDS: LiteralString = """
    SELECT l.key, l.cloud_id, l.fields::text, l.digest
    FROM unnest(%(products)b::bigint[], %(keys)b::text[]) AS k(product_id, key)
    JOIN marketplace_license l USING (product_id, key)
"""


def fetch_stored(product_id: int, keys: Collection[str]) -> dict[str, StoredLicense]:
    if not keys:
        return {}
    rows = sql.fetch(_FIND, {"products": [product_id] * len(keys), "keys": list(keys)})
    return {key: StoredLicense(cloud_id, digest, run_id) for key, cloud_id, digest, run_id in rows}


def decide(
    run: SyncRun, product_id: int, rows: Iterable[ParsedLicense], known: dict[str, StoredLicense]
) -> MergeDecision:
    """What to do with the rows of licenses, of which *known* are stored."""
    best: dict[str, ParsedLicense] = {}
    seen: set[str] = set()
    for row in rows:
        license = known.get(row.key)
        if license is not None and license.run_id != run.pk and license.matches(row):
            seen.add(row.key)
        rival = best.get(row.key)
        if rival is None or licenses.supersedes(row, rival):
            best[row.key] = row
    changed = {key: row for key, row in best.items() if key not in known}
    rivals = {key: row for key, row in best.items() if key in known and not known[key].matches(row)}
    current = _as_stored(product_id, rivals)
    pending = []
    for key, row in rivals.items():
        if licenses.supersedes(row, current[key]):
            changed[key] = row
        elif known[key].run_id != run.pk and _is_asked_for(row, run):
            pending.append(row)
    return MergeDecision(changed, sorted(seen), pending)


def _as_stored(product_id: int, keys: Collection[str]) -> dict[str, ParsedLicense]:
    if not keys:
        return {}
    rows = sql.fetch(_FIND_FIELDS, {"products": [product_id] * len(keys), "keys": list(keys)})
    return {
        key: ParsedLicense(key, cloud_id, msgspec.json.decode(fields), digest)
        for key, cloud_id, fields, digest in rows
    }


def _is_asked_for(row: ParsedLicense, run: SyncRun) -> bool:
    """Whether the run asks for rows of that day. If not, it need not find the stored one either."""
    return run.since is None or licenses.updated_ordinal(row.fields) >= run.since.toordinal()


# --- Until the run's end --------------------------------------------------------------------

_DROP_DUPLICATES: LiteralString = """
    DELETE FROM marketplace_pendinglicense p
    WHERE p.run_id = %(run)s AND (
        p.key IN (SELECT unnest(s.keys) FROM marketplace_seenlicenses s WHERE s.run_id = %(run)s)
        OR EXISTS (SELECT FROM marketplace_license l
                   WHERE l.product_id = %(product)s AND l.key = p.key AND l.run_id = %(run)s))
"""
_UNDECIDED: LiteralString = """
    SELECT p.key, p.cloud_id, p.fields::text, p.digest
    FROM marketplace_pendinglicense p
    WHERE p.run_id = %(run)s AND p.key IN (
        SELECT DISTINCT o.key FROM marketplace_pendinglicense o
        WHERE o.run_id = %(run)s ORDER BY o.key LIMIT %(limit)s)
"""


def save_pending(run: SyncRun, choice: MergeDecision) -> None:
    """Keep what the run has to know at its end."""
    if choice.seen:
        SeenLicenses.objects.create(run=run, keys=choice.seen)
    if choice.pending:
        rows = [
            PendingLicense(
                run=run, key=row.key, cloud_id=row.cloud_id, fields=row.fields, digest=row.digest
            )
            for row in choice.pending
        ]
        PendingLicense.objects.bulk_create(rows, ignore_conflicts=True)


def resolve_pending(run: SyncRun, product_id: int) -> dict[str, ParsedLicense]:
    """Some of the pending rows that take the place of the stored license, which did not come in
    all of the run; deletes those that were duplicates."""
    sql.execute(_DROP_DUPLICATES, {"run": run.pk, "product": product_id})
    best: dict[str, ParsedLicense] = {}
    rows = sql.fetch(_UNDECIDED, {"run": run.pk, "limit": PENDING_BATCH_SIZE})
    for key, cloud_id, fields, digest in rows:
        row = ParsedLicense(key, cloud_id, msgspec.json.decode(fields), digest)
        if key not in best or licenses.supersedes(row, best[key]):
            best[key] = row
    return best


def delete_pending(runs: Iterable[int]) -> None:
    """Delete what was kept until the end of these runs, by their ids."""
    ids = list(runs)
    for model in (SeenLicenses, PendingLicense):
        model.objects.filter(run__in=ids).delete()
