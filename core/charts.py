"""Charts for pages: a line and stacked bars, as SVG from the server.

They work without a script under the strict content security policy (no inline style), follow the
admin's light and dark colors, keep their text at reading size on a phone, and describe themselves
in a sentence and a table. ``engagement/charts.js`` reads the table and shows the values of a day to
a pointer, a finger, and the arrow keys. Every page of the admin has the style sheet and the script.

    from core import charts

    context["curve"] = charts.line(
        "Score of the last 90 days",
        [charts.day_label(score.day) for score in history],
        [
            charts.Series("Score", [score.score for score in history]),
            charts.Series("90 days before", [score.score for score in before], is_dotted=True),
        ],
        top=100,
        marks=[charts.Mark(12, "Weights changed", kind="weights")],
        ranges=[charts.Range("30 days", "?days=30"), charts.Range("90 days", "?days=90", True)],
    )
    context["drops"] = charts.bars(
        "Dropped messages per day",
        [charts.day_label(day) for day in days],
        [charts.Series("Unknown key", [3, 0, 7], url="?reason=unknown_key")],
    )

In the template write ``{{ curve }}``. A value of None is a gap, which is not the same as zero.
``spark`` draws a line of a few bytes, without axes, for rows and numbers.
Titles must be unique on a page, because they name the charts for screen readers.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Literal, NamedTuple, Self

from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import slugify

# The number of labels that fit side by side on a phone.
MAX_LABELS = 5
# The number of colors; the stylesheet calls them tone-1, tone-2, and so on.
TONE_COUNT = 8
# A bar's share of its slot; the rest is the gap to the next bar.
BAR_WIDTH_SHARE = 0.78

# The number of marks that are said below a chart; the table says all.
MAX_MARKS_SAID = 6

ChartValue = float | None
MarkKind = Literal["alarm", "license", "weights", "release"]


@dataclass(frozen=True)
class Series:
    """One line, or one part of every bar.

    *tone* is its color from 1 to ``TONE_COUNT``; None takes the next one. With *url* its name in
    the legend is a link. A line *on_right* has an axis of its own at the right, and is dashed. A
    *dotted* line is the period before: without a tone, it has that of the line before it.
    """

    name: str
    values: Sequence[ChartValue]
    tone: int | None = None
    url: str = ""
    on_right: bool = False
    is_dotted: bool = False

    @property
    def stroke(self) -> str:
        """The name of the line's pattern, for the style sheet."""
        return "dotted" if self.is_dotted else "dashed" if self.on_right else "solid"


@dataclass(frozen=True)
class Band:
    """A range behind the lines, from *low* to *high*, for example what is usual."""

    name: str
    low: Sequence[ChartValue]
    high: Sequence[ChartValue]

    def text(self, index: int) -> str:
        """The range at the label with this index, like "11–26"; empty in a gap."""
        low, high = self.low[index], self.high[index]
        return "" if low is None or high is None else f"{format_number(low)}–{format_number(high)}"


@dataclass(frozen=True)
class Mark:
    """What happened at the label with this index: something began there, or ended. Each kind has a
    glyph of its own."""

    index: int
    text: str
    is_end: bool = False
    kind: MarkKind = "alarm"


class Range(NamedTuple):
    """A link to the same chart over another time."""

    label: str
    url: str
    is_current: bool = False


def line(
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    *,
    top: float | None = None,
    band: Band | None = None,
    marks: Sequence[Mark] = (),
    ranges: Sequence[Range | tuple[str, str, bool]] = (),
    is_large: bool = False,
) -> SafeString:
    """A line per series, from zero to *top* (by default a round number above the maximum).

    *top* is for the left axis, on which a *band* lies, too. The right one, if any, ends at a round
    number. *ranges* are links above the chart.
    """
    values = _values_of([each for each in series if not each.on_right])
    values += [value for value in band.high if value is not None] if band else []
    frame = _Frame(title, labels, series, top or _round_top(values), band=band, marks=marks)
    frame.ranges = [Range(*each) for each in ranges]
    return frame.render(
        "line",
        lines=[_Line.of(each, frame) for each in frame.series],
        areas=list(_areas(frame)),
        marks=list(_marks(frame)),
        said_marks=[(labels[mark.index], mark) for mark in marks[-MAX_MARKS_SAID:]],
        more_marks=max(0, len(marks) - MAX_MARKS_SAID),
        is_large=is_large,
        desc=_describe_lines(frame),
    )


def bars(
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    *,
    ranges: Sequence[Range | tuple[str, str, bool]] = (),
) -> SafeString:
    """A bar per label, with the values of all series stacked."""
    sums = _sums(labels, series)
    frame = _Frame(title, labels, series, _round_top(sums), is_bars=True)
    frame.ranges = [Range(*each) for each in ranges]
    return frame.render("bars", parts=list(_parts(frame)), desc=_describe_bars(frame, sums))


