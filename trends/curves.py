"""Trends as charts, numbers, and a sentence: for the page of trends, segments, and the overview."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

from django.urls import reverse
from django.utils.safestring import SafeString

from access.pages.subject_urls import subject_url
from core import charts
from engagement.models import Segment, Workspace
from engagement.scopes import get_kind
from engagement.scores.active_days import DAY
from trends import reading
from trends.models import BAND_COUNT, WHOLE, DayFigures, SegmentMove
from trends.reading import LABELS, YEAR, Comparison, Interval, Point, Rows

# Bars of bands are read together by two.
BANDS_PER_BAR = 2
# Of longer periods, a point is a week.
DAILY_UNTIL = 90
BAR_DAYS_UNTIL = 30


@dataclass(frozen=True)
class Subject:
    """A workspace or one of its segments, on the days of a period and those that it compares with.

    *last* is the last complete day with figures.
    """

    name: str
    workspace: Workspace
    segment: Segment | None
    rows: Rows
    first: date
    last: date

    @classmethod
    def of(
        cls, name: str, workspace: Workspace, segment: Segment | None, last: date, days: int
    ) -> "Subject":
        first = last - (days - 1) * DAY
        spans = (first - days * DAY, last), (first - YEAR, last - YEAR)
        segment_id = segment.pk if segment else WHOLE
        rows = reading.read(workspace, segment_id, *spans)
        return cls(name, workspace, segment, rows, first, last)

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def names(self) -> list[str]:
        """The figures that people compare, of those that it has."""
        moves = reading.MOVES if self.segment else ()
        scope = self.segment.scope if self.segment else ""
        of_other = {"user": "account", "account": ""}.get(scope, "")
        return [
            name
            for name in LABELS
            if not (of_other and of_other in name) and (name not in reading.MOVES or moves)
        ]

    def points(self, interval: Interval, back: int = 0) -> list[Point]:
        """The points of the period, or of one a number of days before."""
        first, last = self.first - back * DAY, self.last - back * DAY
        return reading.points(self.rows, first, last, interval)

    def comparisons(self) -> list[Comparison]:
        return reading.compare(self.rows, self.first, self.last, self.names)


class Row(NamedTuple):
    """A figure as text, beside what it compares with. *tone* is good, bad, or empty."""

    label: str
    now: str
    before: str
    change: str
    year_before: str
    year_change: str
    other: str


def number_rows(own: Subject, other: Subject | None) -> list[Row]:
    others = {each.name: each.now for each in other.comparisons()} if other else {}
    return [
        Row(
            each.label,
            format_figure(each.name, each.now),
            format_figure(each.name, each.before),
            format_change(each.name, each.now, each.before),
            format_figure(each.name, each.year_before),
            format_change(each.name, each.now, each.year_before),
            format_figure(each.name, others.get(each.name)),
        )
        for each in own.comparisons()
    ]


def format_figure(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.1f}" if name in reading.SCORES else f"{value:,.0f}"


def format_change(name: str, now: float | None, then: float | None) -> str:
    if now is None or then is None:
        return ""
    if name in reading.SCORES:
        text = f"{now - then:+.1f}"
    else:
        share = f" ({(now - then) / then:+.0%})" if then >= reading.LEAST_TOLD else ""
        text = f"{now - then:+,.0f}{share}"
    return text.replace("-", "\N{MINUS SIGN}")


def headline(subject: Subject) -> str:
    """What moved most, in a sentence."""
    comparisons = subject.comparisons()
    if not comparisons:
        return "There are no figures yet."
    moved = reading.what_moved_first(comparisons)
    if moved is None or moved.share is None or moved.now is None or moved.before is None:
        if any(each.before is not None for each in comparisons):
            return f"Nothing moved against the {subject.days} days before."
        first = min(subject.rows)
        return f"There is nothing to compare with yet: figures begin on {first:%-d %B %Y}."
    verb = "rose" if moved.share > 0 else "fell"
    now, before = (format_figure(moved.name, value) for value in (moved.now, moved.before))
    by = "" if moved.name in reading.SCORES else f" by {abs(moved.share):.0%}"
    against = f"against the {subject.days} days before"
    return f"{moved.label} {verb}{by} {against}: from {before} to {now}."


# --- Charts ---------------------------------------------------------------------------------


class Curve(NamedTuple):
    """A chart with its title, and what it shows in a few words."""

    title: str
    chart: SafeString
    text: str = ""


def curves(
    own: Subject, other: Subject | None, marks: Sequence[tuple[date, str]]
) -> Iterator[Curve]:
    """The charts of the page: beside those of another, or with the period before."""
    own_names = set(own.names)
    for name in ("weekly_accounts", "weekly_users"):
        if name in own_names:
            yield from _line(LABELS[name], own, other, marks, name)
    for scope in ("account", "user"):
        if f"{scope}_mean" in own_names:
            title = f"Mean score of {scope}s"
            yield from _line(title, own, other, marks, f"{scope}_mean", f"{scope}_median", top=100)
    scope = own.segment.scope if own.segment else "account"
    yield from _bands(own, scope)
    if own.segment:
        yield from _line(f"Members: {scope}s", own, other, (), f"{scope}s")
        yield from _bars("Entered and left", own, reading.MOVES)
    if "new_accounts" in own_names:
        names = ("new_accounts", "returned_accounts", "stopped_accounts")
        yield from _bars("New, returned, and stopped accounts", own, names)
    if "seats" in own_names:
        yield from _line("Licensed seats in use", own, other, (), "active_seats")


def _line(
    title: str,
    own: Subject,
    other: Subject | None,
    marks: Sequence[tuple[date, str]],
    name: str,
    beside: str = "",
    top: float | None = None,
) -> Iterator[Curve]:
    """A line of the figure. Alone, with that of the period before, and another figure *beside*."""
    interval = Interval.DAY if own.days <= DAILY_UNTIL else Interval.WEEK
    points = own.points(interval)
    series = [charts.Series((other and own.name) or LABELS[name], _values(points, name))]
    if other:
        series.append(charts.Series(other.name, _values(other.points(interval), name)))
    else:
        before = own.points(interval, own.days)
        label = f"{own.days} days before"
        series.append(charts.Series(label, _values(before, name), is_dotted=True))
        if beside:
            series.append(charts.Series(LABELS[beside], _values(points, beside), tone=2))
    series = [each for each in series if any(value is not None for value in each.values)]
    if series:
        labels = [charts.day_label(point.last) for point in points]
        own_marks = [
            charts.Mark(place, text, kind="weights")
            for day, text in marks
            for place, point in enumerate(points)
            if point.first <= day <= point.last
        ]
        yield Curve(title, charts.line(title, labels, series, top=top, marks=own_marks))


def _bars(title: str, own: Subject, names: Sequence[str]) -> Iterator[Curve]:
    points = own.points(_bar_interval(own))
    series = [charts.Series(LABELS[name], _values(points, name)) for name in names]
    if any(value for each in series for value in each.values):
        yield Curve(title, charts.bars(title, [_bar_label(point) for point in points], series))


def _bands(own: Subject, scope: str) -> Iterator[Curve]:
    points = own.points(_bar_interval(own))
    width = 100 // BAND_COUNT * BANDS_PER_BAR
    series = [
        charts.Series(
            f"{place * 100 // BAND_COUNT}–{place * 100 // BAND_COUNT + width}",
            [_in_bands(point.figures[f"{scope}_bands"], place) for point in points],
        )
        for place in range(0, BAND_COUNT, BANDS_PER_BAR)
    ]
    if any(value for each in series for value in each.values):
        title = f"{scope.capitalize()}s by score"
        yield Curve(title, charts.bars(title, [_bar_label(point) for point in points], series))


def _in_bands(bands: Sequence[int] | None, place: int) -> int | None:
    return sum(bands[place : place + BANDS_PER_BAR]) if bands else None


def _bar_interval(own: Subject) -> Interval:
    return Interval.DAY if own.days <= BAR_DAYS_UNTIL else Interval.WEEK


def _bar_label(point: Point) -> str:
    return charts.day_label(point.last)


def _values(points: Sequence[Point], name: str) -> list[Any]:
    return [point.figures[name] for point in points]


# --- A segment ------------------------------------------------------------------------------

SEGMENT_DAYS, MOVED_DAYS, MOVERS = 90, 7, 20
STRIP_DAYS = 30


class Mover(NamedTuple):
    name: str
    url: str
    day: date
    is_entry: bool


@dataclass(frozen=True)
class History:
    """How a segment moved in 90 days, and who entered and left it in the last week, the latest
    first. *more* is how many others did, None if nobody knows who."""

    curves: Sequence[Curve]
    movers: Sequence[Mover]
    more: int | None
    url: str


def history(segment: Segment) -> History | None:
    """None before the first night of the segment."""
    last = reading.last_day(segment.workspace)
    own = last and Subject.of("", segment.workspace, segment, last, SEGMENT_DAYS)
    if last is None or not own or not own.rows:
        return None
    scope = segment.scope
    drawn = [
        *_line(f"Members: {scope}s", own, None, (), f"{scope}s"),
        *_line(f"Mean score of {scope}s", own, None, (), f"{scope}_mean", top=100),
        *_bars("Entered and left", own, reading.MOVES),
    ]
    since = last - (MOVED_DAYS - 1) * DAY
    week = [row for day, row in own.rows.items() if since <= day <= last]
    number = sum((row.entered or 0) + (row.left or 0) for row in week)
    movers = list(_movers(segment, since))
    page = reverse("admin:engagement_workspace_trends", args=[segment.workspace_id])
    return History(drawn, movers, max(0, number - len(movers)), f"{page}?segment={segment.pk}")


def _movers(segment: Segment, since: date) -> Iterator[Mover]:
    product_id = segment.workspace.product_id
    rows = SegmentMove.objects.filter(product=product_id, segment_id=segment.pk, day__gte=since)
    moves = list(rows.order_by("-day", "subject_id")[:MOVERS])
    model: Any = get_kind(segment.scope).model
    subjects = model.objects.filter(product=product_id, is_identified=True)
    by_id = subjects.defer("trait_stamps").in_bulk([move.subject_id for move in moves])
    for move in moves:
        if subject := by_id.get(move.subject_id):
            url = subject_url(subject, get_kind(segment.scope).scope, segment.workspace_id)
            yield Mover(subject.name or subject.external_id, url, move.day, move.is_entry)


class Spark(NamedTuple):
    """A small curve of the last 30 days, with its latest number and its change, as texts."""

    label: str
    now: str
    change: str
    chart: SafeString


def member_lines(segments: Sequence[Segment], today: date) -> dict[int, Spark]:
    """The members of each segment in the last 30 complete days, by its id, with their change over
    the last seven. Segments that fewer than two nights have seen are left out."""
    days = [today - ago * DAY for ago in range(STRIP_DAYS, 0, -1)]
    rows = DayFigures.objects.filter(
        workspace__in={segment.workspace_id for segment in segments},
        segment_id__in=[segment.pk for segment in segments],
        day__in=days,
    )
    counts: dict[int, dict[date, int | None]] = {}
    scopes = {segment.pk: segment.scope for segment in segments}
    for row in rows.only("segment_id", "day", "accounts", "users"):
        count = row.users if scopes[row.segment_id] == "user" else row.accounts
        counts.setdefault(row.segment_id, {})[row.day] = count
    return {
        id: _member_line([by_day.get(day) for day in days])
        for id, by_day in counts.items()
        if len(by_day) > 1
    }


def _member_line(values: Sequence[int | None]) -> Spark:
    change = format_change("", values[-1], values[-1 - MOVED_DAYS])
    return Spark("Members", format_figure("", values[-1]), change, charts.spark(values))


# --- The overview ---------------------------------------------------------------------------


STRIP = ("weekly_accounts", "weekly_users", "account_mean")


def strip(workspace: Workspace) -> list[Spark]:
    """Small curves for the overview; none before the first night."""
    last = reading.last_day(workspace)
    if last is None:
        return []
    own = Subject.of("", workspace, None, last, STRIP_DAYS)
    points = own.points(Interval.DAY)
    by_name: dict[str, Comparison] = {each.name: each for each in own.comparisons()}
    return [
        Spark(
            each.label,
            format_figure(name, each.now),
            format_change(name, each.now, each.before),
            charts.spark(_values(points, name), top=100 if name in reading.SCORES else None),
        )
        for name in STRIP
        if (each := by_name.get(name))
    ]
