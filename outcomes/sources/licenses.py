"""What became of licenses: written with their events, and read for a workspace.

Days are UTC. An account is found by the license's Cloud ID when outcomes are read: the account may
come later than the license, and be forgotten before it.
"""

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from datetime import date
from typing import Any, LiteralString, NamedTuple

from core.database import sql
from outcomes.kinds import Exclusion, Kind, Outcome, OutcomeSet
from outcomes.models import LicenseRevision

KINDS = (Kind.RENEWAL, Kind.MONTHLY_STAY, Kind.EVALUATION)
_GOOD = {"renewed", "renewed_lower", "stayed", "bought"}


class OutcomeRow(NamedTuple):
    """A row of ``LicenseOutcome``. The first three fields are its key."""

    license: str
    kind: str
    day: date
    cloud_id: str
    began_on: date
    known_on: date | None
    answered_on: date | None
    decided_on: date | None
    result: str
    exclusion: str
    seats: int | None
    cents: int | None
    earlier_seats: str | None = None


# --- Writing --------------------------------------------------------------------------------

_STORED: LiteralString = f"""
    SELECT {", ".join(OutcomeRow._fields[:-1])}, earlier_seats::text FROM outcomes_licenseoutcome
    WHERE product_id = %(product)s AND license = ANY(%(licenses)b::text[])
"""
_DELETE: LiteralString = """
    DELETE FROM outcomes_licenseoutcome o
    USING unnest(%(licenses)b::text[], %(kinds)b::text[], %(days)b::date[]) AS k(license, kind, day)
    WHERE o.product_id = %(product)s AND o.license = k.license AND o.kind = k.kind
      AND o.day = k.day
"""
_UPSERT: LiteralString = """
    INSERT INTO outcomes_licenseoutcome (product_id, license, kind, day, cloud_id, began_on,
        known_on, answered_on, decided_on, result, exclusion, seats, cents, earlier_seats)
    SELECT %(product)s, k.* FROM unnest(%(license)b::text[], %(kind)b::text[], %(day)b::date[],
        %(cloud_id)b::text[], %(began_on)b::date[], %(known_on)b::date[], %(answered_on)b::date[],
        %(decided_on)b::date[], %(result)b::text[], %(exclusion)b::text[], %(seats)b::int[],
        %(cents)b::bigint[], %(earlier_seats)b::jsonb[]) AS k
    ON CONFLICT (product_id, license, kind, day) DO UPDATE
    SET cloud_id = excluded.cloud_id, began_on = excluded.began_on, known_on = excluded.known_on,
        answered_on = excluded.answered_on, decided_on = excluded.decided_on,
        result = excluded.result, exclusion = excluded.exclusion, seats = excluded.seats,
        cents = excluded.cents, earlier_seats = excluded.earlier_seats
"""


def stored_rows(product_id: int, licenses: Sequence[str]) -> list[OutcomeRow]:
    """The outcomes of these licenses."""
    parameters = {"product": product_id, "licenses": list(licenses)}
    return [OutcomeRow(*row) for row in sql.fetch(_STORED, parameters)]


def replace(product_id: int, licenses: Sequence[str], rows: Iterable[OutcomeRow]) -> int:
    """Have these licenses have these outcomes, of which the last of one key counts. Returns how
    many rows were written or deleted; equal ones are not written again."""
    new = {row[:3]: row for row in rows}
    stored = {row[:3]: row for row in stored_rows(product_id, licenses)}
    changed = [new[key] for key in sorted(new) if stored.get(key) != new[key]]
    obsolete = sorted(stored.keys() - new.keys())
    if changed:
        sql.execute(_UPSERT, {"product": product_id, **sql.arrays(changed, *OutcomeRow._fields)})
    if obsolete:
        arrays = sql.arrays(obsolete, "licenses", "kinds", "days")
        sql.execute(_DELETE, {"product": product_id, **arrays})
    return len(changed) + len(obsolete)


def revision_of(product_id: int) -> int:
    """The revision of the ledger that the outcomes follow from; 0 before the first one."""
    rows = LicenseRevision.objects.filter(product=product_id)
    return rows.values_list("revision", flat=True).first() or 0


def follow(product_id: int, revision: int) -> None:
    """Note that the outcomes follow from this revision of the ledger."""
    LicenseRevision.objects.update_or_create(product_id=product_id, defaults={"revision": revision})


# --- Reading --------------------------------------------------------------------------------

# The sampled units, in the order of a hash, and one unit for each reason of leaving units out.
_READ: LiteralString = """
    WITH units AS (
        SELECT o.*, a.id AS account_id,
               CASE WHEN o.exclusion <> '' THEN o.exclusion
                    WHEN o.known_on > %(today)s OR o.day > %(today)s THEN 'open'
                    WHEN a.id IS NULL OR NOT EXISTS (
                        SELECT FROM engagement_dailycount d
                        WHERE d.product_id = %(product)s AND d.account_id = a.id AND d.day < o.day)
                    THEN 'no_data' ELSE '' END AS reason
        FROM outcomes_licenseoutcome o
        LEFT JOIN engagement_account a
            ON a.product_id = %(product)s AND a.external_id = o.cloud_id AND o.cloud_id <> ''
        WHERE o.product_id = %(product)s AND o.kind = %(kind)s),
    numbered AS (
        SELECT u.*, count(*) OVER (PARTITION BY reason) AS total,
               row_number() OVER (PARTITION BY reason
                   ORDER BY hashtextextended(license || ' ' || day, 0), license, day) AS place
        FROM units u)
    SELECT reason, total, account_id, day, result, known_on, answered_on, began_on, seats,
           earlier_seats
    FROM numbered
    WHERE place <= CASE WHEN reason = '' THEN %(limit)s ELSE 1 END
    ORDER BY day, account_id, license
"""


def read(product_id: int, kind: Kind, today: date, limit: int) -> OutcomeSet:
    """The outcomes of the product's licenses that were known on that day."""
    parameters = {"product": product_id, "kind": kind.value, "today": today, "limit": limit}
    outcomes, totals = [], {}
    for reason, total, account, day, result, *more, earlier in sql.fetch(_READ, parameters):
        totals[reason] = total
        if not reason:
            outcome = Outcome(account, day, result in _GOOD, result, *more)
            outcomes.append(dataclasses.replace(outcome, earlier_seats=_earlier_seats(earlier)))
    count = totals.pop("", 0)
    return OutcomeSet(
        kind,
        outcomes,
        {Exclusion(reason): total for reason, total in sorted(totals.items())},
        revision_of(product_id),
        count if count > len(outcomes) else None,
    )


def _earlier_seats(stored: Sequence[Any] | None) -> tuple[tuple[date, int | None], ...]:
    return tuple((date.fromisoformat(until), seats) for until, seats in stored or ())


def kinds_of(product_id: int) -> Collection[Kind]:
    """The kinds that licenses of the product may have; none without a ledger."""
    return KINDS if LicenseRevision.objects.filter(product=product_id).exists() else ()