def spark(values: Sequence[ChartValue], *, top: float | None = None) -> SafeString:
    """A line without axes, as short as possible, hidden from screen readers: its numbers are beside
    it. The style sheet of its place gives its size."""
    top = top or _round_top([value for value in values if value is not None])
    heights = [
        None if value is None else round(SPARK_HEIGHT * min(value, top) / top) for value in values
    ]
    return format_html(
        '<svg viewBox="0 -2 {} {}" preserveAspectRatio="none" aria-hidden="true">'
        '<path d="{}"/></svg>',
        max(1, len(values) - 1),
        SPARK_HEIGHT + 4,
        "".join(_spark_paths(heights)),
    )


def day_label(day: date) -> str:
    """The day as a label, like "3 Nov"."""
    return f"{day.day} {day:%b}"


def format_number(value: ChartValue) -> str:
    """The number as an integer or with one decimal; "–" for None."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


# --- Both kinds -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Tick:
    """A label of an axis; *at* is a percentage of its length."""

    text: str
    at: float
    anchor: str = "middle"


class _Frame:
    """The axes, the legend, and the table around a drawing. Positions are percentages."""

    def __init__(
        self,
        title: str,
        labels: Sequence[str],
        series: Sequence[Series],
        top: float,
        is_bars: bool = False,
        band: Band | None = None,
        marks: Sequence[Mark] = (),
    ) -> None:
        self.title, self.labels, self.top, self.is_bars = title, labels, top, is_bars
        self.band, self.marks = band, marks
        self.ranges: list[Range] = []
        on_right = [each for each in series if each.on_right]
        self.right_top = _round_top(_values_of(on_right)) if on_right else None
        self.series = list(_toned(series))

    def x(self, index: int) -> float:
        """The center of a label's slot."""
        count = len(self.labels)
        if self.is_bars:
            return 100 * (index + 0.5) / count
        return 100 * index / (count - 1) if count > 1 else 50.0

    def top_of(self, series: Series) -> float:
        return self.right_top if series.on_right and self.right_top else self.top

    def height(self, value: float) -> float:
        return 100 * min(value, self.top) / self.top

    def render(self, kind: str, **drawing: object) -> SafeString:
        values = _values_of(self.series)
        context = {
            "kind": kind,
            "id": f"chart-{slugify(self.title)}",
            "title": self.title,
            "series": self.series,
            "band": self.band,
            "is_empty": not any(values) if self.is_bars else not values,
            "across": list(self._x_ticks()),
            "upwards": _upward_ticks(self.top),
            "rightwards": _upward_ticks(self.right_top) if self.right_top else [],
            "ranges": self.ranges,
            # Two scales have names, not only colors.
            "left_name": self._axis_name(on_right=False),
            "right_name": self._axis_name(on_right=True),
            "rows": [
                (label, [*self._numbers(index), *self.notes(index)])
                for index, label in enumerate(self.labels)
            ],
            "columns": [
                *((each.name, each, self.top_of(each)) for each in self.series),
                *([(self.band.name, None, None)] if self.band else []),
                *([("Notes", None, None)] if self.marks else []),
            ],
            **drawing,
        }
        return _render(kind, context)

    def _axis_name(self, *, on_right: bool) -> str:
        names = [
            each.name
            for each in self.series
            if each.on_right is on_right and not each.is_dotted and self.right_top
        ]
        return ", ".join(names)

    def _numbers(self, index: int) -> list[str]:
        return [format_number(each.values[index]) for each in self.series]

    def notes(self, index: int) -> list[str]:
        """What the band and the marks say at a label, each of them possibly empty."""
        notes = [self.band.text(index)] if self.band else []
        if self.marks:
            notes.append("; ".join(mark.text for mark in self.marks if mark.index == index))
        return notes

    def _x_ticks(self) -> Iterator[_Tick]:
        last = len(self.labels) - 1
        step = max(1, math.ceil(last / (MAX_LABELS - 1)))
        # From the end, because people look for the newest.
        for index in range(last, -1, -step):
            at = self.x(index)
            anchor = "end" if at > 95 else "start" if at < 5 else "middle"
            yield _Tick(self.labels[index], at, anchor)


def _upward_ticks(top: float) -> list[_Tick]:
    return [_Tick(format_number(top * part), 100 - 100 * part) for part in (0, 0.5, 1)]


def _toned(series: Sequence[Series]) -> Iterator[Series]:
    """The series, each with a tone."""
    before = None
    for index, each in enumerate(series):
        before = each.tone or (each.is_dotted and before) or index % TONE_COUNT + 1
        yield replace(each, tone=before)


def _values_of(series: Sequence[Series]) -> list[float]:
    return [value for each in series for value in each.values if value is not None]


def _round_top(values: Sequence[float]) -> float:
    """A round number, at least the maximum, whose half is round, too."""
    maximum = max(values, default=0)
    if maximum <= 2:
        return 2
    unit: float = 10 ** math.floor(math.log10(maximum))
    tops = (unit * step for step in (1, 2, 3, 4, 5, 6, 8, 10))
    return next(top for top in tops if top >= maximum and top % 2 == 0)


def _render(kind: str, context: Mapping[str, object]) -> SafeString:
    return render_to_string(f"engagement/charts/{kind}.html", dict(context))


# --- Lines ----------------------------------------------------------------------------------

