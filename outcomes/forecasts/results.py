"""What a forecast is made of, and what it says. That is stored as JSON, and pages, files, and the
read API read it."""

from collections.abc import Sequence
from datetime import date
from enum import StrEnum
from typing import NamedTuple

import msgspec

from outcomes.kinds import Kind
from outcomes.statistics.estimates import Estimate

# The present month and those after it.
MONTHS = 4
# A calendar quarter is compared with the forecast of its first month.
QUARTER = 3
# The kinds that have forecasts. One renews each year, the other each month: no number has both.
KINDS = (Kind.RENEWAL, Kind.MONTHLY_STAY)


class Term(NamedTuple):
    """A term that ends in the month with that number, from 0 on. ``chance`` has a 95% interval; 0
    and 1 are certain. ``score`` is None if the account has none."""

    license: str
    account: int
    day: date
    month: int
    seats: int | None
    cents: int | None
    chance: float
    low: float
    high: float
    outcomes: int
    score: float | None


class PastCount(NamedTuple):
    """How many terms of a month renewed, and how many were expected to. ``variance`` is that of the
    number if months did not differ."""

    good: float
    expected: float
    variance: float


class Measure(StrEnum):
    """What is summed up: seats, or US cents (what the sales of a term add up to)."""

    SEATS = "seats"
    CENTS = "cents"


class Sums(msgspec.Struct, frozen=True):
    """Of the terms whose amount is known: how much is ``due``, and what is ``expected`` to renew of
    it, with an 80% interval."""

    terms: int
    due: int
    expected: float
    low: int
    high: int


class ForecastBand(msgspec.Struct, frozen=True):
    """The sums of accounts that score from ``low`` on and below ``high``; both are None for those
    without a score."""

    low: int | None
    high: int | None
    sums: dict[Measure, Sums]


class ForecastMonth(msgspec.Struct, frozen=True):
    """The terms that end in the month that begins on ``first_day``. Customers have ``answered``
    for that many of them: these count as certain."""

    first_day: date
    terms: int
    answered: int
    sums: dict[Measure, Sums]
    bands: list[ForecastBand]


class PastMonth(msgspec.Struct, frozen=True):
    """What a forecast had said of a month when it began, and what became of exactly these terms;
    or of ``months`` months from ``first_day`` on, which are a quarter.

    ``happened`` is what renewed, the terms of which nobody can say with their chances
    (``unknown``). While terms are ``open``, it counts those that are decided, and nothing is within
    the interval (``is_within`` is None). ``versions`` are those of the models that it was made
    with.
    """

    first_day: date
    made_on: date
    terms: int
    open: int
    unknown: int
    sums: dict[Measure, Sums]
    happened: dict[Measure, float]
    is_within: dict[Measure, bool | None]
    months: int = 1
    versions: list[int] = []


class Decisive(msgspec.Struct, frozen=True):
    """Which terms made the difference in past ``months`` from ``first_day`` on: where less renewed
    than expected, those that did not, else those that did; the ones with most that was not expected
    first. They are places in the arrays of the forecast that was made then, which know no license
    that is forgotten."""

    first_day: date
    months: int
    made_on: date
    places: dict[Measure, list[int]]


class Forecast(msgspec.Struct, frozen=True):
    """The months ahead, as of a day.

    ``total`` is of all months, and ``quarter`` of the first three; monthly licenses, which are in
    each of them, have neither. With ``is_share``, there were too few outcomes to tell accounts
    apart. ``learned_months`` is how many past ones said by how much months differ. ``coverage`` is
    the share of the past months that were within their interval. ``unknown`` is the number of terms
    of which nothing can be said, because none of the kind has been decided before; the months do
    not have them. ``past`` are the past months, and ``past_quarters`` the calendar quarters whose
    first month had a forecast.
    """

    kind: Kind
    made_on: date
    outcomes: int
    is_share: bool
    learned_months: int
    months: list[ForecastMonth]
    total: dict[Measure, Sums]
    past: list[PastMonth]
    coverage: dict[Measure, Estimate]
    revision: int | None = None
    unknown: int = 0
    quarter: dict[Measure, Sums] = {}
    past_quarters: list[PastMonth] = []
    decisive: list[Decisive] = []

    def measure(self, name: str | None = None) -> Measure:
        """The measure that was asked for; else revenue if sales of all terms are known."""
        if name in set(Measure):
            return Measure(name)
        terms = sum(month.terms for month in self.months)
        with_sales = sum(month.sums[Measure.CENTS].terms for month in self.months)
        return Measure.CENTS if 0 < terms == with_sales else Measure.SEATS

    def past_periods(self) -> list[PastMonth]:
        """Past quarters, and past months, the latest first."""
        return [*self.past_quarters, *self.past]

    def expected_later(self, measure: Measure) -> float:
        """What is expected of the months after the present one."""
        return sum(month.sums[measure].expected for month in self.months[1:])


def month_after(first_day: date, months: int) -> date:
    """The first day of the month that is this many months after that of *first_day*."""
    index = 12 * first_day.year + first_day.month - 1 + months
    return date(index // 12, index % 12 + 1, 1)


def months_from(today: date) -> Sequence[date]:
    """The first days of the months that a forecast of that day is about."""
    return [month_after(today, number) for number in range(MONTHS)]
