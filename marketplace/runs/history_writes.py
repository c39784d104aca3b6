"""Reads the rows of a history, and writes them as observations of the ledger."""

from collections.abc import Collection, Iterator, Sequence
from datetime import date, datetime
from typing import Any, LiteralString, NamedTuple

import msgspec

from core.database import sql
from marketplace.ledger import observations
from marketplace.ledger.inputs import read_day
from marketplace.licenses import conversion
from marketplace.licenses.conversion import ParsedLicense
from marketplace.models import Connection, Ledger
from marketplace.runs.license_import import skip_suppressed


class HistoryRow(NamedTuple):
    """A state of a license, which was true on a day. It *has_day* if the row says when it was
    written; otherwise the day is that of its last update."""

    license: ParsedLicense
    as_of: date
    has_day: bool


def read_rows(records: Sequence[msgspec.Raw], connection: Connection) -> list[HistoryRow]:
    """The states in the records, without those of accounts that were deleted permanently."""
    app = str(connection.app_product_id)
    parsed = [conversion.parse_record(record, app) for record in records]
    usable = skip_suppressed(connection.product_id, parsed)
    return list(_with_days(records, usable))


def _with_days(
    records: Sequence[msgspec.Raw], parsed: Sequence[conversion.ParsedRecord]
) -> Iterator[HistoryRow]:
    for record, license in zip(records, parsed, strict=True):
        if isinstance(license, ParsedLicense):
            own_day = read_day(_decode_day(record).get("recordCreatedDate"))
            as_of = own_day or read_day(license.fields.get("lastUpdated"))
            if as_of is not None:
                yield HistoryRow(license, as_of, own_day is not None)


def _decode_day(record: msgspec.Raw) -> dict[str, Any]:
    try:
        decoded = msgspec.json.decode(record)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


_HAS_SEVERAL: LiteralString = """
    SELECT FROM marketplace_observation o
    JOIN marketplace_licensealias a ON a.product_id = o.product_id AND a.license = o.license
    WHERE o.product_id = %(product)s AND a.name = ANY(%(keys)b::text[]) AND o.source = 'history'
    GROUP BY o.license, a.name HAVING count(*) > 1 LIMIT 1
"""
# Nothing is missing of a license if its history has all states that syncs have seen.
_MARK_COMPLETE: LiteralString = """
    UPDATE marketplace_ledgerlicense l SET has_history = true, stale = 2
    WHERE l.product_id = %(product)s AND NOT l.has_history
      AND EXISTS (SELECT FROM marketplace_observation h
                  WHERE h.product_id = l.product_id AND h.license = l.license
                    AND h.source = 'history')
      AND NOT EXISTS (
          SELECT FROM marketplace_observation o
          WHERE o.product_id = l.product_id AND o.license = l.license AND o.source = 'sync'
            AND o.first_seen < %(at)s AND NOT EXISTS (
                SELECT FROM marketplace_observation h
                WHERE h.product_id = o.product_id AND h.license = o.license
                  AND h.digest = o.digest AND h.source = 'history'))
"""
_NEXT: LiteralString = """
    SELECT coalesce(l.fields->>'maintenanceEndDate', '') AS ends, l.key
    FROM marketplace_license l
    WHERE l.product_id = %(product)s AND (
        %(is_first)s OR (coalesce(l.fields->>'maintenanceEndDate', ''), l.key) < (%(end)s, %(key)s))
    ORDER BY 1 DESC, 2 DESC LIMIT %(limit)s
"""


def is_ledger_filled(product_id: int) -> bool:
    """Whether the ledger has all licenses that syncs have brought."""
    filled = Ledger.objects.filter(product=product_id, filled_at__isnull=False, needs_fill=False)
    return filled.exists()


def write_rows(product_id: int, rows: Sequence[HistoryRow], now: datetime) -> None:
    """Store the states, in the caller's transaction."""
    observations.add_history(product_id, [(row.license, row.as_of) for row in rows], now)


def has_several(product_id: int, keys: Collection[str]) -> bool:
    """Whether one of the licenses has several states in the stored history."""
    return bool(sql.fetch(_HAS_SEVERAL, {"product": product_id, "keys": sorted(keys)}))


def mark_complete(product_id: int, began_at: datetime) -> None:
    """Mark the licenses of which the history that began to be read then lacks no state that a sync
    had seen. Their ledger may rely on an absence."""
    sql.execute(_MARK_COMPLETE, {"product": product_id, "at": began_at})


def next_licenses(
    product_id: int, after: tuple[str, str] | None, limit: int
) -> list[tuple[str, str]]:
    """The ends and keys of the licenses *after* one, those with the latest ends first."""
    end, key = after or ("", "")
    parameters = {
        "product": product_id,
        "is_first": after is None,
        "end": end,
        "key": key,
        "limit": limit,
    }
    return [(ends, key) for ends, key in sql.fetch(_NEXT, parameters)]


def count_licenses(product_id: int) -> int:
    ((number,),) = sql.fetch(
        "SELECT count(*) FROM marketplace_license WHERE product_id = %(product)s",
        {"product": product_id},
    )
    return int(number)