# A path cannot use percentages, so it is drawn in a square of this size, which is stretched.
SQUARE = 1000


@dataclass(frozen=True)
class _Line:
    tone: int | None
    stroke: str
    paths: list[str]
    # Percentages: points without a neighbor to connect with, and the last point.
    dots: list[tuple[float, float]]

    @classmethod
    def of(cls, series: Series, frame: _Frame) -> Self:
        runs = list(_runs(series.values, frame.top_of(series)))
        dots = [run[0] for run in runs if len(run) == 1]
        if runs and len(runs[-1]) > 1 and not series.is_dotted:
            dots.append(runs[-1][-1])
        return cls(
            series.tone,
            series.stroke,
            [_path(run) for run in runs if len(run) > 1],
            [(x * 100 / SQUARE, y * 100 / SQUARE) for x, y in dots],
        )


def _runs(values: Sequence[ChartValue], top: float) -> Iterator[list[tuple[float, float]]]:
    """The points between gaps, in coordinates of the square."""
    last = len(values) - 1
    points = [
        (
            SQUARE * index / last if last else SQUARE / 2,
            None if value is None else SQUARE * (1 - min(value, top) / top),
        )
        for index, value in enumerate(values)
    ]
    for is_gap, run in groupby(points, key=lambda point: point[1] is None):
        if not is_gap:
            yield [(x, y) for x, y in run if y is not None]


def _areas(frame: _Frame) -> Iterator[str]:
    """The outline of each part of the band between gaps: along its top, and back below."""
    if frame.band is None:
        return
    highs = list(_runs(frame.band.high, frame.top))
    lows = list(_runs(frame.band.low, frame.top))
    for high, low in zip(highs, lows, strict=True):
        yield f"{_path([*high, *reversed(low)])}Z"


def _path(run: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in run)


def _marks(frame: _Frame) -> Iterator[tuple[float, int, Mark]]:
    """Each mark with its place, and how far it stands below the top."""
    depths = Counter[int]()
    for mark in frame.marks:
        yield frame.x(mark.index), 12 * depths[mark.index], mark
        depths[mark.index] += 1


def _describe_lines(frame: _Frame) -> str:
    if not _values_of(frame.series):
        return "No data yet."
    texts = [_describe_line(each, frame.labels) for each in frame.series]
    if frame.band and (usual := frame.band.text(len(frame.labels) - 1)):
        texts.append(f"{frame.band.name}: {usual} on {frame.labels[-1]}.")
    texts += [f"{frame.labels[mark.index]}: {mark.text}." for mark in frame.marks]
    return " ".join(texts)


def _describe_line(series: Series, labels: Sequence[str]) -> str:
    points = [
        (value, label)
        for value, label in zip(series.values, labels, strict=True)
        if value is not None
    ]
    if not points:
        return f"{series.name}: no data yet."
    low, high = min(points, key=itemgetter(0)), max(points, key=itemgetter(0))
    return (
        f"{series.name}: {format_number(points[-1][0])} on {points[-1][1]}, "
        f"highest {format_number(high[0])} on {high[1]}, "
        f"lowest {format_number(low[0])} on {low[1]}."
    )


# --- Bars -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    tone: int | None
    x: float
    y: float
    width: float
    height: float


def _sums(labels: Sequence[str], series: Sequence[Series]) -> list[float]:
    return [sum(each.values[index] or 0 for each in series) for index in range(len(labels))]


def _parts(frame: _Frame) -> Iterator[_Part]:
    width = 100 / max(1, len(frame.labels)) * BAR_WIDTH_SHARE
    for index in range(len(frame.labels)):
        filled = 0.0
        for each in frame.series:
            height = frame.height(each.values[index] or 0)
            filled += height
            if height:
                yield _Part(each.tone, frame.x(index) - width / 2, 100 - filled, width, height)


def _describe_bars(frame: _Frame, sums: Sequence[float]) -> str:
    if not any(sums):
        return "None."
    totals = [
        f"{each.name} {format_number(sum(value or 0 for value in each.values))}"
        for each in frame.series
    ]
    highest = max(range(len(sums)), key=lambda index: sums[index])
    return (
        f"{format_number(sum(sums))} in total: {', '.join(totals)}. "
        f"Most on {frame.labels[highest]}: {format_number(sums[highest])}."
    )


# --- Small lines ----------------------------------------------------------------------------

SPARK_HEIGHT = 40


def _spark_paths(heights: Sequence[int | None]) -> Iterator[str]:
    """A path for each run between gaps: its start, and steps to the right."""
    for is_gap, run in groupby(enumerate(heights), key=lambda point: point[1] is None):
        if not is_gap:
            points = [(index, height) for index, height in run if height is not None]
            start, moves = points[0], [a - b for (_, a), (_, b) in pairwise(points)]
            steps = "".join(_step(move, len(list(equal))) for move, equal in groupby(moves))
            yield f"M{start[0]} {SPARK_HEIGHT - start[1]}{steps}"


def _step(move: int, count: int) -> str:
    """A number of equal moves, one to the right and *move* down."""
    return f"h{count}" if move == 0 else f"l1 {move}" * count
