"""Trends of a workspace or a segment: its figures by day, week, or month, and what they compare
with."""

from calendar import monthrange
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from django.db.models import Q

from engagement.models import Workspace
from engagement.scores.active_days import DAY
from trends.models import FIGURES, KEPT_WEEKS, SEATS, WHOLE, DayFigures

# Weekdays are the same a year before.
YEAR = 52 * 7 * DAY
KEPT = KEPT_WEEKS * 7 * DAY
MOVES = ("entered", "left")
NAMES = (*FIGURES, *SEATS, *MOVES)
# Of some days together, these are sums. Others are those of the last day.
SUMS = {"new_accounts", "returned_accounts", "stopped_accounts", *MOVES}
# A tenth of a point is noise.
SCORES = {"account_mean", "account_median", "user_mean", "user_median"}
LABELS = {
    "weekly_accounts": "Weekly active accounts",
    "weekly_users": "Weekly active users",
    "account_mean": "Mean score of accounts",
    "account_median": "Median score of accounts",
    "user_mean": "Mean score of users",
    "user_median": "Median score of users",
    "accounts": "Accounts",
    "users": "Users",
    "new_accounts": "New accounts",
    "returned_accounts": "Accounts that returned",
    "stopped_accounts": "Accounts that stopped",
    "seats": "Licensed seats",
    "active_seats": "Licensed seats in use",
    "entered": "Entered",
    "left": "Left",
}
_WORDS = {"bands": "by score, in bands of ten points", "daily": "active on the day"}
# What a change is told of first, if all changed as much.
_TOLD = ("weekly_accounts", "weekly_users", "account_mean", "user_mean", "active_seats")
# Of fewer, a share says nothing.
LEAST_TOLD = 20

Rows: TypeAlias = Mapping[date, DayFigures]


class Interval(StrEnum):
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class Point(NamedTuple):
    """The figures of the days of an interval, by NAMES; None where none is known."""

    first: date
    last: date
    figures: Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """A figure of a period, and the same of the period before and of the one a year before."""

    name: str
    now: float | None
    before: float | None
    year_before: float | None

    @property
    def label(self) -> str:
        return LABELS[self.name]

    @property
    def share(self) -> float | None:
        """The change since the period before, as a share of what was."""
        if self.now is None or self.before is None or self.before < self._least:
            return None
        return (self.now - self.before) / self.before

    @property
    def _least(self) -> float:
        return 1 if self.name in SCORES else LEAST_TOLD


def meaning(name: str) -> str:
    """What a figure is, in a few words."""
    if name in LABELS:
        return LABELS[name].lower()
    first, _, second = name.partition("_")
    plural = second if first == "daily" else f"{first}s"
    return f"{plural} {_WORDS['daily' if first == 'daily' else 'bands']}"


def last_day(workspace: Workspace) -> date | None:
    """The last day with figures of the whole workspace; None before the first night."""
    rows = DayFigures.objects.filter(workspace=workspace, segment_id=WHOLE)
    return rows.order_by("-day").values_list("day", flat=True).first()


def read(workspace: Workspace, segment_id: int, *spans: tuple[date, date]) -> Rows:
    """The figures of the days of the spans."""
    days = Q()
    for span in spans:
        days |= Q(day__range=span)
    rows = DayFigures.objects.filter(days, workspace=workspace, segment_id=segment_id)
    return {row.day: row for row in rows.order_by("day")}


def points(rows: Rows, first: date, last: date, interval: Interval) -> list[Point]:
    """The figures of the days in intervals, the earliest first."""
    return [Point(*span, _figures(rows, *span)) for span in _spans(first, last, interval)]


def _spans(first: date, last: date, interval: Interval) -> Iterator[tuple[date, date]]:
    """The intervals. Weeks are counted from the last day on, and the first one may be shorter."""
    begin = first
    while begin <= last:
        if interval is Interval.MONTH:
            end = begin.replace(day=monthrange(begin.year, begin.month)[1])
        elif interval is Interval.WEEK:
            end = begin + ((last - begin).days % 7) * DAY
        else:
            end = begin
        end = min(end, last)
        yield begin, end
        begin = end + DAY


def _figures(rows: Rows, first: date, last: date) -> dict[str, Any]:
    figures: dict[str, Any] = {name: getattr(rows.get(last), name, None) for name in NAMES}
    days = [first + n * DAY for n in range((last - first).days + 1)]
    own = [row for day in days if (row := rows.get(day))]
    for name in SUMS:
        values = [value for each in own if (value := getattr(each, name)) is not None]
        figures[name] = sum(values) if values else None
    return figures


def compare(rows: Rows, first: date, last: date, names: Sequence[str]) -> list[Comparison]:
    """The figures of the period, beside those of the one before and of the one a year before."""
    length = last - first + DAY
    spans = ((first, last), (first - length, first - DAY), (first - YEAR, last - YEAR))
    now, before, year_before = (_figures(rows, *span) for span in spans)
    compared = (Comparison(name, now[name], before[name], year_before[name]) for name in names)
    return [each for each in compared if each.now is not None]


def what_moved_first(comparisons: Sequence[Comparison]) -> Comparison | None:
    """Of what pages tell of first, that with the largest change for its size."""
    candidates = [each for each in comparisons if each.name in _TOLD and each.share]
    return max(candidates, key=lambda each: abs(each.share or 0.0), default=None)
