"""What became of the terms of stored forecasts. Nothing is stored: a correction of the ledger
corrects what became of them, and never what was expected."""

import heapq
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import LiteralString, NamedTuple

import msgspec

from core.database import sql
from engagement.models import Workspace
from outcomes.forecasts.results import (
    MONTHS,
    QUARTER,
    Decisive,
    Forecast,
    Measure,
    PastCount,
    PastMonth,
    Sums,
    month_after,
)
from outcomes.kinds import Kind
from outcomes.models import StoredForecast

# The months that are looked back at, and the last day of a month on which its forecast may have
# been made. A term may end that many days earlier or later than expected.
MONTHS_BACK, MADE_UNTIL, MOVED_DAYS = 12, 5, 100
QUARTERS_BACK = 4
# The most terms that are named as those that made the difference.
MOST_DECISIVE = 10

# The outcome of each renewal that is nearest to its day; no row for those without one.
_RENEWALS: LiteralString = """
    SELECT DISTINCT ON (t.number) t.number,
           CASE WHEN o.exclusion = 'open' THEN 'open' WHEN o.exclusion <> '' THEN 'unknown'
                WHEN o.result = 'churned' THEN 'lost' ELSE 'renewed' END
    FROM unnest(%(licenses)b::text[], %(days)b::date[])
         WITH ORDINALITY AS t(license, day, number)
    JOIN outcomes_licenseoutcome o
      ON o.product_id = %(product)s AND o.license = t.license AND o.kind = 'renewal'
         AND abs(o.day - t.day) <= %(moved_days)s
    ORDER BY t.number, abs(o.day - t.day)
"""
# A monthly license has an outcome for each quarter, on the day of the term that decided. It renewed
# in the month if it was not lost until then, and has a later term or stayed through the quarter.
_STAYS: LiteralString = """
    SELECT t.number,
           CASE WHEN bool_or(o.result = 'churned' AND o.day < %(until)s) THEN 'lost'
                WHEN bool_or(o.result = 'stayed' OR o.day >= %(until)s) THEN 'renewed'
                WHEN bool_or(o.exclusion = 'open') THEN 'open' ELSE 'unknown' END
    FROM unnest(%(licenses)b::text[]) WITH ORDINALITY AS t(license, number)
    JOIN outcomes_licenseoutcome o
      ON o.product_id = %(product)s AND o.license = t.license AND o.kind = 'monthly_stay'
         AND o.day >= %(first_day)s
    GROUP BY t.number
"""


_TERMS: LiteralString = """
    SELECT t.* FROM outcomes_storedforecast f
    CROSS JOIN unnest(f.licenses, f.days, f.seats, f.cents, f.chances)
        WITH ORDINALITY AS t(license, day, seats, cents, chance, place)
    WHERE f.id = %(forecast)s AND t.day >= %(first_day)s AND t.day < %(until)s
"""


class _Term(NamedTuple):
    license: str
    day: date
    seats: int | None
    cents: int | None
    chance: float
    place: int


class Past(NamedTuple):
    """What became of past months. ``predicted`` are the terms that were open when the forecast was
    made, and are decided; none before all are."""

    month: PastMonth
    predicted: PastCount
    decisive: Decisive


def past_months(workspace: Workspace, kind: Kind, today: date) -> Iterator[Past]:
    """The past months that had a forecast when they began, the latest first."""
    dated = _dated(workspace, kind)
    for number in range(1, MONTHS_BACK + 1):
        first_day = month_after(today, -number)
        latest = first_day + timedelta(days=MADE_UNTIL)
        pk, made_on = next((each for each in dated if each[1] < latest), (None, date.min))
        if pk is not None and month_after(made_on, MONTHS - 1) >= first_day:
            row = _stored(pk)
            months = msgspec.convert(row.result, Forecast).months
            sums = next(month.sums for month in months if month.first_day == first_day)
            yield _period(row, first_day, 1, sums)


