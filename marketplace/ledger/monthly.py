"""License events of a product by month, and those behind each number.

A renewal is monthly or annual by the period that it pays for, and churn by the term that ended.
"""

from dataclasses import dataclass
from datetime import date
from typing import Any, Final, LiteralString

import msgspec

from core.database import sql
from marketplace.ledger.vocabulary import EventType

# Days of a term. Source: the vocabulary of events, billing_changed.
MONTHLY_UP_TO: Final = 45
ANNUAL_FROM: Final = 300
MONTHLY, ANNUAL, OTHER = "monthly", "annual", "other"
# The events whose terms are told apart.
OF_TERMS: Final = (EventType.RENEWED, EventType.CHURNED)


@dataclass(frozen=True)
class Count:
    """How many events of a type there were in a month, and how many seats they added or removed.

    ``term`` is empty for types without one. ``reason`` is why customers churned, if they said so.
    """

    month: date
    type: str
    term: str
    reason: str
    events: int
    seats: int


@dataclass(frozen=True)
class Row:
    """An event behind a number. ``term`` is empty for types without one."""

    cloud_id: str
    license: str
    date: date
    type: str
    term: str
    details: dict[str, Any]


# The term of churn began with the license's latest purchase or renewal before its end, which the
# anchor names. A renewal for several periods counts as one of its periods.
_EVENTS: LiteralString = """
    WITH events AS (
        SELECT e.cloud_id, e.license, e.type, e.anchor, e.date, e.details,
               CASE WHEN e.type = 'renewed'
                    THEN ((e.details->>'until')::date - e.date)
                         / greatest(1, (e.details->>'periods')::int)
                    WHEN e.type = 'churned' AND e.anchor ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}'
                    THEN (SELECT (left(e.anchor, 10)::date - b.date)
                                 / greatest(1, coalesce((b.details->>'periods')::int, 1))
                          FROM marketplace_licenseevent b
                          WHERE b.product_id = %(product)s AND b.license = e.license
                            AND b.type IN ('purchased', 'evaluation_bought', 'renewed', 'won_back')
                            AND b.withdrawn_at IS NULL AND b.date < left(e.anchor, 10)::date
                          ORDER BY b.date DESC LIMIT 1)
               END AS days
        FROM marketplace_licenseevent e
        WHERE e.product_id = %(product)s AND e.withdrawn_at IS NULL
          AND e.type = ANY(%(types)b::text[])
          AND e.date >= %(since)s AND e.date < %(until)s
    ), termed AS (
        SELECT *, date_trunc('month', date)::date AS month,
               CASE WHEN type <> ALL(%(of_terms)b::text[]) THEN ''
                    WHEN days <= %(monthly)s THEN 'monthly'
                    WHEN days >= %(annual)s THEN 'annual' ELSE 'other' END AS term,
               CASE WHEN type = 'churned'
                    THEN coalesce(details->>'reason', '') ELSE '' END AS reason
        FROM events
    )
"""
_COUNTS: LiteralString = (
    _EVENTS
    + """
    SELECT month, type, term, reason, count(*),
           coalesce(sum(CASE WHEN type IN ('seats_up', 'seats_down')
                             THEN (details->>'to')::bigint - (details->>'from')::bigint END), 0)
    FROM termed GROUP BY month, type, term, reason ORDER BY month DESC, type, term, reason
"""
)
_ROWS: LiteralString = (
    _EVENTS
    + """
    SELECT cloud_id, license, date, type, term, details::text FROM termed
    WHERE (%(term)s = '' OR term = %(term)s) AND (%(reason)s::text IS NULL OR reason = %(reason)s)
    ORDER BY date DESC, license, type, anchor LIMIT %(limit)s
"""
)


_TERMS: LiteralString = _EVENTS + "SELECT license, date, term, cloud_id FROM termed"


def events_of(
    product_id: int, type: str, since: date, until: date
) -> list[tuple[str, date, str, str]]:
    """All events of a type: the license, the day, the term, and the site."""
    rows = sql.fetch(_TERMS, _parameters(product_id, [type], since, until))
    return [(license, day, term, cloud_id) for license, day, term, cloud_id in rows]


def months_before(month: date, number: int) -> date:
    """The first day of the month that is *number* months before *month*, given by its first day."""
    index = month.year * 12 + month.month - 1 - number
    return date(index // 12, index % 12 + 1, 1)


def count_by_month(product_id: int, types: list[str], since: date, until: date) -> list[Count]:
    """The numbers of the events from *since* to the day before *until*."""
    return [
        Count(*values)
        for values in sql.fetch(_COUNTS, _parameters(product_id, types, since, until))
    ]


def rows_behind(
    product_id: int,
    types: list[str],
    since: date,
    until: date,
    limit: int | None = None,
    *,
    term: str = "",
    reason: str | None = None,
) -> list[Row]:
    """The events that numbers count, the latest first; a *reason* of None stands for all."""
    parameters = {
        **_parameters(product_id, types, since, until),
        "term": term,
        "reason": reason,
        "limit": limit,
    }
    return [
        Row(cloud_id, license, day, type, own_term, msgspec.json.decode(details))
        for cloud_id, license, day, type, own_term, details in sql.fetch(_ROWS, parameters)
    ]


def _parameters(product_id: int, types: list[str], since: date, until: date) -> dict[str, Any]:
    return {
        "product": product_id,
        "types": types,
        "since": since,
        "until": until,
        "of_terms": [type.value for type in OF_TERMS],
        "monthly": MONTHLY_UP_TO,
        "annual": ANNUAL_FROM,
    }
