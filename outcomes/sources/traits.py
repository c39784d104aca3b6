"""Which accounts' trait took a bad value, such as a status of "churned".

The unit is an account and a calendar quarter at whose first day the trait had a value that was not
bad; the first quarter begins when the product chose the trait. It is a bad outcome of the day on
which the trait took a bad value, if it did so in the quarter, and else a good one of the quarter's
last day. Quarters count when they are over, so that both are known at the same time. Days are UTC.
"""

from datetime import date, timedelta
from typing import LiteralString, NamedTuple

from core.database import sql
from engagement.models import ScoreSet
from outcomes.kinds import Exclusion, Kind, Outcome, OutcomeSet
from outcomes.sources.units import UNITS, in_places, sample

QUARTERS = 12
DAY = timedelta(days=1)


class Bad(NamedTuple):
    """Which values of which trait are bad: these in any case, or numbers less than *below*."""

    trait: str
    values: tuple[str, ...]
    below: float | None


# Whether the text {value} is bad.
IS_BAD: LiteralString = r"""
    (lower({value}) = ANY(%(values)b::text[])
     OR CASE WHEN %(below)s::float8 IS NOT NULL AND {value} ~ '^-?[0-9]+([.][0-9]+)?$'
        THEN {value}::float8 < %(below)s::float8 ELSE false END)
"""
# The value at the beginning is that of the last change before it; else the one before the first
# change after it; else, without any change, the present one.
_SAMPLE: LiteralString = f"""
    {UNITS},
    states AS (
        SELECT k.*, (%(ends)b::date[])[k.number] AS last,
               COALESCE(earlier.value, later.previous, left(a.traits ->> %(trait)s, 200), '')
               AS value
        FROM units k
        JOIN engagement_account a ON a.product_id = %(product)s AND a.id = k.account_id
        LEFT JOIN LATERAL (
            SELECT c.value FROM engagement_traitchange c
            WHERE c.product_id = %(product)s AND c.account_id = k.account_id
              AND c.name = %(trait)s AND c.day < k.day
            ORDER BY c.day DESC LIMIT 1) earlier ON true
        LEFT JOIN LATERAL (
            SELECT c.previous FROM engagement_traitchange c
            WHERE c.product_id = %(product)s AND c.account_id = k.account_id
              AND c.name = %(trait)s AND c.day >= k.day
            ORDER BY c.day LIMIT 1) later ON true),
    decided AS (
        SELECT s.*, (
            SELECT min(c.day) FROM engagement_traitchange c
            WHERE c.product_id = %(product)s AND c.account_id = s.account_id
              AND c.name = %(trait)s AND c.day BETWEEN s.day AND s.last
              AND {IS_BAD.format(value="c.value")}) AS bad_on
        FROM states s
        WHERE s.value <> '' AND NOT {IS_BAD.format(value="s.value")}),
    judged AS (
        SELECT d.*, CASE WHEN EXISTS (
            SELECT FROM engagement_dailycount e
            WHERE e.product_id = %(product)s AND e.account_id = d.account_id
              AND e.day < COALESCE(d.bad_on, d.last)) THEN '' ELSE 'no_data' END AS reason
        FROM decided d),
    ranked AS (
        SELECT j.*, count(*) OVER (PARTITION BY reason) AS total,
               row_number() OVER (PARTITION BY reason ORDER BY place) AS rank
        FROM judged j)
    SELECT reason, total, account_id, day, last, bad_on FROM ranked
    WHERE rank <= CASE WHEN reason = '' THEN %(limit)s ELSE 1 END
    ORDER BY COALESCE(bad_on, last), account_id
"""


def read(score_set: ScoreSet | None, bad: Bad, since: date, today: date, limit: int) -> OutcomeSet:
    """The outcomes of the quarters that are over, of a trait whose history began on the day
    *since*, or an even sample of them."""
    ends = _quarters(since, today)
    if score_set is None or not ends:
        return OutcomeSet(Kind.TRAIT, [], {}, None)
    days = in_places(list(ends), months=3)
    more = {
        "ends": [ends[day] for day in days],
        "trait": bad.trait,
        "values": [value.lower() for value in bad.values],
        "below": bad.below,
    }
    rows, share = sample(
        score_set, days, limit, lambda parameters: sql.fetch(_SAMPLE, parameters | more)
    )
    totals = {reason: round(total / share) for reason, total, *_ in rows}
    outcomes = [_outcome(*row) for reason, _, *row in rows if not reason]
    count = totals.pop("", 0)
    excluded = {Exclusion(reason): total for reason, total in sorted(totals.items())}
    sampled_of = count if count > len(outcomes) else None
    return OutcomeSet(Kind.TRAIT, outcomes, excluded, None, sampled_of)


def _outcome(account_id: int, began_on: date, last: date, bad_on: date | None) -> Outcome:
    result = "kept" if bad_on is None else "became_bad"
    return Outcome(account_id, bad_on or last, bad_on is None, result, last + DAY, None, began_on)


def _quarters(since: date, today: date) -> dict[date, date]:
    """The last days of the quarters that are over, by their first days. The first one begins on the
    day after *since*: what happened before nobody noted."""
    quarters: dict[date, date] = {}
    last = today.replace(month=(today.month - 1) // 3 * 3 + 1, day=1) - DAY
    while last > since and len(quarters) < QUARTERS:
        first = last.replace(month=last.month - 2, day=1)
        quarters[max(first, since + DAY)] = last
        last = first - DAY
    return quarters