def past_quarters(workspace: Workspace, kind: Kind, today: date) -> Iterator[Past]:
    """The calendar quarters that are over and had a forecast when they began, the latest first."""
    dated = _dated(workspace, kind)
    this = month_after(today, -((today.month - 1) % QUARTER))
    for number in range(1, QUARTERS_BACK + 1):
        first_day = month_after(this, -QUARTER * number)
        latest = first_day + timedelta(days=MADE_UNTIL)
        pk = next((pk for pk, made_on in dated if first_day <= made_on < latest), None)
        if pk is not None:
            row = _stored(pk)
            # Forecasts of earlier releases, and those of monthly licenses, have none.
            if sums := msgspec.convert(row.result, Forecast).quarter:
                yield _period(row, first_day, QUARTER, sums)


def _dated(workspace: Workspace, kind: Kind) -> list[tuple[int, date]]:
    rows = StoredForecast.objects.filter(workspace=workspace, kind=kind, stays=True)
    return list(rows.order_by("-made_on").values_list("pk", "made_on"))


def _stored(pk: int) -> StoredForecast:
    """The forecast without its terms."""
    fields = ("product_id", "kind", "made_on", "result", "versions")
    return StoredForecast.objects.only(*fields).get(pk=pk)


def _period(row: StoredForecast, first_day: date, months: int, sums: dict[Measure, Sums]) -> Past:
    span = {"first_day": first_day, "until": month_after(first_day, months)}
    terms = [_Term(*values) for values in sql.fetch(_TERMS, {"forecast": row.pk, **span})]
    parameters = {
        **span,
        "product": row.product_id,
        "licenses": [term.license for term in terms],
        "days": [term.day for term in terms],
        "moved_days": MOVED_DAYS,
    }
    statement = _RENEWALS if row.kind == Kind.RENEWAL else _STAYS
    fates: list[str] = ["unknown"] * len(terms)
    for place, fate in sql.fetch(statement, parameters):
        fates[place - 1] = fate
    pairs = list(zip(terms, fates, strict=True))
    renewed = {measure: sum(_renewed(*pair, measure) for pair in pairs) for measure in Measure}
    is_open = "open" in fates
    month = PastMonth(
        first_day,
        row.made_on,
        len(terms),
        fates.count("open"),
        fates.count("unknown"),
        sums,
        renewed,
        {
            measure: None
            if is_open or not own.due
            else own.low <= round(renewed[measure]) <= own.high
            for measure, own in sums.items()
        },
        months,
        row.versions,
    )
    places = {measure: _decisive(pairs, measure, month) for measure in Measure}
    return Past(month, _count(pairs), Decisive(first_day, months, row.made_on, places))


def _decisive(pairs: Sequence[tuple[_Term, str]], measure: Measure, month: PastMonth) -> list[int]:
    is_less = month.happened[measure] < month.sums[measure].expected
    fate = "lost" if is_less else "renewed"
    own = [
        (amount * (term.chance if is_less else 1 - term.chance), term.place)
        for term, became in pairs
        if became == fate and (amount := getattr(term, measure) or 0)
    ]
    return [place for unexpected, place in heapq.nlargest(MOST_DECISIVE, own) if unexpected > 0]


def _renewed(term: _Term, fate: str, measure: Measure) -> float:
    amount: int = getattr(term, measure) or 0
    return amount * {"renewed": 1.0, "unknown": term.chance}.get(fate, 0.0)


def _count(pairs: Sequence[tuple[_Term, str]]) -> PastCount:
    predicted = [(term.chance, fate) for term, fate in pairs if 0 < term.chance < 1]
    if any(fate == "open" for _, fate in predicted):
        return PastCount(0, 0, 0)
    decided = [(chance, fate == "renewed") for chance, fate in predicted if fate != "unknown"]
    return PastCount(
        sum(renewed for _, renewed in decided),
        sum(chance for chance, _ in decided),
        sum(chance * (1 - chance) for chance, _ in decided),
    )
