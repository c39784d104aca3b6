"""Writes the rows of reports for the ledger. Writing a row again changes nothing."""

import hashlib
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, LiteralString, TypeVar

import msgspec

from core.database import sql
from engagement.recording import suppression
from marketplace.ledger import observations
from marketplace.licenses.report_rows import FeedbackRow, MetricRow, TransactionRow

RowT = TypeVar("RowT", TransactionRow, FeedbackRow, MetricRow)

# Sorted by key, like every batch. What did not change is not written.
_TRANSACTIONS: LiteralString = """
    INSERT INTO marketplace_transaction AS t (
        product_id, transaction_id, line_item_id, names, sale_date, fields, digest, recorded_at)
    SELECT %(product)s, r.transaction_id, r.line_item_id,
           ARRAY(SELECT jsonb_array_elements_text(r.names)), r.sale_date, r.fields,
           decode(r.digest, 'hex'), %(now)s
    FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(
        transaction_id text, line_item_id text, names jsonb, sale_date date, fields jsonb,
        digest text)
    ON CONFLICT (product_id, transaction_id, line_item_id) DO UPDATE
    SET names = EXCLUDED.names, sale_date = EXCLUDED.sale_date, fields = EXCLUDED.fields,
        digest = EXCLUDED.digest, recorded_at = EXCLUDED.recorded_at
    WHERE t.digest <> EXCLUDED.digest
    RETURNING names
"""
_FEEDBACK: LiteralString = """
    INSERT INTO marketplace_feedback (
        product_id, digest, names, date, type, reason_key, reason, recorded_at)
    SELECT %(product)s, decode(r.digest, 'hex'), ARRAY(SELECT jsonb_array_elements_text(r.names)),
           r.date, r.type, r.reason_key, r.reason, %(now)s
    FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(
        digest text, names jsonb, date date, type text, reason_key text, reason text)
    ON CONFLICT (product_id, digest) DO NOTHING
    RETURNING names
"""
_METRIC: LiteralString = """
    INSERT INTO marketplace_metricevent AS m (
        product_id, metric, date, name, names, cloud_id, months, seen_at)
    SELECT %(product)s, %(metric)s, r.date, r.names->>0,
           ARRAY(SELECT jsonb_array_elements_text(r.names)), r.cloud_id, r.months, %(at)s
    FROM jsonb_to_recordset(%(rows)s::jsonb) AS r(
        date date, names jsonb, cloud_id text, months smallint)
    ON CONFLICT (product_id, metric, date, name) DO UPDATE
    SET names = EXCLUDED.names, cloud_id = EXCLUDED.cloud_id, months = EXCLUDED.months,
        seen_at = EXCLUDED.seen_at
"""
_DROP_UNCOUNTED: LiteralString = """
    DELETE FROM marketplace_metricevent
    WHERE product_id = %(product)s AND metric = %(metric)s AND (%(all)s OR date >= %(first)s)
      AND seen_at <> %(at)s
"""


def write_metric(
    product_id: int, metric: str, rows: Sequence[MetricRow], began_at: datetime
) -> None:
    """Store the events that a reading found which began then, in the caller's transaction."""
    values = {
        (row.day, row.names[0]): {
            "date": row.day,
            "names": row.names,
            "cloud_id": row.cloud_id,
            "months": row.months,
        }
        for row in _allowed(product_id, rows)
    }
    if values:
        encoded = msgspec.json.encode([values[key] for key in sorted(values)]).decode()
        parameters = {"product": product_id, "metric": metric, "rows": encoded, "at": began_at}
        sql.execute(_METRIC, parameters)


def drop_uncounted(
    product_id: int, metric: str, first: date, is_full: bool, began_at: datetime
) -> None:
    """Delete the events since the *first* day that the reading which began then did not find, in
    the caller's transaction. A full one deletes those before that day, too."""
    parameters: dict[str, Any] = {"product": product_id, "metric": metric, "first": first}
    sql.execute(_DROP_UNCOUNTED, {**parameters, "all": is_full, "at": began_at})


def write_transactions(product_id: int, rows: Sequence[TransactionRow], now: datetime) -> None:
    """Store the lines that are new or changed, in the caller's transaction."""
    by_key = {(row.transaction_id, row.line_item_id): row for row in _allowed(product_id, rows)}
    values = [
        {
            "transaction_id": row.transaction_id,
            "line_item_id": row.line_item_id,
            "names": row.names,
            "sale_date": row.sale_date,
            "fields": row.fields,
            "digest": _digest(row.names, row.sale_date, row.fields),
        }
        for _, row in sorted(by_key.items())
    ]
    _write(_TRANSACTIONS, product_id, values, now)


def write_feedback(product_id: int, rows: Sequence[FeedbackRow], now: datetime) -> None:
    """Store the feedback that is new, in the caller's transaction."""
    values = {
        (digest := _digest(*row)): {
            "digest": digest,
            "names": row.names,
            "date": row.day,
            "type": row.type,
            "reason_key": row.reason_key,
            "reason": row.reason,
        }
        for row in _allowed(product_id, rows)
    }
    _write(_FEEDBACK, product_id, [values[digest] for digest in sorted(values)], now)


def _allowed(product_id: int, rows: Sequence[RowT]) -> list[RowT]:
    """The rows, without those of accounts that were deleted permanently."""
    cloud_ids = {row.cloud_id for row in rows}
    suppressed = suppression.suppressed_ids(product_id, suppression.SubjectScope.ACCOUNT, cloud_ids)
    return [row for row in rows if row.cloud_id not in suppressed]


def _write(
    statement: LiteralString, product_id: int, values: list[dict[str, Any]], now: datetime
) -> None:
    if not values:
        return
    encoded = msgspec.json.encode(values).decode()
    returned = sql.fetch(statement, {"product": product_id, "rows": encoded, "now": now})
    names = sorted({name for (names,) in returned for name in names})
    # Their events are computed again. A license that no sync has met yet takes its rows with it.
    observations.mark_changed(product_id, names)


def _digest(*values: Any) -> str:
    encoded = msgspec.json.encode(values, order="sorted")
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()
